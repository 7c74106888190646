"""`make chaos`: kill, flood and cut a real installation; exit 1 if a promise broke.

python -m tests.chaos [NAME...] [--scale 0.1] [--seed 7] [--minutes 30]

Without names every scenario is played, one after another, on one installation in a
temporary folder. KEEP_INSTALLATION=1 leaves that folder behind.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import signal
import sys
import threading
import time
import traceback
from typing import Any

from tests.chaos.report import Report, table
from tests.harness.installation import running

SCENARIOS = ("posting", "stops", "faults", "viewers", "drain", "broker", "kills")
#: Short leases, so that a lost worker is noticed while somebody watches.
SETTINGS = {
    "RUN_LEASE_SECONDS": "2",
    "RUN_LEASE_RENEW_SECONDS": "0.5",
    "WORKER_SWEEP_SECONDS": "1",
    "SWEEP_SECONDS": "2",
    "DRAIN_SECONDS": "10",
    "PROVIDER_FIRST_BYTE_SECONDS": "4",
    "PROVIDER_IDLE_SECONDS": "4",
}


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, end)
    clock = threading.Timer(
        options.minutes * 60, os.kill, (os.getpid(), signal.SIGTERM)
    )
    clock.daemon = True
    clock.start()
    reports = play(options)
    lines = [line for report in reports for line in report.lines]
    violations = [one for report in reports for one in report.violations]
    say(table(lines))
    for violation in violations:
        say(f"VIOLATION {violation}")
    say(f"seed {options.seed}: {len(violations)} violations in {len(lines)} lines")
    return 1 if violations or not lines else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.chaos", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of all rounds")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--minutes", type=float, default=40, help="most it may take")
    options = parser.parse_args()
    if unknown := set(options.names) - set(SCENARIOS):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(SCENARIOS)}")
    return options


def play(options: argparse.Namespace) -> list[Report]:
    reports = []
    with running(**SETTINGS) as installation:
        from tests.chaos.promises import check_all
        from tests.chaos.world import World
        from tests.harness.people import first_person

        owner = first_person(installation)
        world = World(installation, owner, options.scale, random.Random(options.seed))
        for name in options.names or SCENARIOS:
            reports.append(play_one(name, world))
        reports.append(guarded("promises", lambda report: check_all(world, report)))
        if any(report.violations for report in reports):
            say(f"-- the end of up.log\n{installation.up.printed[-6000:]}")
    return reports


def play_one(name: str, world: Any) -> Report:
    scenario = importlib.import_module(f"tests.chaos.{name}")
    begun = time.monotonic()
    say(f"== {name}: {(scenario.__doc__ or '').splitlines()[0]}")
    report = guarded(name, lambda report: scenario.run(world, report))
    say(table(report.lines) if report.lines else "nothing was checked")
    say(f"   {time.monotonic() - begun:.0f} s")
    return report


def guarded(name: str, work: Any) -> Report:
    """A scenario that breaks off is a violation; the others are still played."""
    report = Report(name)
    try:
        work(report)
    except Exception:  # noqa: BLE001 - whatever it was, it goes into the report
        report.check("the scenario was played to its end", [traceback.format_exc()])
    return report


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is a command


def end(number: int, frame: object) -> None:
    raise SystemExit("Out of time, or asked to end.")


if __name__ == "__main__":
    sys.exit(main())
