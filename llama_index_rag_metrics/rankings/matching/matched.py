"""Matching a run: what retrieved items stand for, by their texts, their places or a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product, repeat, starmap
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking, Run
from llama_index_rag_metrics.rankings.span import Span, stored_span
from llama_index_rag_metrics.runtime.containers import FloatArray, map_values, picked, present
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error, shorten

from .likeness import CONTAINED, likeness, same_text

MatcherLike: TypeAlias = "str | Callable[[Sequence[str], Sequence[str]], npt.ArrayLike]"
"""`"text"`, `"span"`, or a function of expected and retrieved texts; see `match_run`."""

BY_ID, BY_TEXT, BY_SPAN = "id", "text", "span"

_RECOGNISED = "passages are recognised by {matcher}, not by ids"
_NOTHING_FOUND = "{matcher} finds no labelled passage in what was retrieved: all scores are 0"
_FAILED = (
    "{matcher} failed on {failed:,} of {questions:,} questions, where its metrics have no value; "
    "{question!r}: {error}"
)
_UNLIKE = (
    "Credited without being the text of a label: {unlike:,} of {credited:,} passages; the lowest "
    "likeness is {lowest} %: {text} was retrieved for {label}"
)
_IN_PART = (
    "Labelled passages retrieved in part, which count as missed: {n:,}. Labels of whole chunks "
    "favour their own chunking: move them, or label just what answers (expected_texts)"
)
_LIMITS = {BY_TEXT: (0.5, CONTAINED), BY_SPAN: (0.1, 0.5)}  # shares: of a part, of a match


class Labelled(Protocol):
    """What matching reads of a dataset."""

    queries: dict[str, str]
    relevance: dict[str, Relevance]
    expected_texts: dict[str, list[str]]
    corpus: dict[str, str]
    document_metadata: dict[str, dict[str, Any]]

    def indexed_text(self, item: str, /) -> str: ...


@dataclass(frozen=True)
class Expected:
    """What a query expects: its labels, and the texts or spans that are known of them."""

    relevance: Relevance | None
    passages: Mapping[str, Any]  # id to text or span, best grade first

    @classmethod
    def of(cls, relevance: Relevance, passages: Mapping[str, Any]) -> Expected:
        best_first = sorted(relevance.grades, key=lambda item: -relevance.grades[item])
        return cls(relevance, picked(passages, best_first))

    @classmethod
    def of_texts(cls, relevance: RelevanceLike | None, texts: Sequence[str]) -> Expected:
        """Relevance and a text for each relevant or each judged id; or the texts alone."""
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidInput("expected_texts", texts, "a list of texts")
        judged = None if relevance is None else as_relevance(relevance)
        if texts and (judged is None or not judged.grades):
            named = {f"expected text {n}": text for n, text in enumerate(dict.fromkeys(texts), 1)}
            return cls.of(Relevance(named.keys()), named)
        if judged is None:
            return cls(None, {})
        for ids in (judged, judged.grades):
            if len(ids) == len(texts):
                return cls.of(judged, dict(zip(ids, texts, strict=True)))
        expected = f"a text for each of the {len(judged)} expected ids, in the same order"
        raise InvalidInput("expected_texts", list(texts), expected)

    @classmethod
    def by_text(cls, dataset: Labelled, query_id: str) -> Expected:
        """The expected texts of a query: its own, or those that the corpus has."""
        relevance = dataset.relevance.get(query_id)
        texts = dataset.expected_texts.get(query_id, ())
        if texts or relevance is None:
            return cls.of_texts(relevance, texts)
        items = picked(dataset.corpus, relevance.grades)
        return cls.of(relevance, {item: dataset.indexed_text(item) for item in items})

    @classmethod
    def by_span(cls, dataset: Labelled, query_id: str) -> Expected:
        """The expected places of a query: those of its labels, or of the documents' metadata."""
        relevance = dataset.relevance.get(query_id)
        if relevance is None:
            return cls(None, {})
        metadata = picked(dataset.document_metadata, relevance.grades)
        stored = present(map_values(stored_span, metadata))
        return cls.of(relevance, {**stored, **(relevance.spans or {})})


