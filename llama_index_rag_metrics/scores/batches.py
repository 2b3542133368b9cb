"""Scoring a batch of judged queries, wherever the rankings came from: one column a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.beside import TokenCounter, Tokenizer
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.runtime.containers import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error

from .counts import Reason
from .label_fit import Asked

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

NoRelevant: TypeAlias = Literal["exclude", "zero", "error"]
Failed: TypeAlias = Literal["zero", "exclude"]
Metrics: TypeAlias = "str | BaseRetrievalMetric | Iterable[str | BaseRetrievalMetric]"

# why a query isn't scored, by its code in `ScoredBatch.reason`
REASONS: tuple[Reason | None, ...] = (None, "unjudged", "no_relevant", "failed")
_UNJUDGED, _NO_RELEVANT, _FAILED = 1, 2, 3


@dataclass(frozen=True)
class ScoringOptions:
    """Which queries count in the means, and which of their items."""

    no_relevant: NoRelevant = "exclude"
    failed: Failed = "zero"
    tokenizer: Tokenizer | TokenCounter | None = None  # of texts without token counts
    tolerant: bool = False  # whether a metric that raises has an error instead of a value
    checks_ids: bool = True  # whether to say where labels don't fit

    def __post_init__(self) -> None:
        for argument, choices in (("no_relevant", NoRelevant), ("failed", Failed)):
            value = getattr(self, argument)
            if value not in get_args(choices):
                raise InvalidInput(argument, value, " or ".join(map(repr, get_args(choices))))


@dataclass(eq=False)
class ScoredBatch:
    """The scores of a batch of queries, and what notes on labels are made of; a value for each."""

    reason: IntArray  # why it isn't scored, a code of `REASONS`; 0 where it is
    is_failed: BoolArray  # whether the retriever failed
    depth: IntArray  # how many distinct items were retrieved
    n_found: IntArray  # how many of its labels were retrieved
    n_relevant: IntArray  # how many labels have a grade above 0
    n_below: dict[float, IntArray]  # min_grade of a metric to how many of these are below it
    columns: dict[str, FloatArray] = field(default_factory=dict)  # metric to scores, NaN for none
    errors: dict[str, str] = field(default_factory=dict)  # metric to error, of a tolerant scoring

    @property
    def is_scored(self) -> BoolArray:
        return np.asarray(self.reason == 0, np.bool_)


def concatenated(parts: Sequence[Any]) -> Any:
    """Arrays one after another, or those under each key of mappings."""
    if not isinstance(parts[0], dict):
        return np.concatenate(parts)
    return {key: concatenated(list(map(itemgetter(key), parts))) for key in parts[0]}


def score_batch(
    judged: JudgedRankings,
    metrics: Sequence[RankingMetric],
    options: ScoringOptions,
    is_judged: BoolArray,
    is_failed: BoolArray,
    asked_at: Callable[[int], Asked],
) -> ScoredBatch:
    """Score judged rankings by every metric; no_relevant="error" raises for the first query."""
    has_no_relevant = judged.n_gaining == 0
    is_unanswerable = has_no_relevant & is_judged
    reason = np.zeros(len(judged), np.int64)
    reason[is_failed & (options.failed == "exclude")] = _FAILED
    reason[has_no_relevant & ~is_judged] = _UNJUDGED
    reason[is_unanswerable & (options.no_relevant != "zero")] = _NO_RELEVANT
    if options.no_relevant == "error" and is_unanswerable.any():
        question = asked_at(int(is_unanswerable.argmax()))
        remedy = "Leave such questions out of the means with no_relevant='exclude'."
        argument = f"relevance of question {question.query_id!r}"
        raise InvalidInput(argument, question.relevance, "a grade above 0", remedy)
    n_found = np.bincount(judged.item_query, minlength=len(judged))
    n_below = {}
    for grade in sorted({getattr(metric, "min_grade", 0.0) for metric in metrics} - {0.0}):
        n_below[grade] = judged.n_gaining - judged.count_judgements(grade)
    scored = ScoredBatch(reason, is_failed, judged.depth, n_found, judged.n_gaining, n_below)
    for metric in metrics:
        name = metric.metric_name
        try:
            column = metric.score_queries(judged)
        except Exception as error:
            if not options.tolerant:
                raise
            column = np.full(len(judged), np.nan)
            scored.errors[name] = describe_error(error)
        has_value = reason == 0
        if metric.of_unanswerable:
            column[is_failed] = 0.0
            counts_failures = options.failed == "zero" and not metric.lower_is_better
            has_value = is_unanswerable & (~is_failed | counts_failures)
        elif metric.lower_is_better:
            has_value &= ~is_failed
        scored.columns[name] = np.where(has_value, column, np.nan)
    return scored


def ranking_metrics(metrics: Metrics) -> list[RankingMetric]:
    """Names or metrics as metrics of rankings that compare ids."""
    accepted = []
    for metric in metric_names.metrics(metrics):
        if not isinstance(metric, RankingMetric):
            remedy = "A metric of texts needs the questions and the texts: use evaluate()."
            raise InvalidInput("metrics", metric.metric_name, "metrics of rankings", remedy)
        accepted.append(metric)
    return accepted


def compares_ids(metrics: Iterable[RankingMetric]) -> bool:
    return any(metric.recognises and metric.needs_relevance for metric in metrics)
