"""Several retrievals for one question: what they add up to.

A call is one outermost retrieval; a session is the calls of one question, in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

from llama_index_rag_metrics.rankings.fusion import fuse
from llama_index_rag_metrics.rankings.run import PER_ITEM, Call, Items, Ranking, item_columns
from llama_index_rag_metrics.runtime.errors import InvalidInput

Combine: TypeAlias = Literal["first_seen", "last", "rrf", "context"]
"""What the ranking of a session is."""

_WAYS = get_args(Combine)

WRITTEN = re.compile(r"\s*(Sub question|Question): .*\n(Response|Answer): ", re.DOTALL)
"""How engines that ask several questions put their own answers beside what was retrieved."""


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
    check_combine(combine)
    if combine == "context":
        if context is None:
            expected = "what finally went to the model"
            remedy = "combine='first_seen' takes all that was retrieved."
            raise InvalidInput("context", None, expected, remedy)
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


def check_combine(combine: object) -> None:
    """Whether there is such a way to combine calls."""
    if combine not in _WAYS:
        raise InvalidInput("combine", combine, " or ".join(map(repr, _WAYS)))


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
