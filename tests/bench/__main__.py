"""`make bench`: figures of the running product; writes bench/results/NAME.json.

python -m tests.bench [NAME...]

Times say something only beside the direct call of the same run: nothing is asserted.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from tests.harness.installation import Installation, running

NAMES = (
    "idle",
    "latency",
    "twenty",
    "stops",
    "tokens",
    "rounds",
    "pages",
    "crowd",
)


def main() -> int:
    wanted = sys.argv[1:] or list(NAMES)
    if unknown := [name for name in wanted if name not in NAMES]:
        say(f"Unknown: {', '.join(unknown)}. Known: {', '.join(NAMES)}.")
        return 2
    failed = 0
    with running() as installation:
        from tests.bench import history, server
        from tests.bench import tokens as token_figures
        from tests.harness.people import first_person

        owner = first_person(installation)
        for name in wanted:
            for module in (server, history, token_figures):
                if bench := getattr(module, name, None):
                    failed += not played(name, bench, installation, owner)
    return 1 if failed else 0


def played(name: str, bench: Any, installation: Installation, owner: Any) -> bool:
    """One bench; what breaks off is shown, and the others are still played."""
    say(f"{name}: {(bench.__doc__ or '').strip()}")
    try:
        results = bench(installation, owner)
    except Exception:  # noqa: BLE001 - shown, and the exit code says so
        say(traceback.format_exc())
        return False
    results.write()
    say(results.table())
    return True


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is a command


if __name__ == "__main__":
    sys.exit(main())
