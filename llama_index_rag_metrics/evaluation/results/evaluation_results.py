"""The results of an evaluation: LlamaIndex's results, one a query, and what they add up to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from llama_index_rag_metrics.evaluation.sessions.judged_sessions import Sessions
from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.dataset_content import PassageTexts
from llama_index_rag_metrics.files.dataset_summary import unread_labels
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.texts.text_metric import TextMetric
from llama_index_rag_metrics.rankings.matching.matcher_names import Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import EveryQueryFailed
from llama_index_rag_metrics.runtime.garbage import collection_paused
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.hardest import HardQuestions, worst_of
from llama_index_rag_metrics.scores.mappings import ranking_digest
from llama_index_rag_metrics.scores.systems import TextOf

if TYPE_CHECKING:
    from llama_index.core.evaluation import RetrievalEvalResult
    from llama_index.core.evaluation.retrieval.metrics_base import (
        BaseRetrievalMetric,
        RetrievalMetricResult,
    )

    from llama_index_rag_metrics.evaluation.asking.query_runner import Collected
    from llama_index_rag_metrics.evaluation.run_evaluation import Plan
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.report.model import Report
    from llama_index_rag_metrics.scores.thresholds import Thresholds

    ListOfResults = list[RetrievalEvalResult]
else:
    ListOfResults = list


class EvaluationResults(Reportable, ListOfResults):
    """A list of LlamaIndex's results, one per query, in the dataset's order.

    A query that is left out of a metric's mean has no value for it here either, so that
    LlamaIndex's `get_retrieval_results_df` shows the same means.

    Attributes:
        run: what was retrieved, with latency and errors; if questions were asked several times, the
            first time, and `run.repeats` has each.
        relevance: query id to its relevance, of the judged queries.
        scores: query ids × metric names, means and counts.
        matched: matcher's name to the rankings that it made of the run, by which its metrics are
            scored; empty where only ids were compared. `run` has the ids that were retrieved.
        matched_by: metric's name to the name of its matcher; without metrics that compare ids.
        about: what was evaluated and how, label to value, for the head of a report.
        price_per_million: of a model's input tokens, in any currency; None where none was given.
        text_of: the text of a passage of the dataset by its id; None where it isn't known.

    Examples:
        >>> from llama_index_rag_metrics import evaluate
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
        >>> results = evaluate(lambda query: ["d2", "d1"], dataset, ["mrr", "recall@1"])
        >>> dict(results.scores.means)
        {'mrr': 0.5, 'recall@1': 0.0}
        >>> results.run["q1"].ids
        ['d2', 'd1']
        >>> results[0].metric_dict["mrr"].score
        0.5
    """

    def __init__(
        self,
        results: Iterable[RetrievalEvalResult],
        *,
        run: Run,
        relevance: Mapping[str, Relevance],
        scores: Scores,
        matched: Mapping[str, Matched] | None = None,
        matched_by: Mapping[str, str] | None = None,
        about: Mapping[str, str] | None = None,
        price_per_million: float | None = None,
        text_of: TextOf | None = None,
    ) -> None:
        super().__init__(results)
        self.run, self.relevance, self.scores = run, relevance, scores
        self.matched = dict(matched or {})
        self.matched_by = dict(matched_by or {})
        self.about = dict(about or {})
        self.price_per_million = price_per_million
        self.text_of = text_of

    @property
    def repeats(self) -> tuple[Scores, ...]:
        """The scores of each run, if questions were asked several times."""
        return self.scores.repeats

    @property
    def sessions(self) -> Sessions:
        """What an agent or a workflow retrieved, call by call; empty for a plain retriever.

        Of questions that were asked several times, the first time.
        """
        from llama_index_rag_metrics.evaluation.results.results_report import system_of

        seen = system_of(self).judged_by(next(iter(self.scores), ""))
        return Sessions(seen.run, seen.relevance)

    def worst(self, metric: str | None = None, n: int = 10) -> HardQuestions:
        """The n queries of the worst scores, as (query id, score); ties keep their order.

        Without a metric, that of the reports: ndcg where there is one, else the first.
        They print with what was asked, wanted and retrieved, and where it was lost.

        Raises:
            UnknownMetric: the metric wasn't computed.
        """
        from llama_index_rag_metrics.evaluation.results.results_report import system_of

        return worst_of(system_of(self), metric, n)

    def thresholds(self, metric: str | None = None, *, tolerance: float = 0.02) -> Thresholds:
        """Every retrieval score as a threshold: what questions with an answer lose, others gain.

        Args:
            metric: one of the metrics; None takes that of the reports, ndcg where there is one.
            tolerance: how far its mean may fall for the threshold that is proposed.

        Raises:
            UnknownMetric: the metric wasn't computed.
            InvalidInput: the metric needs no labels, or less of it is better; scores are missing,
                rise with the rank as distances do, or are of several retrievers.
        """
        from llama_index_rag_metrics.evaluation.results.results_report import system_of
        from llama_index_rag_metrics.report.model import headline
        from llama_index_rag_metrics.scores.thresholds import thresholds_of

        system = system_of(self)
        return thresholds_of(system, metric or headline([*self.scores]), tolerance)

    def log_to(self, tracker: Any, **options: Any) -> dict[str, float]:
        """Hand the scores to "mlflow", "wandb" or a callable; see `tracking.log_to`."""
        return self.scores.log_to(tracker, **options)

    def __getattr__(self, name: str) -> NoReturn:
        remedy = f". Write results.scores.{name}" if hasattr(Scores, name) else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{remedy}")

    def report(self, *, full: bool = False) -> Report:
        """Means, counts, latency, what went wrong, and each query's ranking."""
        from llama_index_rag_metrics.evaluation.results.results_report import results_report

        return results_report([self])

    def __repr__(self) -> str:
        return f"<EvaluationResults of {self.scores!r}>"


