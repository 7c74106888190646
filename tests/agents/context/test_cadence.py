"""What the moves of the prune boundary cost, next to an optimum that knows the end."""

from __future__ import annotations

import importlib.util
import random
import statistics
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agents.context.cadence import Prices, RoundSize, worth_moving

KEEP, STUB = 6, 24
SIMULATION = Path(__file__).parents[4] / "shared" / "pruning" / "sim.py"
TABLES = {
    "write 1.25, read 0.1": Prices(0.1, 1.25),
    "write 1.0, read 0.1": Prices(0.1, 1.0),
    "read 0.25": Prices(0.25, 1.0),
    "read 0.5": Prices(0.5, 1.0),
    "uncached": Prices(1.0, 1.0),
}
Session = tuple[int, list[int], list[int]]


@pytest.fixture(scope="module")
def sim() -> ModuleType:
    if not SIMULATION.exists():
        pytest.skip("the pruning simulation is not beside this checkout")
    spec = importlib.util.spec_from_file_location("pruning_sim", SIMULATION)
    assert spec, "a file is there"
    assert spec.loader, "a Python file has one"
    module = importlib.util.module_from_spec(spec)
    source = SIMULATION.read_text(encoding="utf-8").removesuffix("main()\n")
    exec(compile(source.rstrip().removesuffix("\nmain()"), "sim", "exec"), vars(module))  # noqa: S102
    return module


def schedule(answers: list[int], results: list[int], prices: Prices) -> list[int]:
    """The boundary in each request of a session, as the policy moves it."""
    sizes = [
        RoundSize(a + min(t, STUB), max(0, t - STUB))
        for a, t in zip(answers, results, strict=True)
    ]
    moves, boundary = [], 0
    for now in range(len(sizes) + 1):
        if now > KEEP and worth_moving(sizes[:now], boundary, KEEP, prices):
            boundary = now - KEEP
        moves.append(boundary)
    return moves


def ratios(sim: Any, sessions: list[Session], prices: Prices) -> list[float]:
    read, write = prices.read, prices.write
    return sorted(
        sim.cost_of(p, a, t, schedule(a, t, prices), read, write)
        / sim.offline(p, a, t, read, write)
        for p, a, t in sessions
    )


def drawn(make: Callable[[random.Random], Session], seed: int, n: int) -> list[Session]:
    rng = random.Random(seed)
    return [make(rng) for _ in range(n)]


def p95(values: list[float]) -> float:
    return values[int(len(values) * 0.95) - 1]


@pytest.mark.parametrize("table", TABLES)
def test_the_bill_stays_near_an_optimum_that_knows_the_end(sim: ModuleType, table: str):
    sessions = drawn(sim.session, 7, 40)  # the first of the simulation's hundred
    found = ratios(sim, sessions, TABLES[table])
    assert statistics.mean(found) <= 1.08
    assert p95(found) <= 1.18


def bursts(rng: random.Random) -> Session:
    """Mostly small results, and now and then a very large one."""
    n = rng.choice([10, 25, 60])
    results = [rng.choice([30, 60, 200, 200, 6000]) for _ in range(n)]
    return 3000, [rng.randint(30, 600) for _ in range(n)], results


def growing(rng: random.Random) -> Session:
    """Results that grow while the session lasts, in sessions of any length."""
    n = rng.randint(8, 90)
    results = [int(rng.uniform(20, 60) * (one + 1)) for one in range(n)]
    return 8000, [rng.randint(100, 900) for _ in range(n)], results


@pytest.mark.parametrize("make", [bursts, growing])
@pytest.mark.parametrize("table", TABLES)
def test_other_kinds_of_sessions_are_billed_near_the_optimum_too(
    sim: ModuleType, table: str, make: Callable[[random.Random], Session]
):
    found = ratios(sim, drawn(make, 11, 12), TABLES[table])
    assert statistics.mean(found) <= 1.08
    assert p95(found) <= 1.18


def test_without_a_cache_every_result_that_grows_old_is_pruned_at_once():
    sizes = [RoundSize(50, 100)] * 7
    assert worth_moving(sizes, 0, 6, Prices(1, 1))
    assert not worth_moving(sizes, 1, 6, Prices(1, 1))


def test_a_small_result_is_no_reason_to_write_a_long_suffix_again():
    sizes = [RoundSize(50, 10), *[RoundSize(4000, 0)] * 20]
    assert not worth_moving(sizes, 0, 6, Prices(0.1, 1.25))


def test_a_large_result_near_the_end_is_worth_a_move():
    sizes = [RoundSize(50, 30_000), *[RoundSize(100, 0)] * 6]
    assert worth_moving(sizes, 0, 6, Prices(0.1, 1.25))


def test_missing_prices_are_those_of_a_usual_cache():
    assert Prices.of(None, None, None, caches=True) == Prices(0.1, 1.0)
    assert Prices.of(None, None, None, caches=False) == Prices(1.0, 1.0)
    table = Prices.of(Decimal(3), Decimal("0.3"), Decimal("3.75"), caches=True)
    assert (round(table.read, 6), table.write) == (0.1, 1.25)
