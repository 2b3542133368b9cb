"""Why a retrieved item counts as an expected one, or doesn't."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.evaluation.retrieved.run_matching import match_run
from llama_index_rag_metrics.rankings.matching.id_matcher import GroupMatcher
from llama_index_rag_metrics.rankings.matching.matcher import Matcher
from llama_index_rag_metrics.rankings.matching.matcher_names import MatcherLike, as_matcher
from llama_index_rag_metrics.rankings.matching.normalisation import letters
from llama_index_rag_metrics.rankings.matching.span_matcher import SpanMatcher
from llama_index_rag_metrics.rankings.matching.text_matchers import ContainmentMatcher
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import numbers
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset


@dataclass(frozen=True, repr=False)
class MatchExplanation(Sentence):
    """Whether a retrieved item counts as a relevant one, and why; printed, it is the sentence.

    Attributes:
        is_match: whether it counts as the expected item that was asked about, or as any.
        expected_id: the expected item: the one asked about, else the one that it matches, else the
            nearest; None where none is near.
        compared: the retrieved and the expected item, as compared: ids, texts or spans; None where
            that isn't known.
        likeness: how alike they are; None where the matcher only says yes or no.
        threshold: the likeness from which they match.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset, explain_match
        >>> dataset = RetrievalDataset({"q": "?"}, expected_texts={"q": ["It has geysers."]})
        >>> run = Run({"q": Ranking(["n1"], texts=["It has rings."])})
        >>> explained = explain_match(run, dataset, "q", "n1", matcher="text")
        >>> explained.is_match, explained.likeness, explained.threshold
        (False, 0.125, 0.8)
    """

    is_match: bool
    expected_id: str | None
    compared: tuple[Any, Any]
    sentence: str
    likeness: float | None = None
    threshold: float | None = None

    def __str__(self) -> str:
        return self.sentence


def explain_match(
    run: Run,
    dataset: RetrievalDataset,
    query_id: str,
    item: str,
    expected_id: str | None = None,
    *,
    matcher: MatcherLike | None = None,
) -> MatchExplanation:
    """Explain why a retrieved item counts as an expected one, or why it doesn't.

    Args:
        run: what was retrieved, such as `results.run`; it has the ids that `match_on` chose.
        dataset: the dataset that it was retrieved for.
        query_id: the query.
        item: the id of a retrieved item.
        expected_id: the expected item to compare it with; by default all of the query.
        matcher: as in `evaluate`; None compares ids.

    Raises:
        InvalidInput: the item wasn't retrieved for the query, or the other isn't expected.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> dataset = RetrievalDataset({"q": "?"}, {"q": ["a"]}, corpus={"a": "It has geysers."})
        >>> run = Run({"q": Ranking(["n1"], texts=["Geysers? It has geysers."])})
        >>> print(explain_match(run, dataset, "q", "n1"))
        Not matched: id 'n1' isn't labelled; labelled: 'a'.
        >>> print(explain_match(run, dataset, "q", "n1", matcher="text"))
        Matched: text finds a likeness of 1.0000 between 'n1' and 'a'; 0.8 is needed.
    """
    ranking = run.get(query_id, Ranking())
    if item not in ranking.ids:
        raise InvalidInput("item", item, f"a passage that was retrieved for {query_id!r}")
    place = list(ranking.ids).index(item)
    texts = ranking.texts and [ranking.texts[place]]
    spans = ranking.spans and [ranking.spans[place]]
    ready, cache = as_matcher(matcher), Cache()
    relevance, stands_for = dataset.relevance.get(query_id), [item]
    own: Sequence[Any] | None = None
    passages: Mapping[str, Any] = {}
    if ready is not None:
        ready = ready.prepare(cache)
        one = Run({query_id: Ranking([item], texts=texts, spans=spans)})
        matched = match_run(one, dataset.select([query_id]), ready, cache=cache)
        if query_id in matched.errors:
            raise InvalidInput("matcher", ready.name, sentence=matched.errors[query_id])
        relevance, passages = matched.relevance.get(query_id), matched.passages[query_id]
        stands_for = matched.stands_for[query_id][0]
        own = spans if isinstance(ready, SpanMatcher) else texts
    grades = {} if relevance is None else relevance.grades
    if ready is None or isinstance(ready, GroupMatcher):
        own, passages = [item], {label: label for label in grades}
    asked = [label for label in grades if expected_id in (None, label)]
    if expected_id is not None and not asked:
        expected = f"a labelled passage of {query_id!r}: {join_first(list(map(repr, grades)))}"
        raise InvalidInput("expected_id", expected_id, expected)
    known = {label: passages[label] for label in asked if label in passages}
    likeness = _likeness(ready, known, own)
    nearness = likeness or _likeness(None if spans is own else ContainmentMatcher(), known, own)
    nearest = max(nearness, key=nearness.__getitem__) if any(nearness.values()) else None
    found = sorted(filter(asked.__contains__, stands_for), key=lambda label: grades[label] <= 0)
    label = found[0] if found else expected_id or nearest or ""
    is_match = bool(found) and grades[label] > 0
    threshold = _deciding(ready, likeness.get(label), is_found=bool(found))
    if found and not is_match:
        reason = f"{item!r} is {label!r}, whose grade is {numbers.given(grades[label])}"
    elif ready is None:
        reason = f"id {item!r} is labelled" if is_match else _other_id(item, label, asked, spans)
    elif threshold is not None:
        value = numbers.score(likeness[label], threshold)
        reason = f"{ready.name} finds a likeness of {value} between {item!r} and {label!r}"
        reason += f"; {numbers.given(threshold)} is needed"
    elif is_match:
        reason = f"by {ready.name}, {item!r} matches {label!r}"
    else:
        reason = f"by {ready.name}, {item!r} matches none of {len(asked)} labelled passages"
        near = f"; the nearest is {label!r}" if label in known else ""
        reason += near if near or not label else f"; no text or place of {label!r} is known"
    return MatchExplanation(
        is_match,
        label or None,
        (own[0] if own else None, known.get(label)),
        f"{'Matched' if is_match else 'Not matched'}: {reason}.",
        likeness.get(label),
        threshold,
    )


def _deciding(
    matcher: Matcher[Any] | None, likeness: float | None, *, is_found: bool
) -> float | None:
    """The matcher's threshold; None where it isn't by the likeness that it decided."""
    if matcher is None or likeness is None:
        return None
    return matcher.threshold if is_found == (likeness >= matcher.threshold - 1e-9) else None


def _likeness(
    matcher: Matcher[Any] | None, known: Mapping[str, Any], own: Sequence[Any] | None
) -> dict[str, float]:
    """How alike the item and each expected one are, where the matcher has a number for it."""
    if matcher is None or not own or own[0] is None or not known:
        return {}
    if (rows := matcher.likeness(list(known.values()), own)) is None:
        return {}
    values = zip(known, rows[0].tolist(), strict=True)
    return {label: value for label, value in values if not math.isnan(value)}


def _other_id(item: str, near: str, asked: list[str], spans: Sequence[Span | None] | None) -> str:
    source = spans[0].source if spans and spans[0] else None
    reason = f"labelled: {join_first(list(map(repr, asked)))}" if asked else "nothing is, by id"
    if source in asked and source != item:
        reason = f"its document {source!r} is: use match_on='ref_doc_id'"
    elif near and letters(near) == letters(item):
        reason = f"{near!r} is, which differs only in case, spaces or punctuation"
    elif near and len(asked) > 1:
        reason = f"the nearest is {near!r}"
    return f"id {item!r} isn't labelled; {reason}"