def build_results(plan: Plan, collected: Sequence[Collected]) -> EvaluationResults:
    from llama_index_rag_metrics.evaluation.retrieved.run_matching import matcher_names

    first, *others = collected
    scores, run, matched = _scores_of(plan, first), first.run, first.matched
    if others:
        of_each = [scores, *(_scores_of(plan, each) for each in others)]
        scores = Scores.of_repeats(of_each, [metric.metric_name for metric in plan.wanted])
        run = run.replaced(run, repeats=[each.run for each in collected])
        matched = {
            name: Matched.of_repeats([each.matched[name] for each in collected]) for name in matched
        }
    labels = [] if first.label_note is None else [first.label_note]
    scores = scores.replace(notes=[*scores.notes, *labels, *first.notes])
    return EvaluationResults(
        _core_results(plan.questions, first, scores),
        run=run,
        relevance=plan.questions.relevance,
        scores=scores,
        matched=matched,
        matched_by=matcher_names(plan.wanted, plan.options.matcher, matched),
        price_per_million=plan.options.price_per_million,
        text_of=PassageTexts(plan.questions),
    )


def _scores_of(plan: Plan, collected: Collected) -> Scores:
    from llama_index_rag_metrics.evaluation.retrieved.run_matching import score_by_matcher

    dataset, metrics, matcher = plan.questions, plan.metrics, plan.options.matcher
    scoring = replace(plan.options.scoring, tokenizer=plan.counter, tolerant=True, checks_ids=False)
    by_rank = score_by_matcher(
        metrics,
        matcher,
        dataset,
        collected.run,
        collected.matched,
        scoring,
        None if plan.permissions is None else plan.permissions.by_query,
    )
    known: dict[str, dict[str, float]] = {}
    unknown_notes: list[str] = []
    if plan.permissions is not None:
        known, unknown_notes = plan.permissions.without_unknown(metrics, by_rank)
    excluded = by_rank.failed if scoring.failed == "exclude" else ()
    others = {
        name: {
            query_id: result.score
            for query_id, result in results.items()
            if query_id not in excluded and not _is_empty(result)
        }
        for name, results in collected.results.items()
    }
    scores = by_rank.join({**known, **others}, order=[metric.metric_name for metric in metrics])
    return scores.replace(
        usage=collected.usage,
        rankings={
            query_id: ranking_digest(ranking.ids) for query_id, ranking in collected.run.items()
        },
        notes=[*scores.notes, *unknown_notes, *_notes(dataset, metrics, collected)],
    )


