"""Matching a run: what retrieved items stand for, their places, and the scores that follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.columns import JudgedSpans, columns_for
from llama_index_rag_metrics.rankings.matching.id_matcher import Came, GroupMatcher, expected_groups
from llama_index_rag_metrics.rankings.matching.matcher import (
    Expected,
    Matcher,
    carry_costs,
    flatten,
    stand_ins,
)
from llama_index_rag_metrics.rankings.matching.matcher_names import (
    BY_ID,
    Matched,
    MatcherLike,
    as_matcher,
    named_matcher,
)
from llama_index_rag_metrics.rankings.matching.span_matcher import SpanMatcher, node_span
from llama_index_rag_metrics.rankings.matching.text_matchers import ContainmentMatcher
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking, Run
from llama_index_rag_metrics.rankings.span import Span, read_span
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync
from llama_index_rag_metrics.runtime.threads import within
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scoring.batches import ScoringOptions
from llama_index_rag_metrics.scores.scoring.score_rankings import score_with

if TYPE_CHECKING:
    from pathlib import Path

    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
    from llama_index.core.schema import BaseNode


class Places:
    """Finds the place of a node in its document: by its own offsets, or else by its text."""

    def __init__(self, corpus: Mapping[str, str], matcher: Matcher[Any] | None = None) -> None:
        self._corpus = corpus
        self._nodes = matcher if isinstance(matcher, SpanMatcher) else None

    def of_node(self, node: BaseNode) -> Span | None:
        span = node_span(node)
        if span is not None and self._nodes is not None:
            span = self._nodes.resolve(span)
        document = node.ref_doc_id
        text = node.get_content()
        if document is None:
            is_own = span is None or span.source == node.node_id
            return self._of_document(node.node_id, text) if is_own else self._within(span)
        if span is not None and span.source == document:
            whole = self._corpus.get(document)
            if whole is None or whole[span.start : span.end] == text:
                return span
        return self.search(text, document) or self._within(span)

    def of_relevance(self, relevance: Relevance) -> Relevance:
        """Add to relevance the places of ids that are known nodes."""
        if self._nodes is None:
            return relevance
        known = dict(relevance.spans or {})
        for item in relevance.grades:
            span = known.get(item) or self._nodes.span_of(item)
            if span is not None:
                known[item] = self._nodes.resolve(span)
        return relevance.with_spans(known) if known else relevance

    def _within(self, span: Span | None) -> Span | None:
        """Cut a span off at its document's end, which a node with a title exceeds by a line."""
        if span is None or span.source not in self._corpus:
            return span
        end = min(span.end, len(self._corpus[span.source]))
        return span._replace(end=end) if span.start < end else None

    def _of_document(self, item: str, text: str) -> Span | None:
        """The retrieved part of a document: all of it for a bare id, or with an added title."""
        document = self._corpus.get(item, text)
        if document.strip() in text or not text:
            return Span(item, 0, len(document)) if document else None
        return self.search(text, item)

    def search(self, text: str, document: str, begin: int = 0) -> Span | None:
        """The first place of a text in a document, blanks around it ignored."""
        text = text.strip()
        start = self._corpus.get(document, "").find(text, begin) if text else -1
        return None if start < 0 else Span(document, start, start + len(text))


def places_for(
    metrics: Sequence[BaseRetrievalMetric], dataset: RetrievalDataset, matcher: Matcher[Any] | None
) -> Places | None:
    return Places(dataset.corpus, matcher) if JudgedSpans in columns_for(metrics) else None


def unplaced_note(run: Run) -> list[str]:
    """A note that counts retrieved items without a place, which span metrics don't see."""
    placed = [span is not None for ranking in run.values() for span in ranking.spans or ()]
    lost = len(placed) - sum(placed)
    if not lost:
        return []
    what = f"{lost:,} of {len(placed):,} retrieved passages have no place in a document"
    return [f"{what}, so span metrics leave them out"]


InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Calls a blocking function with arguments in a thread."""


class Matching:
    """A matcher at work on a dataset, which says what is expected."""

    def __init__(self, matcher: Matcher[Any], dataset: RetrievalDataset) -> None:
        self.matcher = matcher
        self._dataset = dataset
        self._expected = {
            query_id: _expected(matcher, dataset, query_id) for query_id in dataset.queries
        }
        self._stands_for: dict[str, list[list[str]]] = {}
        self._in_calls: dict[str, dict[Hashable, list[str]]] = {}
        self._errors: dict[str, str] = {}
        self._finds_any = self._could_find = False
        self._notes = self._check()

    async def match(
        self, query_id: str, ranking: Ranking, in_thread: InThread, timeout: float | None = None
    ) -> None:
        """Match the items retrieved for a query; an error of the matcher is recorded."""
        try:
            stands_for = await within(timeout, self._match(query_id, ranking, in_thread))
        except Exception as error:  # noqa: BLE001 - any matcher, any error: recorded by query
            self._errors[query_id] = describe_error(error)
            return
        self._stands_for[query_id] = stands_for
        labels = frozenset(self._expected[query_id].ids)
        self._finds_any |= any(not labels.isdisjoint(names) for names in stands_for)
        self._could_find |= bool(labels and ranking.ids)
        if further := _only_in_calls(ranking):
            with suppress(Exception):  # the scores, which the ranking has, don't depend on it
                ids, texts, spans = zip(*further, strict=True)
                called = Ranking(ids, texts=[text or "" for text in texts], spans=spans)
                of_calls = await within(timeout, self._match(query_id, called, in_thread))
                self._in_calls[query_id] = dict(zip(further, of_calls, strict=True))

    async def match_one(
        self, ranking: Ranking, in_thread: InThread
    ) -> tuple[Relevance | None, Ranking]:
        """Match the only query of the dataset: its relevance, and the ranking to judge."""
        (query_id,) = self._expected
        stands_for = await self._match(query_id, ranking, in_thread)
        return self._expected[query_id].relevance, _flattened(ranking, stands_for)

    async def _match(self, query_id: str, ranking: Ranking, in_thread: InThread) -> list[list[str]]:
        expected = self._expected[query_id]
        retrieved = self._retrieved(ranking)
        if type(self.matcher).amatch is Matcher.amatch:
            matches = await in_thread(self.matcher.match, expected.passages, retrieved)
        else:
            matches = await self.matcher.amatch(expected.passages, retrieved)
        return stand_ins(expected.ids, matches, ranking.ids)

    def finish(self, run: Run) -> Matched:
        name = self.matcher.name
        nothing = f"{name} finds no labelled passage in what was retrieved: all scores are 0"
        rankings = {
            query_id: _flattened(ranking, self._stands_for.get(query_id))
            for query_id, ranking in run.items()
        }
        relevance = {query_id: expected.relevance for query_id, expected in self._expected.items()}
        matched = Run(rankings, name=run.name, stage=run.stage)
        matched.min_score = run.min_score
        return Matched(
            name,
            matched,
            {
                query_id: judgements
                for query_id, judgements in relevance.items()
                if judgements is not None
            },
            dict(self._stands_for),
            {query_id: self._passages(expected) for query_id, expected in self._expected.items()},
            dict(self._errors),
            (*self._notes, *self._failures()),
            nothing if self._could_find and not self._finds_any else None,
            self.matcher.usage,
            dict(self._in_calls),
        )

    def _passages(self, expected: Expected) -> dict[str, Any]:
        """The text or span of each expected item; for a group the text of its first id."""
        passages = dict(zip(expected.ids, expected.passages, strict=True))
        if not isinstance(self.matcher, GroupMatcher):
            return passages
        texts = self._dataset.corpus
        return {
            name: self._dataset.indexed_text(ids[0])
            for name, ids in passages.items()
            if ids and ids[0] in texts
        }

    def _retrieved(self, ranking: Ranking) -> list[Any]:
        if isinstance(self.matcher, GroupMatcher):
            return list(ranking.ids)
        is_span = isinstance(self.matcher, SpanMatcher)
        column = ranking.spans if is_span else ranking.texts
        if column is None and ranking.ids:
            what = "spans" if is_span else "texts"
            raise InvalidInput(what, None, f"{what} of what was retrieved")
        return list(column or ())

    def _check(self) -> tuple[str, ...]:
        relevant = sum(len(expected.relevance or ()) for expected in self._expected.values())
        known = sum(
            expected.relevance is not None and expected.relevance.grades[item] > 0
            for expected in self._expected.values()
            for item in expected.ids
        )
        what = "text"
        remedy = "Give expected_texts, or a dataset whose corpus has the relevant ids."
        if isinstance(self.matcher, SpanMatcher):
            what, remedy = "span", "Give SpanMatcher the spans, or the nodes that the labels name."
        if relevant and not known:
            got = f"none for {relevant} expected ids"
            raise InvalidInput(f"matcher {self.matcher.name!r}", got, f"a {what} for each", remedy)
        if known < relevant:
            lost = relevant - known
            return (
                f"{lost} of {relevant} relevant passages have no {what}, so {self.matcher.name} "
                "can't find them",
            )
        return ()

    def _failures(self) -> list[str]:
        if not self._errors:
            return []
        query_id, error = next(iter(self._errors.items()))
        what = (
            f"{self.matcher.name} failed on {questions(len(self._errors))}, where its metrics have"
        )
        return [f"{what} no value; {query_id!r}: {error}"]


def match_run(
    run: Run,
    dataset: RetrievalDataset,
    matcher: MatcherLike,
    *,
    cache: Cache | str | Path | None = None,
) -> Matched:
    """Match a run that has texts, such as `results.run`, without asking the retriever again.

    Args:
        run: what was retrieved.
        dataset: the dataset that it was retrieved for.
        matcher: a matcher or its name.
        cache: keeps embeddings, as in `evaluate`.

    Returns:
        What was matched. `score_rankings(matched.relevance, matched.run, metrics)` scores it; a
        query on which the matcher failed has its error. Of a run with repeats, its own has them,
        too.

    Raises:
        InvalidInput: nothing is known of any expected item, or the matcher is "id".

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> dataset = RetrievalDataset({"q": "?"}, expected_texts={"q": ["Saturn has moons."]})
        >>> run = Run({"q": Ranking(["n1", "n2"], texts=["Mars is red.", "saturn has moons"])})
        >>> match_run(run, dataset, "text").stands_for["q"]
        [['n1'], ['expected text 1']]
    """
    ready = as_matcher(matcher)
    if ready is None:
        raise InvalidInput("matcher", matcher, "a matcher of texts, spans or groups")
    prepared = ready.prepare(Cache.of(cache))
    if not run.repeats:
        return _match_once(run, dataset, prepared)
    return Matched.of_repeats([_match_once(each, dataset, prepared) for each in run.repeats])


def _match_once(run: Run, dataset: RetrievalDataset, matcher: Matcher[Any]) -> Matched:
    matching = Matching(matcher, dataset)
    known = run.select(query_id for query_id in run if query_id in dataset.queries)

    async def match_all() -> None:
        for query_id, ranking in known.items():
            await matching.match(query_id, ranking, asyncio.to_thread)

    run_sync(match_all())
    matched = matching.finish(known)
    rankings = {
        query_id: replace(ranking, error=matched.errors.get(query_id, known[query_id].error))
        for query_id, ranking in matched.run.items()
    }
    said = (f"passages are recognised by {matched.matcher}, not by ids", matched.label_note)
    notes = [*run.notes, *matched.notes, *filter(None, said)]
    named = run.replaced(rankings)
    named.notes = tuple(notes)
    return replace(matched, run=named)


def knows_texts(dataset: RetrievalDataset, query_id: str) -> bool:
    try:
        return bool(_expected_by_text(dataset, query_id).ids)
    except InvalidInput:  # the texts don't go with the ids
        return False


def _only_in_calls(ranking: Ranking) -> list[tuple[str, str | None, Span | None]]:
    """What calls had beside the ranking, each once, as far as texts or spans tell."""
    known = {*ranking.passages}
    calls = ranking.calls or ()
    rows = dict.fromkeys(passage for call in calls for passage in call.passages)
    return [row for row in rows if row not in known and row[1:] != (None, None)]


def _flattened(ranking: Ranking, stands_for: list[list[str]] | None) -> Ranking:
    """The ranking of expected items that retrieved items stand for; empty where unknown."""
    ids, tokens = flatten(stands_for or []), ranking.tokens
    if stands_for is None:
        tokens = None
    elif tokens is not None:
        tokens = carry_costs(stands_for, ranking.ids, tokens)
    calls = ranking.calls
    if calls is not None:
        known = dict(zip(ranking.ids, stands_for or (), strict=False))
        calls = tuple(_matched_call(call, known) for call in calls)
    scores = stands_for and ranking.scores
    if scores:
        each = zip(stands_for or (), scores, strict=True)
        scores = [score for stand_in, score in each for _ in stand_in]
    columns: dict[str, Any] = {"ids": ids, "scores": scores, "tokens": tokens, "calls": calls}
    return replace(ranking, **columns, texts=None, spans=None)


def _matched_call(call: Call, stands_for: Mapping[str, list[str]]) -> Call:
    ids = flatten([stands_for.get(item, []) for item in call.ids])
    return Call(
        ids, query=call.query, asked_by=call.asked_by, retriever=call.retriever, error=call.error
    )


def _expected(matcher: Matcher[Any], dataset: RetrievalDataset, query_id: str) -> Expected:
    relevance = dataset.relevance.get(query_id)
    if isinstance(matcher, GroupMatcher):
        return expected_groups(relevance)
    if isinstance(matcher, SpanMatcher):
        grades = {} if relevance is None else relevance.grades
        spans = {item: _span(matcher, dataset, item) for item in grades}
        return Expected.of(relevance, {item: span for item, span in spans.items() if span})
    return _expected_by_text(dataset, query_id)


def expected_texts(dataset: RetrievalDataset, query_id: str) -> list[str]:
    """The texts of a query's relevant items: its own, or the corpus's, best grade first."""
    own = dataset.expected_texts.get(query_id)
    relevance = dataset.relevance.get(query_id)
    if own and (relevance is None or len(own) != len(relevance.grades)):
        return own
    expected = _expected_by_text(dataset, query_id)
    relevant = frozenset(expected.relevance or ())
    pairs = zip(expected.ids, expected.passages, strict=True)
    return [passage for item, passage in pairs if item in relevant]


def _expected_by_text(dataset: RetrievalDataset, query_id: str) -> Expected:
    relevance = dataset.relevance.get(query_id)
    own = dataset.expected_texts.get(query_id)
    if own:
        return Expected.of_texts(relevance, own)
    known = () if relevance is None else filter(dataset.corpus.__contains__, relevance.grades)
    return Expected.of(relevance, {item: dataset.indexed_text(item) for item in known})


def _span(matcher: SpanMatcher, dataset: RetrievalDataset, item: str) -> Any:
    metadata = dataset.document_metadata.get(item, {})
    place = [metadata.get(key) for key in ("ref_doc_id", "start_char_idx", "end_char_idx")]
    if matcher.span_of(item) is None and None not in place:
        return read_span(item, place)
    return matcher.span_of(item)


_MOST_QUERIES = 500
"""Comparing texts takes about a millisecond a query; this many are enough for a note."""


async def count_by_text(dataset: RetrievalDataset, run: Run) -> Came:
    """Counts relevant passages by the ids that they came under, of the first questions of a run."""
    with_texts = (
        query_id
        for query_id in dataset.queries
        if run[query_id].texts and knows_texts(dataset, query_id)
    )
    asked = list(islice(with_texts, _MOST_QUERIES))
    if not asked:
        return Came()
    matching = Matching(ContainmentMatcher(), dataset.select(asked))
    for query_id in asked:
        await matching.match(query_id, run[query_id], in_thread)
    matched = matching.finish(run.select(asked))
    wanted = [(query_id, {*matched.relevance.get(query_id, ())}) for query_id in asked]
    by_id = [items & {*run[query_id].ids} for query_id, items in wanted]
    named = [items & {*matched.run[query_id].ids} for query_id, items in wanted]
    others = [came - own for came, own in zip(named, by_id, strict=True)]
    return Came(
        sum(len(items) for _, items in wanted),
        sum(map(len, by_id)),
        sum(map(len, others)),
        len(set[str]().union(*others)),
    )


def matcher_of(metric: RankingMetric, default: Matcher[Any] | None) -> Matcher[Any] | None:
    """The matcher of a metric in an evaluation with this default; None stands for ids."""
    if not metric.recognises:
        return None
    if metric.match is None or (default is not None and metric.match == default.name):
        return default
    return named_matcher(metric.match)


def group_by_matcher(
    metrics: Iterable[BaseRetrievalMetric], default: Matcher[Any] | None
) -> dict[str, tuple[Matcher[Any] | None, list[RankingMetric]]]:
    """Group the metrics of rankings by their matcher's name, the default first."""
    own: list[RankingMetric] = []
    groups = {_name(default): (default, own)}
    for metric in metrics:
        if isinstance(metric, RankingMetric):
            matcher = matcher_of(metric, default)
            groups.setdefault(_name(matcher), (matcher, []))[1].append(metric)
    return {name: group for name, group in groups.items() if group[1]} or groups


