"""The results of an evaluation: LlamaIndex's results, one a query, and what they add up to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from llama_index.core.evaluation import RetrievalEvalResult
from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)

from llama_index_rag_metrics.evaluation.collection import Collected
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Run
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scoring import Failed, NoRelevant, score_with

if TYPE_CHECKING:
    from llama_index_rag_metrics.dataset import RetrievalDataset


class EvaluationResults(list[RetrievalEvalResult]):
    """LlamaIndex's result of every query, in the dataset's order.

    A query that is left out of a metric's mean has no value for it here either, so that
    LlamaIndex's `get_retrieval_results_df` shows the same means.

    Attributes:
        run: what was retrieved, with latency and errors.
        relevance: query id to its relevance, of the judged queries.
        scores: query ids × metric names, means and counts.
    """

    def __init__(
        self,
        results: Iterable[RetrievalEvalResult],
        *,
        run: Run,
        relevance: Mapping[str, Relevance],
        scores: Scores,
    ) -> None:
        super().__init__(results)
        self.run = run
        self.relevance = relevance
        self.scores = scores

    def __repr__(self) -> str:
        return f"<EvaluationResults of {self.scores!r}>"

    def __str__(self) -> str:
        from llama_index_rag_metrics.report.console import to_text

        return to_text([self])

    def _repr_html_(self) -> str:
        from llama_index_rag_metrics.report.notebook import scores_html

        return scores_html([self])


def build_results(
    dataset: RetrievalDataset,
    collected: Collected,
    metrics: Sequence[BaseRetrievalMetric],
    *,
    no_relevant: NoRelevant,
    failed: Failed,
) -> EvaluationResults:
    """Score what was collected."""
    ranking_metrics = [metric for metric in metrics if isinstance(metric, RankingMetric)]
    by_rank = score_with(
        ranking_metrics,
        {query_id: dataset.relevance.get(query_id) for query_id in dataset.queries},
        collected.run,
        no_relevant=no_relevant,
        failed=failed,
        queries=dataset.queries,
        metadata=dataset.metadata,
        name=collected.run.name,
    )
    others = {
        name: {query_id: result.score for query_id, result in results.items()}
        for name, results in collected.results.items()
    }
    scores = by_rank.join(others, order=[metric.metric_name for metric in metrics])
    scores.notes = (*scores.notes, *_notes(collected))
    rows = scores.per_query
    return EvaluationResults(
        [
            RetrievalEvalResult(
                query=query,
                expected_ids=list(dataset.relevance.get(query_id, ())),
                expected_texts=dataset.expected_texts.get(query_id),
                retrieved_ids=[str(one) for one in collected.run[query_id].ids],
                retrieved_texts=list(collected.run[query_id].texts or ()),
                mode=RetrievalEvalMode.from_str(dataset.mode),
                metric_dict={
                    name: _result(name, query_id, score, scores, collected)
                    for name, score in rows.get(query_id, {}).items()
                },
            )
            for query_id, query in dataset.queries.items()
        ],
        run=collected.run,
        relevance=dataset.relevance,
        scores=scores,
    )


def _result(
    name: str, query_id: str, score: float, scores: Scores, collected: Collected
) -> RetrievalMetricResult:
    if name in collected.results:
        return collected.results[name][query_id]
    metadata = dict(scores.details.get(name, {}).get(query_id, {}))
    if query_id in scores.failed:
        metadata["error"] = scores.failed[query_id]
    return RetrievalMetricResult(score=score, metadata=metadata)


def _notes(collected: Collected) -> list[str]:
    notes = [] if collected.label_note is None else [collected.label_note]
    for name, errors in collected.metric_errors.items():
        if errors:
            query_id, error = next(iter(errors.items()))
            notes.append(f"{name} has no value for {len(errors)} queries; {query_id!r}: {error}")
    for name, results in collected.results.items():
        if any(math.isnan(result.score) for result in results.values()):
            notes.append(f"{name} gave NaN for some queries: they have no value")
    return notes
