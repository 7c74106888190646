"""A server for tests, of the standard library alone: the sandbox has no other Python.

What it does beyond the protocol is in its tools: it crashes, waits, floods, prints
garbage, changes its list, and writes down what it really did.
"""

from __future__ import annotations

import json
import os
import sys
import time

OBJECT = {"type": "object", "properties": {}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = ["echo", "crash", "wait", "flood", "broken", "picture", "grow", "environment"]


def tool(name):
    reads = {"readOnlyHint": True}
    return {"name": name, "description": f"To {name}", "inputSchema": TEXT} | {
        "annotations": reads
    }


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(number, text, **more):
    content = [{"type": "text", "text": text}]
    send({"id": number, "result": {"content": content, **more}})


def called(number, name, arguments):
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{name}\n")
    if name == "crash":
        os._exit(3)
    if name == "wait":
        return None  # and never answers
    if name == "flood":
        return answer(number, "x" * 10_000_000)
    if name == "broken":
        return answer(number, "it went wrong", isError=True)
    if name == "picture":
        block = {"type": "image", "mimeType": "image/png", "data": "AAAA" * 100}
        return send({"id": number, "result": {"content": [block]}})
    if name == "grow":
        NAMES.append("grown")
        send({"method": "notifications/tools/list_changed"})
    if name == "environment":
        return answer(number, json.dumps(dict(os.environ)))
    return answer(number, arguments.get("text", name))


def main():
    if "silent" in sys.argv:
        time.sleep(60)
    sys.stdout.write("this is no message\n")
    sys.stdout.flush()
    sys.stderr.write("starting\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            result = {
                "protocolVersion": version,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "scripted", "version": "1"},
                "instructions": "Call me gently.",
            }
            send({"id": number, "result": result})
        elif method == "tools/list":
            send({"id": number, "result": {"tools": [tool(name) for name in NAMES]}})
        elif method == "tools/call":
            params = message["params"]
            called(number, params["name"], params.get("arguments") or {})
        elif method == "notifications/cancelled":
            with open("ledger.txt", "a") as ledger:
                ledger.write("cancelled\n")
        elif number is not None:
            send({"id": number, "result": {}})


if __name__ == "__main__":
    main()