def matcher_names(
    metrics: Iterable[BaseRetrievalMetric], default: Matcher[Any] | None, matched: Collection[str]
) -> dict[str, str]:
    """Metric's name to its matcher's, the default's for metrics of texts, of those that matched."""
    names = {}
    for metric in metrics:
        matcher = matcher_of(metric, default) if isinstance(metric, RankingMetric) else default
        if matcher is not None and matcher.name in matched:
            names[metric.metric_name] = matcher.name
    return names


def score_by_matcher(
    metrics: Iterable[BaseRetrievalMetric],
    default: Matcher[Any] | None,
    dataset: RetrievalDataset,
    run: Run,
    matched: Mapping[str, Matched],
    scoring: ScoringOptions,
) -> Scores:
    """Score all metrics of rankings, each by its matcher; counts are those of the default's."""
    parts: list[Scores] = []
    columns: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    for name, (_, members) in group_by_matcher(metrics, default).items():
        recognised = matched.get(name)
        relevance = dict(dataset.relevance if recognised is None else recognised.relevance)
        if not any(metric.recognises for metric in members) and _name(default) in matched:
            # what knows no items counts the queries that the others count
            relevance = {**matched[_name(default)].relevance, **relevance}
        if JudgedSpans in columns_for(members):
            places = Places(dataset.corpus, default)
            relevance = {
                query_id: places.of_relevance(judged) for query_id, judged in relevance.items()
            }
            notes = unplaced_note(run)
        part = score_with(
            members,
            {query_id: relevance.get(query_id) for query_id in dataset.queries},
            run if recognised is None else recognised.run,
            scoring,
            queries=dataset.queries,
            metadata=dataset.metadata,
            name=run.name,
            # one that stands for several makes it longer, repetitions make it shorter
            deepest=None
            if recognised is None
            else max((len(ranking.ids) for ranking in run.values()), default=0),
        )
        parts.append(part)
        failed = {} if recognised is None else recognised.errors
        for metric in part:
            scored = part.by_query(metric).items()
            columns[metric] = {query_id: n for query_id, n in scored if query_id not in failed}
    scores = parts[0].join(columns, order=list(columns))
    notes = [note for part in parts for note in part.notes] + notes
    notes += [note for each in matched.values() for note in each.notes]
    return scores.replace(
        details={metric: rows for part in parts for metric, rows in part.details.items()},
        # a matcher that failed leaves no ranking, but something was retrieved
        empty=[query_id for query_id in scores.empty if not run[query_id].ids],
        notes=dict.fromkeys(notes),
    )


def _name(matcher: Matcher[Any] | None) -> str:
    return BY_ID if matcher is None else matcher.name