def as_matcher(matcher: MatcherLike | None) -> MatcherLike | None:
    if matcher is None or matcher == BY_ID:
        return None
    is_function = callable(matcher) and not isinstance(matcher, type)
    if is_function or matcher in (BY_TEXT, BY_SPAN):
        return matcher
    expected = f"{BY_ID!r}, {BY_TEXT!r}, {BY_SPAN!r}, or a function of expected and retrieved texts"
    raise InvalidInput("matcher", matcher, expected)


def _name(matcher: MatcherLike) -> str:
    if isinstance(matcher, str):
        return matcher
    return str(getattr(matcher, "__name__", type(matcher).__name__))


@dataclass(frozen=True)
class Matched:
    """What a matcher made of a run: rankings of expected ids, and what they are judged by."""

    matcher: str
    run: Run  # the rankings that are judged: expected ids, and the own ids of what covers nothing
    relevance: Mapping[str, Relevance]  # items known by text alone have ids of their own
    # query id to, for each retrieved item, the expected ids that it covers, or its own
    stands_for: Mapping[str, list[list[str]]]
    passages: Mapping[str, Mapping[str, str | Span]]  # query id to expected id to text or span
    errors: Mapping[str, str]  # query id to error, where the matcher failed
    notes: tuple[str, ...] = ()
    label_note: str | None = None  # a sentence where nothing was recognised at all
    unlike: str = ""  # a sentence on passages that are recognised without being the same text
    in_part: str = ""  # a sentence on passages of which nothing that was retrieved has enough
    repeats: tuple[Matched, ...] = ()  # the same of each run, if questions were asked several times


def match_run(run: Run, dataset: Labelled, matcher: MatcherLike) -> Matched:
    """Match what a run retrieved with what its dataset expects.

    `score_rankings(matched.relevance, matched.run, metrics)` scores what comes out; a query on
    which the matcher failed has its error.

    Args:
        run: what was retrieved, with texts, or with spans for "span".
        dataset: the dataset that it was retrieved for.
        matcher: "text": the passage is in the retrieved text or the other way round, by the share
            of common 5-grams (0.8 or more); "span": half of the passage's place is in the retrieved
            one; or a function of expected and retrieved texts, which returns a matrix of truth
            values: a row for each retrieved text, a column for each expected one.

    Raises:
        InvalidInput: nothing is known of any expected item, or there is no such matcher.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> dataset = RetrievalDataset({"q": "?"}, expected_texts={"q": ["Saturn has moons."]})
        >>> run = Run({"q": Ranking(["n1", "n2"], texts=["Mars is red.", "saturn has moons"])})
        >>> match_run(run, dataset, "text").stands_for["q"]
        [['n1'], ['expected text 1']]
    """
    if as_matcher(matcher) is None:
        raise InvalidInput("matcher", matcher, "a matcher of texts or spans")
    if run.repeats:
        repeats = tuple(match_run(time, dataset, matcher) for time in run.repeats)
        runs = list(map(attrgetter("run"), repeats))
        return replace(repeats[0], run=Run(repeats=runs, name=run.name), repeats=repeats)
    name, expected_of = _name(matcher), _expected(dataset, matcher)
    notes = _check_passages(expected_of.values(), matcher)
    passages = map_values(attrgetter("passages"), expected_of)
    rankings = picked(run, filter(expected_of.__contains__, run))
    shares, errors = _shares(rankings, expected_of, matcher)
    part_limit, limit = _LIMITS.get(str(matcher), (1, 1))
    if errors:
        query_id, message = next(iter(errors.items()))
        fields = {"matcher": name, "question": query_id, "error": message}
        notes.append(_FAILED.format(failed=len(errors), questions=len(expected_of), **fields))
    label_note = None
    largest_shares = [table.max() for table in shares.values() if table.size]
    if largest_shares and max(largest_shares) < limit:
        label_note = _NOTHING_FOUND.format(matcher=name)
    stands_for: dict[str, list[list[str]]] = {}
    n_in_part = 0
    for query_id, table in shares.items():
        labels, ids = list(passages[query_id]), list(rankings[query_id].ids)
        stands_for[query_id] = _stand_ins(labels, table >= limit, ids)
        label_shares = dict(zip(labels, table.max(axis=0, initial=0), strict=True))
        label_shares = picked(label_shares, expected_of[query_id].relevance or ())
        n_in_part += sum(part_limit <= share < limit for share in label_shares.values())
    matched_rankings: dict[str, Ranking] = {}
    for query_id, ranking in rankings.items():
        expanded = _expand(ranking, stands_for.get(query_id))
        error = errors.get(query_id, ranking.error)
        matched_rankings[query_id] = replace(expanded, error=error)
    unlike = _unlike_texts(run, stands_for, passages)
    in_part = _IN_PART.format(n=n_in_part) if n_in_part else ""
    matched_run = run.replaced(matched_rankings)
    matched_run.label_notes += tuple(filter(None, [label_note, unlike, in_part]))
    matched_run.notes += (*notes, _RECOGNISED.format(matcher=name), *matched_run.label_notes)
    relevance = present(map_values(attrgetter("relevance"), expected_of))
    sentences = tuple(notes), label_note, unlike, in_part
    return Matched(name, matched_run, relevance, stands_for, passages, errors, *sentences)


