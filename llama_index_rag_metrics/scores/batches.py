"""Scoring a batch of judged queries: one column a metric.

Every way of scoring stored rankings ends here, whatever its rankings came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.rankings.judging.beside import TokenCounter, Tokenizer
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error

from .label_fit import Asked
from .notes import Facts, Presence
from .scores import Reason

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

    def check(self, relevance: Mapping[str, Relevance]) -> None:
        """Under no_relevant="error", raise for the first query with nothing relevant."""
        if self.no_relevant == "error":
            for query_id, judged in relevance.items():
                if not judged:
                    raise nothing_relevant(query_id, judged)


# all queries count, whatever is known of them
EVERY_QUERY = ScoringOptions("zero", "zero", checks_ids=False)


def nothing_relevant(query_id: object, relevance: object) -> InvalidInput:
    return InvalidInput(
        f"relevance of question {query_id!r}",
        relevance,
        "a grade above 0",
        "Leave such questions out of the means with no_relevant='exclude'.",
    )


@dataclass(eq=False)
class ScoredBatch:
    """The scores of a batch of queries; arrays have a value for each."""

    reason: IntArray  # why it isn't scored, a code of `REASONS`; 0 where it is
    depth: IntArray  # how many distinct items were retrieved
    n_relevant: IntArray  # how many items have a grade above 0
    is_failed: BoolArray  # whether the retriever failed
    facts: Facts
    columns: dict[str, FloatArray] = field(default_factory=dict)  # metric to scores
    own: dict[str, BoolArray] = field(default_factory=dict)  # who has a value, if not `is_scored`
    errors: dict[str, str] = field(default_factory=dict)  # metric to error, of a tolerant scoring

    def has_value(self, metric: str) -> BoolArray:
        """Whether the query counts in the mean of a metric."""
        return self.own.get(metric, self.is_scored)

    @property
    def is_scored(self) -> BoolArray:
        """Whether the query counts in the means."""
        return self.facts.is_scored

    @property
    def is_empty(self) -> BoolArray:
        """Whether nothing was retrieved, without an error."""
        return np.asarray((self.depth == 0) & ~self.is_failed, np.bool_)

    @property
    def has_no_relevant(self) -> BoolArray:
        """Whether the query is scored although it has nothing relevant."""
        return np.asarray(self.is_scored & (self.n_relevant == 0), np.bool_)


def score_batch(
    judged: JudgedRankings,
    metrics: Sequence[RankingMetric],
    options: ScoringOptions,
    presence: Presence,
    asked_at: Callable[[int], Asked],
) -> ScoredBatch:
    """Score judged rankings by every metric; no_relevant="error" raises for the first query."""
    is_judged, is_failed = presence.is_judged, presence.is_failed
    has_no_relevant = judged.n_gaining == 0
    reason = np.zeros(len(judged), np.int64)
    if options.failed == "exclude":
        reason[is_failed] = _FAILED
    reason[has_no_relevant & ~is_judged] = _UNJUDGED
    if options.no_relevant != "zero":
        reason[has_no_relevant & is_judged] = _NO_RELEVANT
    if options.no_relevant == "error" and (reason == _NO_RELEVANT).any():
        question = asked_at(int((reason == _NO_RELEVANT).argmax()))
        raise nothing_relevant(question.query_id, question.given)
    facts = Facts.of(judged, metrics, presence, np.asarray(reason == 0, np.bool_))
    scored = ScoredBatch(reason, judged.depth, judged.n_gaining, is_failed, facts)
    for metric in metrics:
        name = metric.metric_name
        try:
            column = metric.score_queries(judged)
        except Exception as error:
            if not options.tolerant:
                raise
            scored.columns[name] = np.full(len(judged), np.nan)
            scored.errors[name] = describe_error(error)
            continue
        scored.columns[name] = column
        if metric.of_unanswerable:
            column[is_failed] = 0.0
            counts_failures = options.failed == "zero" and not metric.lower_is_better
            scored.own[name] = has_no_relevant & is_judged & (~is_failed | counts_failures)
            continue
        if metric.lower_is_better:
            scored.own[name] = ~is_failed & (reason == 0)
    return scored


def ranking_metrics(metrics: Metrics) -> list[RankingMetric]:
    """Names or metrics as metrics of rankings that compare ids."""
    accepted = []
    for metric in resolve(metrics):
        name = metric.metric_name
        if not isinstance(metric, RankingMetric):
            remedy = "A metric of texts needs the questions and the texts: use evaluate()."
            raise InvalidInput("metrics", name, "metrics of rankings", remedy, lacks="texts")
        accepted.append(metric)
    return accepted


def compares_ids(metrics: Iterable[RankingMetric]) -> bool:
    """Whether any of the metrics compares ids of labels with those that were retrieved."""
    return any(metric.recognises and metric.needs_relevance for metric in metrics)


def no_common_query(run: object, ours: str, theirs: str) -> InvalidInput:
    """The error of a run whose queries, such as `ours`, aren't those of the qrels."""
    expected = f"some that the qrels have, too, which are like {theirs!r}"
    return InvalidInput(f"query ids of {run}", ours, expected, "Query ids compare exactly.")