def _core_results(
    dataset: RetrievalDataset, collected: Collected, scores: Scores
) -> list[RetrievalEvalResult]:
    from llama_index.core.evaluation import RetrievalEvalResult
    from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
    from llama_index.core.evaluation.retrieval.metrics_base import RetrievalMetricResult

    with collection_paused():
        rows: dict[str, dict[str, RetrievalMetricResult]] = {
            query_id: {} for query_id in dataset.queries
        }
        for metric in scores:
            results, details = collected.results.get(metric), scores.details.get(metric, {})
            for query_id, score in scores.by_query(metric).items():
                own = None if results is None else results.get(query_id)
                metadata = dict(details.get(query_id, {}) if own is None else own.metadata)
                if query_id in scores.failed:
                    metadata["error"] = scores.failed[query_id]
                rows[query_id][metric] = RetrievalMetricResult(score=score, metadata=metadata)
        mode = RetrievalEvalMode.from_str(dataset.mode)
        return [
            RetrievalEvalResult(
                query=query,
                expected_ids=list(dataset.relevance.get(query_id, ())),
                expected_texts=dataset.expected_texts.get(query_id),
                retrieved_ids=list(map(str, collected.run[query_id].ids)),
                retrieved_texts=list(collected.run[query_id].texts or ()),
                mode=mode,
                metric_dict=rows[query_id],
            )
            for query_id, query in dataset.queries.items()
        ]


def _is_empty(result: RetrievalMetricResult) -> bool:
    return result.metadata.get("empty") is True


def every_query_failed(run: Run) -> EveryQueryFailed | None:
    from llama_index_rag_metrics.evaluation.asking.query_runner import NOT_ASKED

    errors = Counter(error for error in run.failed.values() if not error.startswith(NOT_ASKED))
    if not errors or len(run.failed) < len(run):
        return None
    error, times = errors.most_common(1)[0]
    return EveryQueryFailed(f"retrieval failed on every question, {times} times with: {error}")


def _notes(
    dataset: RetrievalDataset, metrics: Sequence[BaseRetrievalMetric], collected: Collected
) -> Iterator[str]:
    if any(isinstance(metric, RankingMetric) and metric.needs_relevance for metric in metrics):
        yield from unread_labels(dataset)
    by_question = [
        metric.metric_name
        for metric in metrics
        if isinstance(metric, TextMetric) and getattr(metric, "of", "query") == "query"
    ]
    if by_question and any(row.get(HISTORY) for row in dataset.metadata.values()):
        yield f"{', '.join(by_question)}: questions have a history, which isn't taken account of"
    if skipped := dataset.skipped:
        yield f"{len(skipped):,} lines of the dataset were skipped: {skipped[0]}"
    if (warning := every_query_failed(collected.run)) is not None:
        yield str(warning)
    for name, errors in collected.metric_errors.items():
        if errors:
            query_id, error = next(iter(errors.items()))
            yield f"{name} has no value for {questions(len(errors))}; {query_id!r}: {error}"
    for name, results in collected.results.items():
        if any(math.isnan(result.score) for result in results.values()):
            yield f"{name} gave NaN for some questions, which have no value"
        if n := sum(map(_is_empty, results.values())):
            yield f"{name} has no value where nothing was retrieved: {n} questions"