def _shares(
    rankings: Mapping[str, Ranking], expected_of: Mapping[str, Expected], matcher: MatcherLike
) -> tuple[dict[str, FloatArray], dict[str, str]]:
    shares: dict[str, FloatArray] = {}
    errors: dict[str, str] = {}
    for query_id, ranking in rankings.items():
        if ranking.error is not None:
            continue
        try:
            shares[query_id] = _compare(matcher, expected_of[query_id], ranking)
        except Exception as problem:  # noqa: BLE001 - any function, any error: recorded by query
            errors[query_id] = describe_error(problem)
    return shares, errors


def _unlike_texts(
    run: Run, stands_for: Mapping[str, list[list[str]]], passages: Mapping[str, Mapping[str, Any]]
) -> str:
    n_credited = 0
    shares: dict[tuple[str, str], float] = {}
    for query_id, names_of_items in stands_for.items():
        for names, text in zip(names_of_items, run[query_id].texts or (), strict=False):
            for label_text in map(passages[query_id].get, names):
                if not isinstance(label_text, str):
                    continue
                n_credited += 1
                if not same_text(label_text, text):
                    shares[label_text, text] = float(likeness([label_text], [text])[0, 0])
    if not shares:
        return ""
    lowest = min(shares, key=shares.__getitem__)
    label, text = map(shorten, lowest)
    fields = {"lowest": min(int(100 * shares[lowest] + 0.5), 99), "text": text, "label": label}
    return _UNLIKE.format(unlike=len(shares), credited=n_credited, **fields)


def check_matchable(dataset: Labelled, matcher: MatcherLike) -> None:
    _check_passages(_expected(dataset, matcher).values(), matcher)


def _expected(dataset: Labelled, matcher: MatcherLike) -> dict[str, Expected]:
    by = Expected.by_span if matcher == BY_SPAN else Expected.by_text
    return {query_id: by(dataset, query_id) for query_id in dataset.queries}


def _check_passages(expected: Iterable[Expected], matcher: MatcherLike) -> list[str]:
    n_relevant = n_known = 0
    for labels in expected:
        relevant = set(labels.relevance or ())
        n_relevant += len(relevant)
        n_known += len(relevant.intersection(labels.passages))
    name, column = _name(matcher), "text"
    remedy = "Give them as RetrievalDataset(…, corpus={id: text}), or expected_texts."
    if matcher == BY_SPAN:
        column, remedy = "span", "Give labels that have places: Relevance(spans={id: place})."
    if n_relevant and not n_known:
        got = f"none for {n_relevant} expected ids"
        raise InvalidInput(f"matcher {name!r}", got, f"a {column} for each", remedy)
    if n_known == n_relevant:
        return []
    share = f"{n_relevant - n_known} of {n_relevant} relevant passages"
    return [f"{share} have no {column}, so {name} can't find them"]


