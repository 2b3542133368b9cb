"""An evaluation in steps: ask, cut, match, score texts, score rankings, and say how it was done."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import zip_longest
from typing import Any

from llama_index.core import Settings
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import NodeWithScore
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.matching.id_matcher import NOT_VALID, Came, MatchOn, item_id
from llama_index_rag_metrics.rankings.matching.matched import (
    BY_ID,
    BY_TEXT,
    Matched,
    check_matchable,
    match_run,
)
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning, warn_caller
from llama_index_rag_metrics.runtime.masking import mask, register_secrets_of
from llama_index_rag_metrics.runtime.sync import in_thread
from llama_index_rag_metrics.scores.label_fit import (
    Asked,
    Stock,
    absent_labels,
    fit_notes,
    text_match_note,
)
from llama_index_rag_metrics.scores.notes import graders_of_metrics
from llama_index_rag_metrics.scores.repeats import of_repeats
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.stories.label_view import with_retrieval

from .answers_kept import CONTEXT, Attempt, Journal, answers_to
from .as_ask import Ask, Source
from .ask_all import AnswerReader, Answers, ask_all, pipeline
from .evaluation_results import EvaluationResults, core_results
from .plan import Plan
from .scoring import every_query_failed, score_run

_TEXTS_ALONE = (
    "the labels are texts, expected_texts, and ids are compared: nothing is scored. Match by text: "
    "matcher='text'"
)
_MOST_QUERIES = 500
"""Comparing texts takes about a millisecond a query; this many are enough for a note."""


async def run_evaluation(source: Source, plan: Plan, *, warns: bool = True) -> EvaluationResults:
    """Ask every question and score what comes back."""
    with plan.cache:
        evaluation = Evaluation(source, plan, warns=warns)
        answers = await evaluation.answers(pipeline(source, plan))
        return await evaluation.results(answers)


class Evaluation:
    """An evaluation: its questions are asked once, and what comes may be scored in stages."""

    def __init__(self, source: Source, plan: Plan, *, warns: bool = True) -> None:
        check_matchable(plan.dataset, plan.matcher)
        if isinstance(source.asked, BaseChatEngine):  # it keeps one conversation
            plan = replace(plan, workers=1)
        self.source, self.plan = source, plan
        self.reader = AnswerReader(plan, source.context)
        self._metrics: list[BaseRetrievalMetric] = []
        self._warns = warns

    async def answers(self, ask: Ask) -> Answers:
        """Ask every question that the journal doesn't have."""
        plan = self.plan
        for metric in plan.computed:
            if isinstance(metric, TextMetric):
                metric = await in_thread(metric.prepare, plan.dataset, plan.cache)  # noqa: PLW2901
            self._metrics.append(metric)
        # before anything fails: a client may put its key into the first error
        register_secrets_of(Settings, self.source.asked, *plan.node_postprocessors, *self._metrics)
        if plan.journal is None:
            return await ask_all(ask, plan, self.reader)
        header = journal_header(plan, self.source)
        with Journal(plan.journal, header) as journal:
            stored = answers_to(plan.dataset, header, journal.rows)
            return await ask_all(ask, plan, self.reader, kept=stored, journal=journal)

    async def results(self, answers: Answers, stage: str = "") -> EvaluationResults:
        """Score answers, those after a stage under its name, and describe the evaluation."""
        plan, matched = replace(self.plan, name=stage or self.plan.name), None
        dataset = plan.dataset
        runs = [self._run(plan, answers, time) for time in range(1, plan.repeats + 1)]
        run = runs[0]
        if plan.repeats > 1:
            run = run.replaced(run, repeats=runs)
        of_each: list[Matched] = []
        if plan.matcher is not None:
            matched = await in_thread(match_run, run, dataset, plan.matcher)
            of_each = [*(matched.repeats or [matched])]
        scored = []
        for once, matched_once in zip_longest(runs, of_each):
            scored.append(await score_run(plan, once, matched_once, self._metrics))
        scores, computed = scored[0]
        if plan.repeats > 1:
            scores = of_repeats([of_time for of_time, _ in scored], plan.metric_names)
        note = await self._label_note(runs[0], of_each)
        self._warn(note, runs)
        absent, fit = frozenset[str](), []
        if matched is not None:
            texts = {query_id: ranking.texts or () for query_id, ranking in runs[0].items()}
            fit = [text_match_note(of_each[0], texts) or ""]
        elif plan.compares_ids and not (note or "").startswith(NOT_VALID):
            indexed = indexed_ids(self.source.asked, plan.match_on)
            fit = fit_of_ids(dataset, runs[0], indexed)
            absent = absent_labels(dataset.relevance, runs[0], indexed)
        notes = [*filter(None, [*graders_of_metrics(plan.computed), *fit, note])]
        scores = scores.replace(
            notes=[*notes, *scores.notes, *dict.fromkeys(answers.notes)],
            label_notes=[*notes, *scores.label_notes],
        )
        by_metric = {}
        for metric in plan.metrics:
            if matched is not None and getattr(metric, "recognises", True):
                by_metric[metric.metric_name] = matched
        retrieval = Retrieval(run, dataset.relevance, by_metric, dataset.text_of, absent)
        return EvaluationResults(
            core_results(dataset, runs[0], computed, scores),
            scores=with_retrieval(scores, retrieval),
            about=describe(plan, run, self.source.name, matched),
        )

    def _run(self, plan: Plan, answers: Answers, time: int) -> Run:
        """What was retrieved one time, cut at the lowest score."""
        rankings = {key: answers.rankings[Attempt(key, time)] for key in plan.dataset.queries}
        run = Run(rankings, name=plan.name)
        if plan.min_score is not None:
            run = run.at_least(plan.min_score)
        return run

    async def _label_note(self, run: Run, matched: Sequence[Matched]) -> str | None:
        """What is wrong with labels that name what came otherwise than by its ids."""
        dataset, labels = self.plan.dataset, self.reader.labels
        has_ids = any(dataset.relevance.values())
        if self.plan.compares_ids and dataset.expected_texts and not has_ids:
            return _TEXTS_ALONE
        counts = None
        if labels.are_strange:
            counts = await in_thread(count_by_text, dataset, run)
        if matched and all(of_time.label_note for of_time in matched):
            return matched[0].label_note
        return labels.note(counts)

    def _warn(self, label_note: str | None, runs: Sequence[Run]) -> None:
        """Warn once of all stages."""
        if not self._warns:
            return
        self._warns = False
        if label_note is not None:
            warn_caller(LabelWarning(label_note))
        failures = [every_query_failed(run) for run in runs]
        if failures[0] is not None and all(failures):
            warn_caller(failures[0])


