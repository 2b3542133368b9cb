"""Scoring a batch of judged queries: one column a metric, and which queries have no score.

Every way of scoring stored rankings ends here, whatever its rankings came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.rankings.judging.columns import columns_for
from llama_index_rag_metrics.rankings.judging.judged import (
    ALL_RETRIEVED,
    JudgedRankings,
    Selection,
    scores_in,
)
from llama_index_rag_metrics.rankings.judging.judged_column import JudgedColumn, RetrievalScores
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.scores import Counts, Reason, Scores
from llama_index_rag_metrics.scores.scoring.remarks import Cut, Overlap, Remarks, Sides

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

NoRelevant: TypeAlias = Literal["exclude", "zero", "error"]
Failed: TypeAlias = Literal["zero", "exclude"]


@dataclass(frozen=True)
class ScoringOptions:
    """Which queries count in the means, and which of their items."""

    no_relevant: NoRelevant = "exclude"
    failed: Failed = "zero"
    selection: Selection = ALL_RETRIEVED
    tokenizer: Tokenizer | TokenCounter | None = None  # of texts without token counts
    tolerant: bool = False  # whether a metric that raises has an error instead of a value
    checks_ids: bool = True  # whether to say so where labels and rankings have no ids in common

    def __post_init__(self) -> None:
        for argument, choices in (("no_relevant", NoRelevant), ("failed", Failed)):
            if (value := getattr(self, argument)) not in get_args(choices):
                raise InvalidInput(argument, value, " or ".join(map(repr, get_args(choices))))

    def columns(self, metrics: Iterable[object]) -> list[type[JudgedColumn]]:
        """What is read of rankings beside their ids."""
        needed = columns_for(metrics)
        if self.selection.min_score is None or RetrievalScores in needed:
            return needed
        return [*needed, RetrievalScores]

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


Metrics: TypeAlias = "str | BaseRetrievalMetric | Iterable[str | BaseRetrievalMetric]"

# why a query isn't scored, by its code in `ScoredBatch.reason`
REASONS: tuple[Reason | None, ...] = (None, "unjudged", "no_relevant", "failed")
_UNJUDGED, _NO_RELEVANT, _FAILED = 1, 2, 3


@dataclass(eq=False)
class ScoredBatch:
    """The scores of a batch of queries."""

    columns: dict[str, FloatArray]  # metric to (queries,) scores; only of those that are scored
    reason: IntArray  # (queries,) a code of `REASONS`; 0 where the query is scored
    depth: IntArray  # (queries,) how many distinct items were retrieved
    n_relevant: IntArray  # (queries,) how many items have a grade above 0
    is_failed: BoolArray  # (queries,) whether the retriever failed
    remarks: Remarks = field(default_factory=Remarks)
    details: dict[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    own: dict[str, BoolArray] = field(default_factory=dict)  # who has a value, if not `is_scored`
    errors: dict[str, str] = field(default_factory=dict)  # metric to error, of a tolerant scoring
    digests: Sequence[str] = ()  # (queries,) of the rankings, where they were asked for

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
    def has_no_relevant(self) -> BoolArray:
        """(queries,) whether the query is scored although it has nothing relevant."""
        return np.asarray(self.is_scored & (self.n_relevant == 0), np.bool_)

    @property
    def counts(self) -> Counts:
        reason = np.bincount(self.reason, minlength=len(REASONS))
        return Counts(
            queries=len(self.reason),
            scored=int(reason[0]),
            failed=int(self.is_failed.sum()),
            empty=int(self.is_empty.sum()),
            no_relevant=int(reason[_NO_RELEVANT] + self.has_no_relevant.sum()),
            unjudged=int(reason[_UNJUDGED]),
        )


def score_batch(
    judged: JudgedRankings,
    metrics: Sequence[RankingMetric],
    options: ScoringOptions,
    *,
    is_judged: BoolArray,
    is_failed: BoolArray,
    sides: Sides,
) -> ScoredBatch:
    """Score judged rankings by every metric; no_relevant="error" raises for the first query."""
    reason = np.zeros(len(judged), np.int64)
    if options.failed == "exclude":
        reason[is_failed] = _FAILED
    has_no_relevant = judged.n_gaining == 0
    reason[has_no_relevant & ~is_judged] = _UNJUDGED
    if options.no_relevant != "zero":
        reason[has_no_relevant & is_judged] = _NO_RELEVANT
    if options.no_relevant == "error" and (reason == _NO_RELEVANT).any():
        row = int((reason == _NO_RELEVANT).argmax())
        raise nothing_relevant(sides.question(row), sides.pair(row)[0])
    selection = options.selection
    returned = Selection(min_score=selection.min_score).of(judged)
    selected = replace(selection, min_score=None).of(returned)
    scored = ScoredBatch({}, reason, returned.depth, judged.n_gaining, is_failed)
    for metric in metrics:
        name = metric.metric_name
        try:
            scored.columns[name] = metric.score_queries(selected)
            if metric.of_unanswerable:
                scored.columns[name][is_failed] = 0.0
            if (rows := metric.details(selected)) is not None:
                scored.details[name] = rows
        except Exception as error:
            if not options.tolerant:
                raise
            scored.columns[name] = np.full(len(judged), np.nan)
            scored.errors[name] = describe_error(error)
            continue
        if metric.of_unanswerable:
            is_counted = ~is_failed | (options.failed == "zero" and not metric.lower_is_better)
            scored.own[name] = has_no_relevant & is_judged & is_counted
        elif (has_value := _has_value(metric, selected, reason, is_failed)) is not None:
            scored.own[name] = has_value
    overlap = Overlap()
    if options.checks_ids and any(metric.needs_relevance for metric in metrics):
        by_id = any(metric.recognises and metric.needs_relevance for metric in metrics)
        overlap = Overlap.of(judged, is_judged, is_failed, sides, by_id=by_id)
    scored.remarks = Remarks.of(selected, metrics, scored.is_scored, overlap)
    if selection.min_score is not None:
        scored.remarks = replace(scored.remarks, cut=_cut(judged, returned))
    return scored


def _cut(judged: JudgedRankings, left: JudgedRankings) -> Cut:
    scores, end = scores_in(judged), np.cumsum(judged.depth)
    is_any, is_left = judged.depth > 0, left.depth > 0
    first, last = scores[(end - judged.depth)[is_any]], scores[end[is_any] - 1]
    n_rising = np.count_nonzero(last > first) - np.count_nonzero(last < first)
    highest = float(scores.max(initial=-np.inf))
    return Cut(n_rising, int(is_any.sum()), int(is_left.sum()), highest)


def collect(
    parts: Iterable[tuple[Sequence[str], Sequence[Any], ScoredBatch]],
    metric_names: Sequence[str],
    notes: Iterable[str] = (),
    **about: Any,
) -> Scores:
    """All scores, from (query ids, errors, batch); `about` is read after the last part."""
    query_ids: list[str] = []
    columns: dict[str, list[FloatArray]] = {metric: [] for metric in metric_names}
    excluded: dict[str, Reason] = {}
    failed: dict[str, str] = {}
    empty: list[str] = []
    no_relevant: list[str] = []
    own: dict[str, dict[str, float]] = {}
    errors: dict[str, str] = {}
    counts, remarks = Counts(), Remarks()
    for ids, causes, scored in parts:
        query_ids += compress(ids, scored.is_scored)
        for metric, column in scored.columns.items():
            if metric in scored.own:
                known = compress(zip(ids, column.tolist(), strict=True), scored.own[metric])
                own.setdefault(metric, {}).update(known)
            else:
                columns[metric].append(column[scored.is_scored])
        for row in np.flatnonzero(~scored.is_scored).tolist():
            excluded[ids[row]] = cast(Reason, REASONS[scored.reason[row]])
        failed |= {ids[row]: causes[row] for row in np.flatnonzero(scored.is_failed).tolist()}
        empty += compress(ids, scored.is_empty)
        no_relevant += compress(ids, scored.has_no_relevant)
        errors |= scored.errors
        counts += scored.counts
        remarks += scored.remarks
    nothing = np.array([], np.float64)
    scores = Scores(
        query_ids,
        {name: np.concatenate([nothing, *of]) for name, of in columns.items() if name not in own},
        excluded=excluded,
        failed=failed,
        empty=empty,
        no_relevant=no_relevant,
        notes=[
            *notes,
            *(counts.notes if any(not own.get(metric) for metric in metric_names) else ()),
            *remarks.notes(),
            *(f"{metric} has no value: {error}" for metric, error in errors.items()),
        ],
        **about,
    )
    return scores.join(own, order=metric_names) if own else scores


def _has_value(
    metric: RankingMetric, judged: JudgedRankings, reason: IntArray, is_failed: BoolArray
) -> BoolArray | None:
    """(queries,) whether a metric has a value; None where every scored query has one."""
    has_value = metric.has_value(judged)
    if metric.lower_is_better:
        has_value = ~is_failed if has_value is None else has_value & ~is_failed
    is_leak = "forbidden" in metric.needs and not metric.needs_relevance
    return has_value if has_value is None or is_leak else has_value & (reason == 0)


def ranking_metrics(metrics: Metrics) -> list[RankingMetric]:
    """Names or metrics as metrics of rankings that compare ids."""
    chosen = []
    for metric in resolve(metrics):
        name = metric.metric_name
        if not isinstance(metric, RankingMetric):
            remedy = "A metric of texts needs the questions and the texts: use evaluate()."
            raise InvalidInput("metrics", name, "metrics of rankings", remedy, lacks="texts")
        if metric.match not in {None, BY_ID}:
            remedy = (
                "A matcher needs what it compares: use evaluate(), or match_run() on a stored run, "
                "whose relevance and run score_rankings() takes."
            )
            expected = "metrics that compare ids"
            raise InvalidInput("metrics", name, expected, remedy, lacks="matcher")
        chosen.append(metric)
    return chosen


def no_common_query(run: object, ours: str, theirs: str) -> InvalidInput:
    """The error of a run whose queries, such as `ours`, aren't those of the qrels."""
    expected = f"some that the qrels have, too, which are like {theirs!r}"
    return InvalidInput(f"query ids of {run}", ours, expected, "Query ids compare exactly.")
