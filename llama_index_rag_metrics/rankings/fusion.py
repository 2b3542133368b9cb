"""Several retrievals as one: runs fused into a hybrid, and the calls of a question combined."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from statistics import fmean, pstdev
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from llama_index_rag_metrics.rankings.run import PER_ITEM, Call, Items, Ranking, Run, item_columns
from llama_index_rag_metrics.runtime.amounts import check_amount, check_choice, check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput

Method: TypeAlias = Literal["rrf", "minmax", "zscore"]
T = TypeVar("T")

METHODS: tuple[Method, ...] = get_args(Method)

Combine: TypeAlias = Literal["first_seen", "last", "rrf", "context"]
"""How the calls of a session make its ranking."""

WRITTEN = re.compile(r"\s*(Sub question|Question): .*\n(Response|Answer): ", re.DOTALL)
"""How engines that ask several questions put their own answers beside what was retrieved."""

Shares: TypeAlias = "tuple[dict[str, float], float]"
"""Id to the share that a ranking gives it, and the share of an id that it lacks."""


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
    check_choice("method", method, METHODS)
    if not isinstance(runs, Mapping):
        raise InvalidInput("runs", runs, "a mapping of name to run")
    if len(runs) < 2:
        raise InvalidInput("runs", list(runs), "two runs or more")
    if unknown := [named for named in weights or {} if named not in runs]:
        raise InvalidInput("weights", unknown, f"names of runs: {list(runs)}")
    amounts = {f"weight of {named!r}": weight for named, weight in (weights or {}).items()}
    for argument, value in {"k": k, **amounts}.items():
        check_amount(argument, value, "a number of at least 0", lambda n: 0 <= n < math.inf)
    if depth is not None:
        check_integer("depth", depth, 1, "a whole number above 0, or None")
    weighed = {named: float((weights or {}).get(named, 1.0)) for named in runs}
    ready = {named: run if isinstance(run, Run) else Run(run) for named, run in runs.items()}
    query_ids = dict.fromkeys(chain.from_iterable(ready.values()))
    shares = partial(_shares, method, k)
    fused = {}
    for query_id in query_ids:
        known = {named: run[query_id] for named, run in ready.items() if query_id in run}
        fused[query_id] = _fuse_query(query_id, known, shares, weighed, depth)
    name = f"{method}({', '.join(runs)})" if name is None else name
    return Run(fused, name=name, stage="fusion")


def _fuse_query(
    query_id: str,
    rankings: Mapping[str, Ranking],
    shares_of: Callable[[str, Ranking], Shares],
    weights: Mapping[str, float],
    depth: int | None,
) -> Ranking:
    errors = [f"{name}: {run.error}" for name, run in rankings.items() if run.error is not None]
    if len(errors) == len(rankings):
        return Ranking(error="; ".join(errors))
    parts = [
        (weights[name], shares_of(f"run {name!r}, question {query_id!r}", ranking))
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
    known: dict[str, T] = {}
    for ids, values in columns:
        for item, value in zip(ids, values or (), strict=False):
            if value is not None:
                known.setdefault(item, value)
    return known


def _shares(method: Method, k: float, where: str, ranking: Ranking) -> Shares:
    if method == "rrf":
        ids = dict.fromkeys(ranking.ids)
        return {item: 1 / (k + rank) for rank, item in enumerate(ids, start=1)}, 0.0
    scores = _scores(where, ranking)
    values = scores.values()
    if method == "minmax":
        low, high = min(values), max(values)
        if high == low:
            return dict.fromkeys(scores, 1.0), 0.0
        return {item: (score - low) / (high - low) for item, score in scores.items()}, 0.0
    mean, deviation = fmean(values), pstdev(values)
    if deviation == 0:
        return dict.fromkeys(scores, 0.0), 0.0
    shares = {item: (score - mean) / deviation for item, score in scores.items()}
    return shares, min(shares.values())


def _scores(where: str, ranking: Ranking) -> dict[str, float]:
    known = [score for score in ranking.scores or () if score is not None]
    if len(known) != len(ranking.ids):
        remedy = "Fuse by ranks: method='rrf'."
        raise InvalidInput(f"scores of {where}", ranking.scores, "a score of every passage", remedy)
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


def combine_calls(
    calls: Sequence[Call], combine: Combine = "first_seen", context: Ranking | None = None
) -> Ranking:
    """Combine the calls of one question into its ranking.

    * "first_seen": its calls' items one after another, copies dropped. Scores of different calls
      don't compare: they are kept only where one call alone retrieved anything.
    * "last": what its last call retrieved.
    * "rrf": reciprocal rank fusion of its calls, as `fuse` does it.
    * "context": what finally went to the model.

    Its latency is the sum of its calls', where all are known. A call that failed retrieved nothing;
    whether the question failed is for the caller to say.

    Args:
        calls: the calls, in order; none is a session that retrieved nothing.
        combine: one of the ways above.
        context: what finally went to the model; for "context".

    Raises:
        InvalidInput: `combine` names no such way, or needs a `context` that isn't known.

    Examples:
        >>> calls = [Call(["a", "b"], query="x"), Call(["b", "c"], query="y")]
        >>> [list(combine_calls(calls, how).ids) for how in ("first_seen", "last", "rrf")]
        [['a', 'b', 'c'], ['b', 'c'], ['b', 'a', 'c']]
    """
    check_choice("combine", combine, get_args(Combine))
    if combine == "context":
        if context is None:
            remedy = "combine='first_seen' takes all that was retrieved."
            raise InvalidInput("context", None, "what finally went to the model", remedy)
        columns = item_columns(context)
    elif combine == "last":
        columns = item_columns(calls[-1]) if calls else {}
    elif combine == "rrf":
        columns = item_columns(_fused(calls))
    else:
        columns = _first_seen(calls)
    seconds = [call.latency for call in calls if call.latency is not None]
    latency = sum(seconds) if calls and len(seconds) == len(calls) else None
    return Ranking(**columns, latency=latency, calls=tuple(calls), context=context)


def _first_seen(calls: Sequence[Items]) -> dict[str, Any]:
    answered = [call for call in calls if call.ids]
    first: dict[str, int] = {}
    for place, item in enumerate(chain.from_iterable(call.ids for call in answered)):
        first.setdefault(item, place)
    columns: dict[str, Any] = {"ids": []}
    for name in PER_ITEM:
        of_calls = [getattr(call, name) for call in answered]
        is_comparable = name != "scores" or len(answered) == 1
        if is_comparable and answered and not any(column is None for column in of_calls):
            values = [*chain.from_iterable(of_calls)]
            columns[name] = [values[place] for place in first.values()]
    return columns


def _fused(calls: Iterable[Call]) -> Ranking:
    answered = [call.ranking for call in calls if call.ids]
    if len(answered) < 2:
        return Ranking(**_first_seen(answered))
    fused = fuse({str(number): {"": ranking} for number, ranking in enumerate(answered)})[""]
    tokens: dict[str, int] = {}
    for ranking in answered:
        if ranking.tokens is None:
            return fused
        tokens.update(zip(ranking.ids, ranking.tokens, strict=True))
    return replace(fused, tokens=[tokens[item] for item in fused.ids])
