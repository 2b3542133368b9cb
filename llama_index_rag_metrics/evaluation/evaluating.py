"""An evaluation in steps: ask, cut, match, score texts, score rankings, and say how it was done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import chain
from typing import Any

from llama_index.core import Settings
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.matching.matched import (
    BY_ID,
    Matched,
    check_matchable,
    match_run,
)
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.runtime.masking import mask, register_secrets_of
from llama_index_rag_metrics.runtime.sync import in_thread
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.graders import graders_of_metrics, with_graders
from llama_index_rag_metrics.scores.label_fit import absent_labels
from llama_index_rag_metrics.scores.scoring.notes import Cut
from llama_index_rag_metrics.stories.label_view import with_retrieval

from .answers_kept import Attempt, Journal, answers_to
from .as_ask import Source
from .ask_all import Answers, ask_all, pipeline
from .evaluation_results import (
    Collected,
    EvaluationResults,
    build_results,
    every_query_failed,
    system_of,
)
from .plan import Plan
from .question import Ask
from .reading import WITHOUT_HISTORY, AnswerReader
from .run_matching import count_by_text
from .stock import fit_of_ids, fit_of_texts, indexed_ids
from .text_scores import prepare, score_texts

_TEXTS_ALONE = (
    "the labels are texts, expected_texts, and ids are compared: nothing is scored. Match by text: "
    "matcher='text'"
)


@dataclass
class Prepared:
    """A plan whose metrics are ready, before anything is asked."""

    plan: Plan
    metrics: Sequence[BaseRetrievalMetric]

    @classmethod
    async def of(cls, plan: Plan) -> Prepared:
        check_matchable(plan.dataset, plan.matcher)
        return cls(plan, await prepare(plan.computed, plan.dataset, plan.cache))

    def reader(self, source: Source) -> AnswerReader:
        """What makes rankings of the source's answers."""
        return AnswerReader(self.plan, source.context, compares_ids=self.compares_ids)

    @property
    def compares_ids(self) -> bool:
        """Whether any metric compares the ids that came with those of the labels."""
        if self.plan.matcher is not None:
            return False
        others = [metric for metric in self.plan.metrics if not isinstance(metric, TextMetric)]
        return any(getattr(metric, "recognises", True) for metric in others)


async def run_evaluation(source: Source, plan: Plan) -> EvaluationResults:
    """Ask every question and score what comes back."""
    if source.most_at_once is not None:
        plan = replace(plan, workers=min(plan.workers, source.most_at_once))
    if source.captures and plan.node_postprocessors and source.context != "metadata":
        check_no_program(source, plan)
    try:
        prepared = await Prepared.of(plan)
        reader = prepared.reader(source)
        answers = await ask_questions(source, prepared, reader, pipeline(source, plan))
        collected = await collect(prepared, answers)
        warn_of(collected)
        return await score(prepared, collected, source)
    finally:
        plan.cache.close()


def check_no_program(source: Source, plan: Plan) -> None:
    """Refuse postprocessors for a program, whose retrievals have their own."""
    if not callable(source.asked):
        kinds = [type(postprocessor).__name__ for postprocessor in plan.node_postprocessors]
        remedy = "Give them to the tools or engines that retrieve."
        sentence = f"node_postprocessors can't be given for an agent, got {kinds}."
        raise InvalidInput("node_postprocessors", kinds, sentence=sentence, remedy=remedy)


async def ask_questions(
    source: Source, prepared: Prepared, reader: AnswerReader, ask: Ask
) -> Answers:
    """Ask every question that the journal doesn't have."""
    plan = prepared.plan
    # before anything fails: a client may put its key into the first error
    register_secrets_of(Settings, source.asked, *plan.node_postprocessors, *prepared.metrics)
    if plan.journal is None:
        return await ask_all(ask, plan, reader, context=source.context)
    with Journal(plan.journal, journal_header(plan, source.depth)) as journal:
        kept = answers_to(plan.dataset, journal.rows)
        answers = await ask_all(
            ask, plan, reader, context=source.context, kept=kept, journal=journal
        )
    # answers of a journal tell nothing
    has_history = any(row.get(HISTORY) for row in plan.dataset.metadata.values())
    if source.context is None and has_history and WITHOUT_HISTORY not in answers.notes:
        answers.notes.append(WITHOUT_HISTORY)
    return answers


async def collect(prepared: Prepared, answers: Answers) -> list[Collected]:
    """What each time of asking gave, cut, matched, and scored by its texts."""
    plan, cut = prepared.plan, Cut()
    every = []
    for time in range(1, plan.repeats + 1):
        rankings = {}
        for query_id in plan.dataset.queries:
            ranking = answers.rankings[Attempt(query_id, time)]
            if plan.min_score is not None:
                uncut, ranking = ranking, ranking.at_least(plan.min_score, query_id)
                cut += Cut.of(uncut, ranking)
            rankings[query_id] = ranking
        run = Run(rankings, name=plan.name)
        run.min_score = plan.score_cutoff
        collected = Collected(run)
        if plan.matcher is not None:
            matched = await in_thread(match_run, run, plan.dataset, plan.matcher)
            collected.matched[matched.matcher] = matched
        texts = await score_texts(prepared.metrics, run, plan, answers.refusals)
        collected.results, collected.metric_errors = texts.results, texts.errors
        collected.usage = texts.usage
        every.append(collected)
    first = every[0]
    refused = [note for note in answers.refusals.notes if note not in answers.notes]
    first.notes = (*answers.notes, *refused, *cut.notes)
    first.label_note = await _label_note(answers, prepared, every)
    return every


