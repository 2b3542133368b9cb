"""An evaluation in steps: ask, cut, match, score texts, score rankings."""

from __future__ import annotations

import inspect
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from typing import Any, TypeAlias

import numpy as np
from llama_index.core import Settings
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)
from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import NodeWithScore
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_rag_metrics.files.retrieval_dataset import (
    RetrievalDataset,
    texts_of_passages,
    unread_labels,
)
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.judging.beside import SPANS, needs_of
from llama_index_rag_metrics.rankings.matching.id_matcher import NOT_VALID, IdFit, MatchOn, item_id
from llama_index_rag_metrics.rankings.matching.matched import (
    BY_TEXT,
    Matched,
    check_matchable,
    match_run,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.errors import (
    EveryQueryFailed,
    InvalidInput,
    LabelWarning,
    warn,
)
from llama_index_rag_metrics.runtime.masking import describe_error, register_secrets_of
from llama_index_rag_metrics.runtime.sync import each, in_thread, within
from llama_index_rag_metrics.scores.batches import ScoringOptions
from llama_index_rag_metrics.scores.label_fit import Asked, Stock, fit_notes
from llama_index_rag_metrics.scores.notes import GRADED, depth_notes, little_in_common
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.scores.score_rankings import of_repeats, score_with
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.stories.label_view import with_retrieval
from llama_index_rag_metrics.stories.whereabouts import absent_labels

from .as_ask import Ask, Source
from .ask_all import AnswerReader, Answers, Attempt, Journal, answers_to, ask_all, pipeline
from .capturing import listening
from .evaluation_results import EvaluationResults
from .plan import Plan, describe, journal_header

_CORE = "llama_index.core.evaluation.retrieval.metrics"
_MIXED = "{names}: by LlamaIndex's definition; the others by this package's"
_TEXTS_ALONE = (
    "the labels are texts, expected_texts, and ids are compared: nothing is scored. Match by text: "
    "matcher='text'"
)
_GRADED = GRADED + "{metric.graded_by}, not by people, from {low:g} to {high:g} ({metric})"
_UNPLACED = "{n:,} of {all:,} passages have no place in a document: span metrics leave them out"
_FEW = "postprocessors got the index's first {n:,}: as_retriever(similarity_top_k=...) takes more"
_TEXTLESS = "{n:,} of {all:,} passages have no text, and score 0: functions return nodes, not ids"
_MOST_QUERIES = 500  # enough for a note: comparing texts takes about a millisecond a query

# metric's name to query id to result, of metrics that are computed question by question
Computed: TypeAlias = "dict[str, dict[str, RetrievalMetricResult]]"


async def run_evaluation(source: Source, plan: Plan, *, warns: bool = True) -> EvaluationResults:
    """Ask every question and score what comes back."""
    with plan.cache or nullcontext():
        evaluation = Evaluation(source, plan, warns=warns)
        answers = await evaluation.answers(pipeline(source, plan))
        return await evaluation.results(answers)


class Evaluation:
    """An evaluation: questions are asked once, and the answers may be scored after each stage."""

    def __init__(self, source: Source, plan: Plan, *, warns: bool = True) -> None:
        if plan.matcher is not None:
            check_matchable(plan.dataset, plan.matcher)
        if isinstance(source.asked, BaseChatEngine):  # it keeps one conversation
            plan = replace(plan, workers=1)
        self.source, self.plan = source, plan
        self.reader = AnswerReader(plan, source.context)
        self._metrics: list[BaseRetrievalMetric] = []
        self._warns = warns
        self._first_run: Run | None = None

    async def answers(self, ask: Ask) -> Answers:
        plan = self.plan
        for metric in plan.computed:
            if isinstance(metric, TextMetric):
                metric = await in_thread(metric.prepare, plan.dataset, plan.cache)  # noqa: PLW2901
            self._metrics.append(metric)
        # now, since a client may put its key into the first error
        register_secrets_of(Settings, self.source.asked, *plan.node_postprocessors, *self._metrics)
        with listening() if self.source.captures else nullcontext():
            if plan.journal is None:
                return await ask_all(ask, plan, self.reader)
            header = journal_header(plan, self.source)
            with Journal(plan.journal, header) as journal:
                stored = answers_to(plan.dataset, header, journal.rows)
                return await ask_all(ask, plan, self.reader, kept=stored, journal=journal)

    async def results(self, answers: Answers, stage: str = "") -> EvaluationResults:
        """Score answers, those after a stage under its name, and describe the evaluation."""
        plan = replace(self.plan, name=stage or self.plan.name)
        dataset, run = plan.dataset, self._run(plan, answers)
        matched: Matched | None = None
        by_metric: dict[str, Matched] = {}
        if plan.matcher is not None:
            matched = await in_thread(match_run, run, dataset, plan.matcher)
            for metric in plan.metrics:
                if getattr(metric, "recognises", True):
                    by_metric[metric.metric_name] = matched
        scores, computed = await self._scores(plan, run, matched)
        runs = run.repeats or (run,)
        note = await self._label_note(runs[0], matched)
        self._warn(note, runs)
        fit, absent = self._fit(self._with_all_ids(runs[0]), matched, note)
        notes = [*_first_notes(plan, runs[0]), *filter(None, [*fit, note])]
        if not run.depth:  # then what is known of the answers says why
            notes += answers.notes
        if self.source.depth is not None and (stage or plan.node_postprocessors):
            answers.notes.append(_FEW.format(n=self.source.depth))
        retrieval = Retrieval(run, {**dataset.relevance}, by_metric, dataset.text_of, absent)
        scores = scores.replace(
            notes=list(dict.fromkeys([*notes, *scores.notes, *answers.notes, *dataset.notes])),
            label_notes=[*notes, *scores.label_notes],
            retrieval=retrieval,
        )
        if run.repeats:
            scores = with_retrieval(scores, retrieval)
        about, texts = describe(plan, run, self.source.name, matched), dataset.expected_texts
        return EvaluationResults(scores, about=about, computed=computed, expected_texts=texts)

    async def _scores(self, plan: Plan, run: Run, match: Matched | None) -> tuple[Scores, Computed]:
        """Score each repeat of the questions; return their mean, and the first one's results."""
        matches = [] if match is None else match.repeats or [match]
        scored = []
        for run_of_time, match_of_time in zip_longest(run.repeats or [run], matches):
            scored.append(await score_run(plan, run_of_time, match_of_time, self._metrics))
        scores, computed = scored[0]
        if run.repeats:
            scores = of_repeats(of_time for of_time, _ in scored)
        return scores, computed

    def _run(self, plan: Plan, answers: Answers) -> Run:
        """The run, cut at `min_score`; where questions were asked again, the first with all."""
        runs = []
        for time in range(1, plan.repeats + 1):
            rankings = {key: answers.rankings[Attempt(key, time)] for key in plan.dataset.queries}
            run = Run(rankings, name=plan.name, queries=plan.dataset.queries)
            if plan.min_score is not None:
                run = run.at_least(plan.min_score)
            runs.append(run)
        if plan.repeats == 1:
            return runs[0]
        return runs[0].replaced(runs[0], repeats=runs)

    def _with_all_ids(self, run: Run) -> Run:
        """The run whose ids are checked: the first stage's, where later ones only drop passages."""
        retrieved = self._first_run or run
        self._first_run = retrieved
        if retrieved is run or all(set(run[key].ids) <= set(retrieved[key].ids) for key in run):
            return retrieved
        return run

    def _fit(
        self, run: Run, matched: Matched | None, label_note: str | None
    ) -> tuple[list[str], frozenset[str]]:
        """What is wrong with labels beside their note, and the labels that the index lacks."""
        absent, dataset = frozenset[str](), self.plan.dataset
        if matched is not None:
            return [matched.unlike, matched.in_part], absent
        if not self.plan.compares_ids or (label_note or "").startswith(NOT_VALID):
            return [], absent
        indexed = indexed_ids(self.source.asked, self.plan.match_on)
        if indexed:
            absent = absent_labels(dataset.relevance, run, indexed)
        return fit_of_ids(self.plan, run, indexed, is_said=label_note is not None), absent

    async def _label_note(self, run: Run, matched: Matched | None) -> str | None:
        """A note where labels don't name what was retrieved by its ids; None where they do."""
        dataset, labels = self.plan.dataset, self.reader.labels
        has_ids = any(dataset.relevance.values())
        if self.plan.compares_ids and dataset.expected_texts and not has_ids:
            return _TEXTS_ALONE
        counts = None
        if labels.are_strange:
            counts = await in_thread(count_by_text, dataset, run)
        if matched is not None and all(time.label_note for time in matched.repeats or [matched]):
            return matched.label_note
        return labels.note(counts)

    def _warn(self, label_note: str | None, runs: Sequence[Run]) -> None:
        if not self._warns:
            return
        self._warns = False
        if label_note is not None:
            warn(LabelWarning(label_note))
        failures = list(map(every_query_failed, runs))
        if all(failures):
            warn(EveryQueryFailed(failures[0]))


def _first_notes(plan: Plan, run: Run) -> Iterator[str]:
    of_texts = [metric for metric in plan.computed if isinstance(metric, TextMetric)]
    for metric in of_texts:
        if metric.graded_by:
            yield _GRADED.format(metric=metric, low=metric.bounds[0], high=metric.bounds[1])
    if plan.compares_ids and not plan.dataset.relevance:
        yield from unread_labels(plan.dataset)
    if of_texts:
        texts = list(chain.from_iterable(ranking.texts or () for ranking in run.values()))
        if "" in texts:
            yield _TEXTLESS.format(n=texts.count(""), all=len(texts))


def count_by_text(dataset: RetrievalDataset, run: Run) -> IdFit:
    """Count relevant passages that came by id, and those that came by text under other ids."""
    query_ids = [query_id for query_id in dataset.queries if run[query_id].texts][:_MOST_QUERIES]
    try:
        matched = match_run(run.select(query_ids), dataset.select(query_ids), BY_TEXT)
    except InvalidInput:  # there are no texts of labels, or such as don't go with the ids
        return IdFit()
    n_relevant = n_by_id = n_under_others = 0
    texts: set[str] = set()
    for query_id in query_ids:
        relevant = set(matched.relevance.get(query_id, ()))
        by_id = relevant.intersection(run[query_id].ids)
        under_others = relevant.intersection(matched.run[query_id].ids) - by_id
        n_relevant += len(relevant)
        n_by_id += len(by_id)
        n_under_others += len(under_others)
        texts |= under_others
    return IdFit(n_relevant, n_by_id, n_under_others, len(texts))


def fit_of_ids(plan: Plan, run: Run, indexed: Collection[str], *, is_said: bool) -> list[str]:
    """Return what is wrong with the ids of labels, and that none was found, unless that is said."""
    rows, counts, dataset = [], [], plan.dataset
    for query_id in dataset.queries:
        labels, ranking = dataset.relevance.get(query_id, ()), run[query_id]
        is_left_out = plan.failed == "exclude" and ranking.error is not None
        rows.append(Asked(query_id, labels, ranking.ids, ranking.texts, is_left_out))
        counts.append((len(ranking.ids), len(labels), len({*labels}.intersection(ranking.ids))))
    place, ids = "the index" if indexed else "the corpus", indexed or dataset.corpus
    texts = texts_of_passages(dataset) if dataset.corpus or dataset.expected_texts else {}
    asked_at, stock = rows.__getitem__, Stock(place, ids, texts)
    fit = fit_notes(asked_at, len(rows), stock, range(len(rows)))
    if fit or is_said:
        return fit
    return [little_in_common(asked_at, *np.array(counts).reshape(-1, 3).T)]


def indexed_ids(source: Any, match_on: MatchOn) -> Collection[str]:
    """The ids of all nodes of an index in memory, or of a retriever's; nothing if unknown."""
    if not isinstance(source, BaseIndex):
        inner = getattr(source, "retriever", None) or source
        source = getattr(inner, "_index", None)
    docstore = getattr(source, "docstore", None)
    if not isinstance(docstore, SimpleDocumentStore):
        return ()
    try:
        return {item_id(NodeWithScore(node=node), match_on) for node in docstore.docs.values()}
    except InvalidInput:  # some nodes lack what is compared
        return ()


async def score_run(
    plan: Plan, run: Run, matched: Matched | None, metrics: Sequence[BaseRetrievalMetric]
) -> tuple[Scores, Computed]:
    """Score a run by all metrics of a plan; `metrics` are those computed question by question."""
    computed: Computed = {metric.metric_name: {} for metric in metrics}
    errors: dict[str, dict[str, str]] = defaultdict(dict)

    async def compute(query_id: str) -> None:
        ranking = run[query_id]
        # by document, several chunks have one id: they are copies only if their texts are, too
        columns = () if plan.match_on == "node_id" else (ranking.texts or ranking.ids,)
        ranking = ranking.without_copies(*columns)
        for metric in metrics:
            name, value = metric.metric_name, _compute(metric, plan.dataset, query_id, ranking)
            try:
                computed[name][query_id] = await within(plan.timeout, value)
            except Exception as error:  # noqa: BLE001 - any metric, any error: recorded by question
                errors[name][query_id] = describe_error(error)

    if metrics:
        await each(run, compute, plan.workers)
    by_rank = _score_rankings(plan, run, matched)
    excluded = by_rank.failed if plan.failed == "exclude" else ()
    columns: dict[str, dict[str, float]] = {}
    for name, results in computed.items():
        columns[name] = {}
        for query_id, result in results.items():
            if query_id not in excluded and not _is_empty(result):
                columns[name][query_id] = result.score
    scores = by_rank.join(columns, order=plan.metric_names)
    notes = [*scores.notes, *_notes(plan, run, computed, errors)]
    return scores.replace(notes=dict.fromkeys(notes)), computed


async def _compute(
    metric: BaseRetrievalMetric, dataset: RetrievalDataset, query_id: str, ranking: Ranking
) -> RetrievalMetricResult:
    """Compute one metric of one question, in a thread unless the metric is asynchronous."""
    # a failed retrieval is an empty ranking: only a metric of texts may give that a value
    if ranking.error is not None and not isinstance(metric, TextMetric):
        return RetrievalMetricResult(score=0.0, metadata={"error": ranking.error})
    arguments = (
        dataset.queries[query_id],
        dataset.relevance.get(query_id),
        list(ranking.ids),
        dataset.expected_texts.get(query_id),
        list(ranking.texts or ()),
    )
    columns = {f"retrieved_{name}": getattr(ranking, name) for name in needs_of([metric])}
    acompute = getattr(metric, "acompute", None)
    if inspect.iscoroutinefunction(acompute):
        result: RetrievalMetricResult = await acompute(*arguments, **columns)
        return result
    return await in_thread(partial(metric.compute, *arguments, **columns))


def _score_rankings(plan: Plan, run: Run, matched: Matched | None) -> Scores:
    """Score the metrics of rankings; those that recognise passages go by the matcher, if any."""
    members = [metric for metric in plan.metrics if isinstance(metric, RankingMetric)]
    if matched is None:
        scores = _score(plan, members, plan.dataset.relevance, run)
    else:
        scores = _by_matcher(plan, members, run, matched)
    notes = list(scores.notes)
    if SPANS in needs_of(members):
        spans = list(chain.from_iterable(ranking.spans or () for ranking in run.values()))
        if n := spans.count(None):
            notes.append(_UNPLACED.format(n=n, all=len(spans)))
    if matched is not None:
        notes += [*run.notes, *matched.notes]
    # a matcher that failed leaves no ranking, but something was retrieved
    empty = [query_id for query_id in scores.empty if not run[query_id].ids]
    return scores.replace(empty=empty, notes=dict.fromkeys(notes))


def _by_matcher(plan: Plan, metrics: Sequence[RankingMetric], run: Run, matched: Matched) -> Scores:
    recognising = [metric for metric in metrics if metric.recognises]
    by_id = [metric for metric in metrics if not metric.recognises]
    rankings = dict(matched.run)
    for query_id in matched.errors:  # a matcher that failed isn't a retriever that failed
        rankings[query_id] = replace(rankings[query_id], error=None)
    judged_run = matched.run.replaced(rankings)
    judged_run.notes = judged_run.label_notes = ()
    # the depth is the retriever's: an item that stands for several makes rankings longer
    scores = _score(plan, recognising, matched.relevance, judged_run, run.depth)
    # metrics that recognise no passages are scored on the same questions as the others
    labels = {**matched.relevance, **plan.dataset.relevance}
    scores_by_id = _score(plan, by_id, labels, run)
    columns = {}
    for metric in scores:
        columns[metric] = dict(scores.by_query(metric))
        for query_id in matched.errors:
            columns[metric].pop(query_id, None)
    for metric in scores_by_id:
        columns[metric] = dict(scores_by_id.by_query(metric))
    return scores.join(columns, order=list(columns))


def _score(
    plan: Plan,
    metrics: Sequence[RankingMetric],
    labels: Mapping[str, Relevance],
    run: Run,
    deepest: int | None = None,
) -> Scores:
    dataset, counter = plan.dataset, plan.counter
    options = ScoringOptions(failed=plan.failed, tokenizer=counter, tolerant=True, checks_ids=False)
    return score_with(
        metrics,
        {query_id: labels.get(query_id) for query_id in dataset.queries},
        run,
        options,
        queries=dataset.queries,
        metadata=dataset.metadata,
        deepest=deepest,
    )


def _is_empty(result: RetrievalMetricResult) -> bool:
    return result.metadata.get("empty") is True


def every_query_failed(run: Run) -> str:
    if not run.failed or len(run.failed) < len(run):
        return ""
    error, n = Counter(run.failed.values()).most_common(1)[0]
    times = "once" if n == 1 else f"{n} times"
    return f"retrieval failed on every question, {times} with: {error}"


def _notes(
    plan: Plan, run: Run, computed: Computed, errors: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    cores = [metric.metric_name for metric in plan.metrics if type(metric).__module__ == _CORE]
    if cores and len(cores) < len(plan.metrics):
        yield _MIXED.format(names=", ".join(cores))
    if failure := every_query_failed(run):
        yield failure
    yield from depth_notes(plan.computed, run.depth)
    for name, results in computed.items():
        if errors[name]:
            query_id, error = next(iter(errors[name].items()))
            yield f"{name} has no value for {questions(len(errors[name]))}; {query_id!r}: {error}"
        if any(math.isnan(result.score) for result in results.values()):
            yield f"{name} gave NaN for some questions, which have no value"
        if n := sum(map(_is_empty, results.values())):
            yield f"{name} has no value where nothing was retrieved: {questions(n)}"
