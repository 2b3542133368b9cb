"""Scoring a batch of judged queries: one column a metric, and which queries have no score.

Every way of scoring stored rankings ends here, whatever its rankings came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import (
    ALL_RETRIEVED,
    BoolArray,
    FloatArray,
    IntArray,
    JudgedRankings,
    Selection,
)
from llama_index_rag_metrics.matching import BY_ID
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.naming import metrics as resolve
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.scores import Counts, Reason
from llama_index_rag_metrics.scoring.remarks import Remarks

NoRelevant: TypeAlias = Literal["exclude", "zero", "error"]
Failed: TypeAlias = Literal["zero", "exclude"]
Metrics: TypeAlias = str | BaseRetrievalMetric | Iterable[str | BaseRetrievalMetric]

REASONS: tuple[Reason | None, ...] = (None, "unjudged", "no_relevant", "failed")
"""Why a query isn't scored, by its code in `ScoredBatch.reason`."""

_UNJUDGED, _NO_RELEVANT, _FAILED = 1, 2, 3


@dataclass(eq=False)
class ScoredBatch:
    """The scores of a batch of queries.

    Attributes:
        columns: metric name to (queries,) scores; they mean nothing for a query that isn't scored.
        reason: (queries,) a code of `REASONS`; 0 where the query is scored.
        depth: (queries,) how many distinct items were retrieved.
        n_relevant: (queries,) how many items have a grade above 0.
        is_failed: (queries,) whether the retriever failed.
        remarks: what a reader of the numbers should know.
        details: metric name to what the metric says beside each score, for those that do.
        own: metric name to (queries,) whether it has a value, of metrics for which that isn't
            `is_scored`.
        errors: metric name to what went wrong with it, of a tolerant scoring.
    """

    columns: dict[str, FloatArray]
    reason: IntArray
    depth: IntArray
    n_relevant: IntArray
    is_failed: BoolArray
    remarks: Remarks = field(default_factory=Remarks)
    details: dict[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    own: dict[str, BoolArray] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def has_value(self, metric: str) -> BoolArray:
        """(queries,) whether the query counts in the mean of a metric."""
        return self.own.get(metric, self.is_scored)

    @property
    def is_scored(self) -> BoolArray:
        """(queries,) whether the query counts in the means."""
        return np.asarray(self.reason == 0, np.bool_)

    @property
    def is_empty(self) -> BoolArray:
        """(queries,) whether nothing was retrieved, without an error."""
        return np.asarray((self.depth == 0) & ~self.is_failed, np.bool_)

    @property
    def is_barren(self) -> BoolArray:
        """(queries,) whether the query is scored although it has nothing relevant."""
        return np.asarray(self.is_scored & (self.n_relevant == 0), np.bool_)

    @property
    def counts(self) -> Counts:
        """How many queries are scored, and how many are special."""
        reason = np.bincount(self.reason, minlength=len(REASONS))
        return Counts(
            queries=len(self.reason),
            scored=int(reason[0]),
            failed=int(self.is_failed.sum()),
            empty=int(self.is_empty.sum()),
            no_relevant=int(reason[_NO_RELEVANT] + self.is_barren.sum()),
            unjudged=int(reason[_UNJUDGED]),
        )


def score_batch(
    judged: JudgedRankings,
    metrics: Sequence[RankingMetric],
    *,
    is_judged: BoolArray,
    is_failed: BoolArray,
    no_relevant: NoRelevant,
    failed: Failed,
    selection: Selection = ALL_RETRIEVED,
    tolerant: bool = False,
) -> ScoredBatch:
    """Score judged rankings by every metric.

    Args:
        judged: the rankings.
        metrics: possibly none.
        is_judged: (queries,) whether any relevance was given.
        is_failed: (queries,) whether the retriever failed.
        no_relevant: what to do with a query that was judged, but has nothing relevant.
        failed: what to do with a query on which the retriever failed.
        selection: which of the retrieved items the metrics see.
        tolerant: whether a metric that raises has no value, and an error, instead of ending it all.
    """
    reason = np.zeros(len(judged), np.int64)
    if failed == "exclude":
        reason[is_failed] = _FAILED
    barren = judged.n_gaining == 0
    reason[barren & ~is_judged] = _UNJUDGED
    if no_relevant != "zero":
        reason[barren & is_judged] = _NO_RELEVANT
    columns: dict[str, FloatArray] = {}
    details: dict[str, Sequence[dict[str, Any]]] = {}
    own: dict[str, BoolArray] = {}
    errors: dict[str, str] = {}
    selected = selection.of(judged)
    for one in metrics:
        try:
            columns[one.metric_name] = one.score_queries(selected)
            if (rows := one.details(selected)) is not None:
                details[one.metric_name] = rows
        except Exception as error:
            if not tolerant:
                raise
            columns[one.metric_name] = np.full(len(judged), np.nan)
            errors[one.metric_name] = f"{type(error).__name__}: {error}"
            continue
        if (has_value := _has_value(one, selected, reason, is_failed)) is not None:
            own[one.metric_name] = has_value
    remarks = Remarks.of(selected, metrics, reason == 0)
    return ScoredBatch(
        columns,
        reason,
        depth=judged.depth,
        n_relevant=judged.n_gaining,
        is_failed=is_failed,
        remarks=remarks,
        details=details,
        own=own,
        errors=errors,
    )


def _has_value(
    metric: RankingMetric, judged: JudgedRankings, reason: IntArray, is_failed: BoolArray
) -> BoolArray | None:
    """(queries,) whether a metric has a value; None where every scored query has one.

    What leaks needs no relevance. A retriever that failed has kept nothing back: it has no value,
    rather than the best there is.
    """
    has_value = metric.has_value(judged)
    if metric.needs_forbidden and not metric.needs_relevance:
        return ~is_failed if has_value is None else has_value & ~is_failed
    return None if has_value is None else has_value & (reason == 0)


def ranking_metrics(given: Metrics) -> list[RankingMetric]:
    """Names or metrics as metrics of rankings that compare ids.

    Raises:
        InvalidInput: a metric needs more than ids.
        UnknownMetric: a name isn't known.
    """
    return [_ranking_metric(one) for one in resolve(given)]


def check_options(
    no_relevant: NoRelevant,
    failed: Failed,
    relevance: Mapping[str, Relevance] | None = None,
) -> None:
    """What can be wrong with the options, before any work: they, or the relevance under "error".

    Raises:
        InvalidInput: an option isn't one of its values, or a query has nothing relevant.
    """
    _one_of("no_relevant", no_relevant, ("exclude", "zero", "error"))
    _one_of("failed", failed, ("zero", "exclude"))
    if no_relevant == "error":
        for query_id, one in (relevance or {}).items():
            if not one:
                raise nothing_relevant(query_id, one)


def nothing_relevant(query_id: object, relevance: object) -> InvalidInput:
    """The error of a query that has nothing relevant, under no_relevant="error"."""
    return InvalidInput(
        f"relevance of query {query_id!r}",
        relevance,
        "a grade above 0",
        "Leave such queries out of the means with no_relevant='exclude'.",
    )


def _ranking_metric(given: BaseRetrievalMetric) -> RankingMetric:
    if not isinstance(given, RankingMetric):
        raise InvalidInput(
            "metrics",
            given,
            "metrics of rankings",
            "A metric of texts needs the query and the texts: use evaluate().",
        )
    if given.match not in {None, BY_ID}:
        remedy = "A matcher needs what it compares: use evaluate(), or match_run() on a stored run."
        raise InvalidInput("metrics", given.metric_name, "metrics that compare ids", remedy)
    return given


def _one_of(argument: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InvalidInput(argument, value, " or ".join(map(repr, choices)))


def no_common_query(run: object, ours: str, theirs: str) -> InvalidInput:
    """The error of a run that speaks of other queries than the qrels.

    Args:
        run: what to call the run.
        ours: a query of it.
        theirs: a query of the qrels.
    """
    wish = f"some that the qrels have, too, which are like {theirs!r}"
    return InvalidInput(f"queries of {run}", ours, wish, "Query ids compare exactly.")