def count_by_text(dataset: RetrievalDataset, run: Run) -> Came:
    """Counts relevant passages by the ids that they came under, of the first questions of a run."""
    query_ids = [query_id for query_id in dataset.queries if run[query_id].texts]
    query_ids = query_ids[:_MOST_QUERIES]
    try:
        matched = match_run(run.select(query_ids), dataset.select(query_ids), BY_TEXT)
    except InvalidInput:  # there are no texts of labels, or such as don't go with the ids
        return Came()
    n_relevant = n_by_id = n_under_others = 0
    texts: set[str] = set()
    for query_id in query_ids:
        relevant = {*matched.relevance.get(query_id, ())}
        by_id = relevant.intersection(run[query_id].ids)
        under_others = relevant.intersection(matched.run[query_id].ids) - by_id
        n_relevant += len(relevant)
        n_by_id += len(by_id)
        n_under_others += len(under_others)
        texts |= under_others
    return Came(n_relevant, n_by_id, n_under_others, len(texts))


def fit_of_ids(dataset: RetrievalDataset, run: Run, indexed: Collection[str]) -> list[str]:
    """Return what is wrong with the ids of labels; `indexed` are those of the index, if known."""
    query_ids = list(dataset.queries)

    def asked_at(row: int) -> Asked:
        labels = dataset.relevance.get(query_ids[row], ())
        ranking = run[query_ids[row]]
        return Asked(query_ids[row], labels, ranking.ids, ranking.texts)

    texts = {item: dataset.indexed_text(item) for item in dataset.corpus}
    stock = Stock("the corpus", dataset.corpus.keys(), texts)
    if indexed:
        stock = Stock("the index", indexed, texts)
    return fit_notes(asked_at, len(query_ids), stock)


def indexed_ids(source: Any, match_on: MatchOn) -> Collection[str]:
    """The ids of all nodes of an index in memory, or of a retriever's; nothing if unknown.

    The docstore of an index whose vector store keeps the texts is empty.
    """
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


def journal_header(plan: Plan, source: Source) -> dict[str, str]:
    """What a journal's first line says of a run: what can be known exactly, without any code."""
    match_on = plan.match_on
    if not isinstance(match_on, str):
        match_on = str(getattr(match_on, "__qualname__", type(match_on).__qualname__))
    header = {
        "run": mask(plan.run),
        "depth": str(source.depth or ""),
        CONTEXT: source.context,
        "match_on": match_on,
        "postprocessors": ", ".join(plan.postprocessor_kinds),
        "tokenizer": "" if plan.counter is None else plan.counter.name,
    }
    return {aspect: value for aspect, value in header.items() if value}


def describe(plan: Plan, run: Run, source: str, matched: Matched | None) -> dict[str, str]:
    """The head of a report: label to value, in order."""
    from llama_index_rag_metrics import __version__

    dataset, counter = plan.dataset, plan.counter
    size = questions(len(dataset.queries))
    if documents := len(dataset.corpus):
        size += f", {counted(documents, 'passage', 'passages')}"
    about = {
        "dataset": f"{dataset.name}: {size}" if dataset.name else size,
        "evaluated": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
    }
    stages = [plan.name or source, *plan.postprocessor_kinds]
    if len(stages) > 1 or not plan.name:  # its name is above every number
        about["retriever"] = " → ".join(stages)
    if plan.run:
        about["run"] = plan.run
    about["retrieved"] = f"up to {counted(run.depth, 'passage', 'passages')} a question"
    if plan.min_score is not None:
        about["retrieved"] += f", of a score from {plan.min_score:g} on"
    about["metrics"] = ", ".join(plan.metric_names)
    about["matched by"] = BY_ID if matched is None else matched.matcher
    if counter is not None:
        about["tokens by"] = counter.name
    if run.repeats:
        about["repeats"] = f"{len(run.repeats)} runs of each question"
    about["workers"] = str(plan.workers)
    core = version("llama-index-core")
    about["versions"] = f"llama-index-rag-metrics {__version__}, llama-index-core {core}"
    return about