async def _label_note(
    answers: Answers, prepared: Prepared, every: Sequence[Collected]
) -> str | None:
    plan, labels = prepared.plan, answers.reader.labels
    has_ids = any(plan.dataset.relevance.values())
    if prepared.compares_ids and plan.dataset.expected_texts and not has_ids:
        return _TEXTS_ALONE
    came = None
    if labels.are_strange:
        came = await in_thread(count_by_text, plan.dataset, every[0].run)
    by_id = labels.note(came)
    if by_id is not None:
        return by_id
    for name, matched in every[0].matched.items():
        # what any run recognised isn't lost
        if all(collected.matched[name].label_note for collected in every):
            return matched.label_note
    return None


async def score(
    prepared: Prepared, collected: Sequence[Collected], source: Source
) -> EvaluationResults:
    """The results of what was collected, with the head of their report."""
    plan, first = prepared.plan, collected[0]
    results = build_results(plan, collected)
    absent: frozenset[str] = frozenset()
    if prepared.compares_ids and not first.is_invalid:
        indexed = indexed_ids(source.asked, plan.match_on)
        fit = fit_of_ids(plan.dataset, first.run, indexed)
        if not results.matched:
            absent = absent_labels(results.relevance, first.run, indexed)
        results.scores = with_label_notes(results.scores, fit)
    for matched in results.matched.values():
        results.scores = with_label_notes(results.scores, [fit_of_texts(matched, first.run)])
    results.scores = with_graders(results.scores, graders_of_metrics(plan.computed))
    results.about = describe(plan, results.run, source.name, results.matched)
    retrieval = replace(system_of(results).retrieval, absent=absent)
    results.scores = with_retrieval(results.scores, retrieval)
    return results


def with_label_notes(scores: Scores, notes: Iterable[str]) -> Scores:
    """Return scores with further notes on labels that don't fit, before all others."""
    further = [note for note in notes if note]
    return scores.replace(
        notes=[*further, *scores.notes], label_notes=[*further, *scores.label_notes]
    )


def journal_header(plan: Plan, depth: int | None) -> dict[str, str]:
    """What a journal's first line says of a run: what can be known exactly, without any code."""
    match_on = plan.match_on if isinstance(plan.match_on, str) else _name_of(plan.match_on)
    postprocessors = [type(each).__qualname__ for each in plan.node_postprocessors]
    header = {
        "run": mask(plan.run),
        "depth": "" if depth is None else str(depth),
        "match_on": match_on,
        "postprocessors": ", ".join(postprocessors),
        "tokenizer": "" if plan.counter is None else plan.counter.name,
    }
    return {aspect: value for aspect, value in header.items() if value}


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def warn_of(collected: Sequence[Collected]) -> None:
    if (note := collected[0].label_note) is not None:
        warn_caller(LabelWarning(note))
    warnings = [every_query_failed(each.run) for each in collected]
    if warnings[0] is not None and all(warnings):
        warn_caller(warnings[0])


def describe(plan: Plan, run: Run, source: str, matched: Mapping[str, Matched]) -> dict[str, str]:
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
    if stages := _stages(plan, source):
        about["retriever"] = " → ".join(stages)
    if plan.run:
        about["run"] = plan.run
    depth = max((len(ranking.ids) for ranking in run.every_ranking), default=0)
    about["retrieved"] = f"up to {counted(depth, 'passage', 'passages')} a question"
    if plan.min_score is not None:
        about["retrieved"] += f", of a score from {plan.min_score:g} on"
    about["metrics"] = ", ".join(metric.metric_name for metric in plan.metrics)
    about["matched by"] = ", ".join(map(_recognised, matched.values())) or BY_ID
    if counter is not None:
        about["tokens by"] = counter.name
    if run.repeats:
        about["repeats"] = f"{len(run.repeats)} runs of each question"
    own, core = f"llama-index-rag-metrics {__version__}", version("llama-index-core")
    return {**about, "workers": str(plan.workers), "versions": f"{own}, llama-index-core {core}"}


def _stages(plan: Plan, source: str) -> list[str]:
    """What a question goes through; nothing where its name is above every number."""
    stages = [type(postprocessor).__qualname__ for postprocessor in plan.node_postprocessors]
    if plan.name:
        return [plan.name, *stages] if stages else []
    return [source or "stored rankings", *stages]


def _recognised(matched: Matched) -> str:
    """The matcher, and how many of the distinct texts or places it recognised anywhere."""
    passages = matched.passages
    labelled = {passage for known in passages.values() for passage in known.values()}
    recognised = {
        passages[query_id][name]
        for query_id, by_item in matched.stands_for.items()
        for name in chain.from_iterable(by_item)
        if name in passages.get(query_id, ())
    }
    if not labelled:
        return matched.matcher
    n = counted(len(labelled), "labelled passage", "labelled passages")
    return f"{matched.matcher}: {len(recognised):,} of {n} came"
