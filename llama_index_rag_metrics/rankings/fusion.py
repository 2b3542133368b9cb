"""Fusion: several runs as one, to see what a hybrid would bring before it is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean, pstdev
from typing import Literal, TypeAlias, TypeVar

from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.amounts import check_amount, check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput

Method: TypeAlias = Literal["rrf", "minmax", "zscore"]
T = TypeVar("T")

METHODS: tuple[Method, ...] = ("rrf", "minmax", "zscore")

Shares: TypeAlias = "tuple[dict[str, float], float]"
"""What a ranking gives to each of its ids, and what it gives to an id that it lacks."""


def fuse(
    runs: Mapping[str, Mapping[str, Ranking | Sequence[str]]],
    method: Method = "rrf",
    *,
    weights: Mapping[str, float] | None = None,
    k: float = 60,
    depth: int | None = None,
    name: str | None = None,
) -> Run:
    """Fuse runs into one: each id's score is a weighted sum of what the runs give to it.

    * "rrf", reciprocal rank fusion: 1 / (k + rank); nothing from a run that lacks the id. It needs
      no scores. Cormack, Clarke and Büttcher, SIGIR 2009.
    * "minmax": the score between the lowest, 0, and the highest, 1, of the run for this query; 1
      where all are equal.
    * "zscore": (score - mean) / standard deviation over the run's items for this query, the
      population's; 0 where all are equal.

    For the latter two an id that a run lacks counts as the run's lowest for this query (0 for
    "minmax"), and a run without any result, also a failed one, gives 0 to all. Repeated ids count
    at their first rank. Equal sums stand in order of their best rank in any run, then of their id,
    so that the order of the runs doesn't matter. Texts and spans are taken along; latency isn't, as
    a hybrid's depends on how it is built. A query failed only if every run failed on it.

    Args:
        runs: name to run: `Run`, or query id to ranking.
        method: "rrf", "minmax" or "zscore".
        weights: name to weight, 0 or more; 1 for a run that isn't named.
        k: the constant of "rrf", 0 or more; larger ones make the first ranks matter less.
        depth: keep only this many items; None keeps all.
        name: what to call the fused run; by default the method and the runs' names.

    Raises:
        InvalidInput: an argument can't be used; scores are missing, aren't finite, or rise with
            the rank as distances do.

    Examples:
        >>> hybrid = fuse({"bm25": {"q": ["a", "b"]}, "dense": {"q": ["b", "c"]}})
        >>> list(hybrid["q"].ids), hybrid.name  # b: 1/62 + 1/61, a: 1/61, c: 1/62
        (['b', 'a', 'c'], 'rrf(bm25, dense)')
    """
    if method not in METHODS:
        raise InvalidInput("method", method, " or ".join(map(repr, METHODS)))
    if not isinstance(runs, Mapping):
        raise InvalidInput("runs", runs, "a mapping of name to run")
    if len(runs) < 2:
        raise InvalidInput("runs", list(runs), "two runs or more")
    _check_weight("k", k)
    if depth is not None:
        check_integer("depth", depth, 1, "a whole number above 0, or None")
    weighed = _weights(runs, weights or {})
    ready = {name: run if isinstance(run, Run) else Run(run) for name, run in runs.items()}

    def shares_of(where: str, ranking: Ranking) -> Shares:
        if method == "rrf":
            return _reciprocal_ranks(ranking, k)
        return _NORMALISED[method](_scores(where, ranking))

    query_ids = dict.fromkeys(chain.from_iterable(ready.values()))
    return Run(
        {
            query_id: _fuse_query(
                query_id,
                {name: run[query_id] for name, run in ready.items() if query_id in run},
                shares_of,
                weighed,
                depth,
            )
            for query_id in query_ids
        },
        name=f"{method}({', '.join(runs)})" if name is None else name,
        stage="fusion",
    )


def _weights(runs: Mapping[str, object], weights: Mapping[str, float]) -> dict[str, float]:
    if unknown := [name for name in weights if name not in runs]:
        raise InvalidInput("weights", unknown, f"names of runs: {list(runs)}")
    for name, weight in weights.items():
        _check_weight(f"weight of {name!r}", weight)
    return {name: float(weights.get(name, 1.0)) for name in runs}


def _check_weight(argument: str, value: object) -> None:
    check_amount(argument, value, "a number of at least 0", lambda weight: 0 <= weight < math.inf)


def _fuse_query(
    query_id: str,
    rankings: Mapping[str, Ranking],
    shares_of: Callable[[str, Ranking], Shares],
    weights: Mapping[str, float],
    depth: int | None,
) -> Ranking:
    errors = [
        f"{name}: {ranking.error}"
        for name, ranking in rankings.items()
        if ranking.error is not None
    ]
    if len(errors) == len(rankings):
        return Ranking(error="; ".join(errors))
    parts = [
        (weights[name], shares_of(f"run {name!r}, query {query_id!r}", ranking))
        for name, ranking in rankings.items()
        if ranking.ids
    ]
    best_rank: dict[str, int] = {}
    for ranking in rankings.values():
        for rank, item in enumerate(dict.fromkeys(ranking.ids), start=1):
            best_rank[item] = min(rank, best_rank.get(item, rank))
    fused = {
        item: math.fsum(weight * shares.get(item, lacking) for weight, (shares, lacking) in parts)
        for item in best_rank
    }
    order = sorted(fused, key=lambda item: (-fused[item], best_rank[item], str(item)))[:depth]
    texts = _first_known((ranking.ids, ranking.texts) for ranking in rankings.values())
    spans = _first_known((ranking.ids, ranking.spans) for ranking in rankings.values())
    return Ranking(
        ids=order,
        scores=[fused[item] for item in order],
        texts=[texts[item] for item in order] if texts.keys() >= set(order) else None,
        spans=[spans.get(item) for item in order] if spans else None,
    )


def _first_known(
    columns: Iterable[tuple[Sequence[str], Sequence[T | None] | None]],
) -> dict[str, T]:
    """Id to its text or span, of the first run that has one."""
    known: dict[str, T] = {}
    for ids, values in columns:
        for item, value in zip(ids, values or (), strict=False):
            if value is not None:
                known.setdefault(item, value)
    return known


def _scores(where: str, ranking: Ranking) -> dict[str, float]:
    """Id to the retriever's score, at the id's first rank."""
    known = [score for score in ranking.scores or () if score is not None]
    if len(known) != len(ranking.ids):
        remedy = "Fuse by ranks: method='rrf'."
        raise InvalidInput(f"scores of {where}", ranking.scores, "a score of every item", remedy)
    scores: dict[str, float] = {}
    for item, score in zip(ranking.ids, known, strict=True):
        scores.setdefault(item, float(score))
    values = list(scores.values())
    if not all(map(math.isfinite, values)):
        raise InvalidInput(f"scores of {where}", values, "finite scores")
    if values[0] < values[-1]:
        remedy = "If they are distances, negate them, or fuse by ranks: method='rrf'."
        raise InvalidInput(f"scores of {where}", values, "higher scores first", remedy)
    return scores


def _reciprocal_ranks(ranking: Ranking, k: float) -> Shares:
    ids = dict.fromkeys(ranking.ids)
    return {item: 1 / (k + rank) for rank, item in enumerate(ids, start=1)}, 0.0


def _min_max(scores: Mapping[str, float]) -> Shares:
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0), 0.0
    return {item: (score - low) / (high - low) for item, score in scores.items()}, 0.0


def _z_scores(scores: Mapping[str, float]) -> Shares:
    mean, deviation = fmean(scores.values()), pstdev(scores.values())
    if deviation == 0:
        return dict.fromkeys(scores, 0.0), 0.0
    shares = {item: (score - mean) / deviation for item, score in scores.items()}
    return shares, min(shares.values())


_NORMALISED: Mapping[str, Callable[[Mapping[str, float]], Shares]] = {
    "minmax": _min_max,
    "zscore": _z_scores,
}
