"""The names of the matchers, `kind[>=threshold]`, and matching by one: `recall(match=text)`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

from llama_index_rag_metrics.rankings.matching import text_matchers
from llama_index_rag_metrics.rankings.matching.id_matcher import GroupMatcher, expected_groups
from llama_index_rag_metrics.rankings.matching.matcher import (
    Expected,
    Matcher,
    TextMatcher,
    carry_costs,
    flatten,
    stand_ins,
)
from llama_index_rag_metrics.rankings.matching.span_matcher import SpanMatcher
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Run, has_order
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.cache.fetching import Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput, NoRetrieval, NotJudged

MatcherLike: TypeAlias = "Matcher[Any] | str"
"""A matcher, or the name of one."""

BY_ID = "id"
"""The name of comparing ids, which takes no matcher."""

MATCHERS: Mapping[str, Callable[[float | None], Matcher[Any]]] = {
    "text": text_matchers.ContainmentMatcher,
    "span": SpanMatcher,
    "group": GroupMatcher,
}
"""Kind to what makes a matcher of it, from its threshold or None."""


@lru_cache(maxsize=64)
def named_matcher(name: str) -> Matcher[Any] | None:
    """The matcher of that name, the same object each time; None for "id"."""
    kind, at_least, threshold = (part.strip() for part in str(name).partition(">="))
    if kind == BY_ID and not at_least:
        return None
    try:
        return MATCHERS[kind](float(threshold) if at_least else None)
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, InvalidInput):
            raise
        expected = f"one of {', '.join(map(repr, (BY_ID, *MATCHERS)))}"
        remedy = "A threshold is written behind it: 'text>=0.6'."
        raise InvalidInput("matcher", name, expected, remedy) from error


def as_matcher(matcher: MatcherLike | None) -> Matcher[Any] | None:
    if matcher is None or isinstance(matcher, Matcher):
        return matcher
    if isinstance(matcher, type):
        raise InvalidInput("matcher", matcher, "a matcher", f"Write {matcher.__name__}().")
    return named_matcher(matcher)


@dataclass(frozen=True)
class Matched:
    """What a matcher made of a run: rankings of expected ids, and what they are judged by.

    Attributes:
        matcher: the matcher's name.
        run: the rankings that are judged: expected ids, and the own ids of what covers nothing.
        relevance: query id to relevance; expected items known by text alone have ids of their own.
        stands_for: query id to, for each retrieved item, the ids that it stands for: of the
            expected items that it covers, or its own.
        in_calls: query id to the same by (id, text, span), of what only the calls of a ranking
            retrieved.
        passages: query id to expected id to its text or span, where it is known.
        errors: query id to error, where the matcher failed.
        notes: what a reader of the scores should know.
        label_note: that nothing was recognised at all, where so.
        usage: what the matcher asked of a model; None where nothing.
        repeats: the same of each run, if questions were asked several times.

    Examples:
        >>> from llama_index.core.schema import NodeWithScore, TextNode
        >>> from llama_index_rag_metrics import RetrievalDataset, evaluate
        >>> dataset = RetrievalDataset({"q1": "x?"}, expected_texts={"q1": ["Geysers."]})
        >>> node = TextNode(id_="new id", text="It has geysers. Geysers.")
        >>> retrieved = [NodeWithScore(node=node)]
        >>> results = evaluate(lambda query: retrieved, dataset, ["mrr"], matcher="text")
        >>> [matched] = results.matched.values()
        >>> matched.matcher, matched.passages["q1"]
        ('text', {'expected text 1': 'Geysers.'})
    """

    matcher: str
    run: Run
    relevance: Mapping[str, Relevance]
    stands_for: Mapping[str, list[list[str]]]
    passages: Mapping[str, Mapping[str, str | Span]]
    errors: Mapping[str, str]
    notes: tuple[str, ...] = ()
    label_note: str | None = None
    usage: Usage | None = None
    in_calls: Mapping[str, Mapping[Hashable, list[str]]] = field(default_factory=dict)
    repeats: tuple[Matched, ...] = ()

    @classmethod
    def of_repeats(cls, repeats: Sequence[Matched]) -> Matched:
        """What it made of the first run, and of each."""
        runs = [each.run for each in repeats]
        about = runs[0].replaced(Run(repeats=runs), repeats=runs)
        return replace(repeats[0], run=about, repeats=tuple(repeats))


def recognise(
    name: str,
    expected_ids: RelevanceLike | None,
    retrieved_ids: Sequence[str] | None,
    expected_texts: Sequence[str] | None,
    retrieved_texts: Sequence[str] | None,
    retrieved_tokens: Sequence[int] | None = None,
) -> tuple[Relevance | None, list[str], list[int] | None]:
    """Relevance, the ranking of expected items that a matcher recognised, and what they cost."""
    matcher = named_matcher(name)
    if isinstance(matcher, GroupMatcher):
        if expected_ids is None:
            raise NotJudged
        if retrieved_ids is None:
            raise NoRetrieval("retrieved_ids")
        ids = _in_order(retrieved_ids)
        expected = expected_groups(Relevance.of(expected_ids))
        matches = matcher.match(expected.passages, ids)
    elif isinstance(matcher, TextMatcher):
        if retrieved_texts is None:
            raise NoRetrieval("retrieved_texts")
        own = [f"retrieved text {n}" for n, _ in enumerate(retrieved_texts, 1)]
        ids = own if retrieved_ids is None else _in_order(retrieved_ids)
        if not has_order(retrieved_texts) or not all(isinstance(t, str) for t in retrieved_texts):
            raise InvalidInput("retrieved_texts", retrieved_texts, "a list of texts, best first")
        if expected_texts is None:
            if expected_ids is None:
                raise NotJudged
            remedy = f"match={name} compares texts; without it, ids are compared."
            raise InvalidInput("expected_texts", None, "the text of each expected id", remedy)
        if len(ids) != len(retrieved_texts):
            needed = f"a text for each of the {len(ids)} retrieved ids"
            raise InvalidInput("retrieved_texts", len(retrieved_texts), needed)
        expected = Expected.of_texts(expected_ids, expected_texts)
        match = _remembered_match if matcher.is_pure else type(matcher).match
        matches = match(matcher, expected.passages, tuple(retrieved_texts))
    else:
        remedy = "Spans are with the nodes: evaluate(..., matcher=SpanMatcher(...))."
        raise InvalidInput("match", name, "a matcher of texts", remedy)
    stands_for = stand_ins(expected.ids, matches, ids)
    costs = None if retrieved_tokens is None else carry_costs(stands_for, ids, retrieved_tokens)
    return expected.relevance, flatten(stands_for), costs


def _in_order(retrieved_ids: Sequence[str]) -> list[str]:
    if not has_order(retrieved_ids):
        raise InvalidInput("retrieved_ids", retrieved_ids, "a list, best first")
    return list(retrieved_ids)


@lru_cache(maxsize=8)
def _remembered_match(
    matcher: TextMatcher, expected: tuple[str, ...], retrieved: tuple[str, ...]
) -> list[list[int]]:
    return matcher.match(expected, retrieved)
