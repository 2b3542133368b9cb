"""How long things take: everything in one process, best of several rounds, rounds interleaved.

Machines are noisy and differ; only ratios within one run mean anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_of(contestants: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Seconds of each contestant's fastest round; they take turns, so that noise hits all alike."""
    seconds = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds
