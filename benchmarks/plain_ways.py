"""What two pieces of code that aren't plain gain: `python benchmarks/plain_ways.py`.

`rankings/judging/lists.py` takes ids for strings and catches the TypeError of those that are not;
the plain way asks each id first. `scores/scoring/totals.py` adds floats exactly by bit operations
on columns; the plain way is a sum of fractions. `math.fsum` is exact, too, but its sums of parts do
not add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from measure import Row, console_table, rounds_of, times
from rich import print as show

from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.scores.scoring.totals import ExactSum

QUERIES, RETRIEVED, RELEVANT, SCORES = 10_000, 100, 5, 200_000


def judging() -> dict[str, Callable[[], object]]:
    """Judging lists of ids, with and without a look at each id before."""
    relevance = [[f"q{query}-d{n}" for n in range(0, 2 * RELEVANT, 2)] for query in range(QUERIES)]
    rankings = [[f"q{query}-d{n}" for n in range(RETRIEVED)] for query in range(QUERIES)]

    def asking() -> None:
        for ids in (*relevance, *rankings):
            assert all(type(item) is str for item in ids)
        judge(relevance, rankings)

    return {"ours": lambda: judge(relevance, rankings), "plain": asking}


def summing() -> dict[str, Callable[[], object]]:
    """Sums of random floats; all exact, and the same."""
    scores = np.random.default_rng(3).random(SCORES)
    assert ExactSum.of(scores).value == math.fsum(scores) == float(sum(map(Fraction, scores)))
    return {
        "ours": lambda: ExactSum.of(scores),
        "plain": lambda: sum(map(Fraction, scores)),
        "math.fsum": lambda: math.fsum(scores),
    }


def main() -> None:
    """Print how many times as long the plain ways take."""
    tasks: Mapping[str, dict[str, Callable[[], object]]] = {
        f"judge() of {QUERIES:,} × {RETRIEVED} ids": judging(),
        f"exact sum of {SCORES:,} scores": summing(),
    }
    rows = []
    for task, contestants in tasks.items():
        seconds = rounds_of(contestants, 7)
        for way in list(contestants)[1:]:
            rows.append(Row(task, way, times(seconds, way, "ours")))
    show(console_table("The plain way against ours", rows))


if __name__ == "__main__":
    main()