def _compare(matcher: MatcherLike, expected: Expected, ranking: Ranking) -> FloatArray:
    """(retrieved, expected) the share of an expected item that a retrieved one has."""
    column = "spans" if matcher == BY_SPAN else "texts"
    retrieved: Sequence[Any] | None = getattr(ranking, column)
    if retrieved is None and ranking.ids:
        raise InvalidInput(column, None, f"{column} of what was retrieved")
    retrieved, passages = list(retrieved or ()), list(expected.passages.values())
    if matcher == BY_TEXT:
        return likeness(passages, retrieved)
    shape = (len(retrieved), len(passages))
    if matcher == BY_SPAN:
        shares = starmap(_share_in, product(retrieved, passages))
        return np.array(list(shares), np.float64).reshape(shape)
    assert not isinstance(matcher, str)
    covers = np.asarray(matcher(passages, retrieved), np.bool_)
    if covers.shape != shape and covers.size:
        rows_and_columns = f"{shape[0]} rows of {shape[1]} truth values"
        raise InvalidInput(f"what {_name(matcher)} returned", covers.shape, rows_and_columns)
    return covers.reshape(shape).astype(np.float64)


def _share_in(place: Span | None, wanted: Span) -> float:
    source, start, end = place or (None, 0, 0)
    if wanted.source != source:
        return 0.0
    return (min(wanted.end, end) - max(wanted.start, start)) / (wanted.end - wanted.start)


def _stand_ins(labels: list[str], covers: npt.NDArray[np.bool_], ids: list[str]) -> list[list[str]]:
    """Return the expected ids that each retrieved item covers, or else an id of its own."""
    stands_for: list[list[str]] = []
    for row, item in zip(covers, ids, strict=True):
        covered = [labels[position] for position in np.flatnonzero(row).tolist()]
        name = item
        while name in labels:
            name = f"retrieved {name}"
        stands_for.append(covered or [name])
    return stands_for


def _expand(ranking: Ranking, stands_for: list[list[str]] | None) -> Ranking:
    bare = replace(ranking, ids=[], scores=None, tokens=None, texts=None, spans=None)
    if stands_for is None:
        return bare
    columns: dict[str, Any] = {"ids": list(chain.from_iterable(stands_for))}
    if ranking.scores is not None:
        lengths = list(map(len, stands_for))
        columns["scores"] = list(chain.from_iterable(map(repeat, ranking.scores, lengths)))
    if ranking.tokens is not None:
        columns["tokens"] = costs_of(stands_for, ranking.ids, ranking.tokens)
    if ranking.calls is not None:
        names_of = dict(zip(ranking.ids, stands_for, strict=True))
        columns["calls"] = tuple(_expand_call(call, names_of) for call in ranking.calls)
    return replace(bare, **columns)


def _expand_call(call: Call, names_of: Mapping[str, Iterable[str]]) -> Call:
    ids = list(chain.from_iterable(names_of.get(item, ()) for item in call.ids))
    return Call(ids, error=call.error, query=call.query, asked_by=call.asked_by)


def costs_of(stands_for: list[list[str]], ids: Sequence[str], tokens: Sequence[int]) -> list[int]:
    """Return the tokens of each flattened item, so that a budget counts each chunk once."""
    costs: list[int] = []
    credited: set[str] = set()
    cost_of = dict(zip(reversed(ids), reversed(tokens), strict=True))
    due = 0
    for stand_in, item in zip(stands_for, ids, strict=True):
        due += cost_of.pop(item, 0)  # a copy costs nothing
        for name in stand_in:
            cost = 0
            if name not in credited:
                cost, due = due, 0
            credited.add(name)
            costs.append(cost)
    return costs
