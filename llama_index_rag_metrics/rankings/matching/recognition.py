"""Matching one query's texts, as a metric does that is asked for `match=text`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from llama_index_rag_metrics.rankings.matching.group_matcher import GroupMatcher, expected_groups
from llama_index_rag_metrics.rankings.matching.matcher import (
    Expected,
    TextMatcher,
    carry_costs,
    flatten,
    stand_ins,
)
from llama_index_rag_metrics.rankings.matching.matcher_names import named_matcher
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Run, has_order
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.cache import Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput, NoRetrieval, NotJudged


@dataclass(frozen=True)
class Matched:
    """What a matcher made of a run: rankings of expected ids, and what they are judged by.

    Attributes:
        matcher: the matcher's name.
        run: the rankings that are judged: expected ids, and the own ids of what covers nothing.
        relevance: query id to relevance; expected items known by text alone have ids of their own.
        stands_for: query id to, for each retrieved item, the ids that it stands for: of the
            expected items that it covers, or its own.
        passages: query id to expected id to its text or span, where it is known.
        errors: query id to error, where the matcher failed.
        notes: what a reader of the scores should know.
        label_note: that nothing was recognised at all, where so.
        usage: what the matcher asked of a model; None where nothing.

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


def recognise(
    name: str,
    expected_ids: RelevanceLike | None,
    retrieved_ids: Sequence[str] | None,
    expected_texts: Sequence[str] | None,
    retrieved_texts: Sequence[str] | None,
    retrieved_tokens: Sequence[int] | None = None,
) -> tuple[Relevance | None, list[str], list[int] | None]:
    """Relevance, the ranking of the expected items that a matcher recognised, and what they cost.

    Args:
        expected_ids: what is relevant; None or empty where it is known by its texts alone.
        retrieved_ids: the ids of what was retrieved; None where it has none.
        expected_texts: the text of each expected id, in the same order.
        retrieved_texts: the text of each retrieved item, best first.
        retrieved_tokens: the length in tokens of each of them.

    Examples:
        >>> recognise("text", None, ["n1", "n2"], ["geysers"], ["no moons", "water geysers here"])
        (Relevance(['expected text 1']), ['n1', 'expected text 1'], None)
    """
    matcher = named_matcher(name)
    if isinstance(matcher, GroupMatcher):
        return _by_group(matcher, expected_ids, retrieved_ids, retrieved_tokens)
    if not isinstance(matcher, TextMatcher):
        remedy = "Spans are with the nodes: evaluate(..., matcher=SpanMatcher(...))."
        raise InvalidInput("match", name, "a matcher of texts", remedy)
    if retrieved_texts is None:
        raise NoRetrieval("retrieved_texts")
    if retrieved_ids is not None and not has_order(retrieved_ids):
        raise InvalidInput("retrieved_ids", retrieved_ids, "a list, best first")
    if not has_order(retrieved_texts) or not all(isinstance(text, str) for text in retrieved_texts):
        raise InvalidInput("retrieved_texts", retrieved_texts, "a list of texts, best first")
    if expected_texts is None:
        if expected_ids is None:
            raise NotJudged
        remedy = f"match={name} compares texts; without it, ids are compared."
        raise InvalidInput("expected_texts", None, "the text of each expected id", remedy)
    own = [f"retrieved text {n}" for n, _ in enumerate(retrieved_texts, 1)]
    ids = own if retrieved_ids is None else list(retrieved_ids)
    if len(ids) != len(retrieved_texts):
        needed = f"a text for each of the {len(ids)} retrieved ids"
        raise InvalidInput("retrieved_texts", len(retrieved_texts), needed)
    expected = Expected.of_texts(expected_ids, expected_texts)
    texts = expected.passages, tuple(retrieved_texts)
    matches = _remembered_match(matcher, *texts) if matcher.is_pure else matcher.match(*texts)
    stands_for = stand_ins(expected.ids, matches, ids)
    costs = None if retrieved_tokens is None else carry_costs(stands_for, ids, retrieved_tokens)
    return expected.relevance, flatten(stands_for), costs


def _by_group(
    matcher: GroupMatcher,
    expected_ids: RelevanceLike | None,
    retrieved_ids: Sequence[str] | None,
    retrieved_tokens: Sequence[int] | None,
) -> tuple[Relevance | None, list[str], list[int] | None]:
    """The same of groups, which need no texts."""
    if expected_ids is None:
        raise NotJudged
    if retrieved_ids is None:
        raise NoRetrieval("retrieved_ids")
    if not has_order(retrieved_ids):
        raise InvalidInput("retrieved_ids", retrieved_ids, "a list, best first")
    expected = expected_groups(Relevance.of(expected_ids))
    matches = matcher.match(expected.passages, retrieved_ids)
    stands_for = stand_ins(expected.ids, matches, retrieved_ids)
    tokens = retrieved_tokens
    costs = None if tokens is None else carry_costs(stands_for, retrieved_ids, tokens)
    return expected.relevance, flatten(stands_for), costs


@lru_cache(maxsize=8)
def _remembered_match(
    matcher: TextMatcher, expected: tuple[str, ...], retrieved: tuple[str, ...]
) -> list[list[int]]:
    """The last few: the metrics of one query share the work."""
    return matcher.match(expected, retrieved)
