"""Scoring a batch of judged queries: one column a metric, and what a reader of it should know.

Every way of scoring stored rankings ends here, whatever its rankings came from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.gains import NDCG
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.rankings.judging.columns import columns_for
from llama_index_rag_metrics.rankings.judging.judged import (
    ALL_RETRIEVED,
    JudgedRankings,
    Selection,
    scores_in,
)
from llama_index_rag_metrics.rankings.judging.judged_column import JudgedColumn, RetrievalScores
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, slope
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.report.numbers import counted, score
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error, shorten
from llama_index_rag_metrics.scores import Counts, Reason, Scores
from llama_index_rag_metrics.scores.mappings import Total

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

_FEW_QUESTIONS, _FEW_PASSAGES = 10, 100  # one in this many is next to nothing


@dataclass(frozen=True)
class Sides:
    """The question at a position, and its labels and retrieved ids, as they were given."""

    question: Callable[[int], object]
    pair: Callable[[int], tuple[Any, Any]]


@dataclass(frozen=True)
class Overlap(Total):
    """What labels and rankings have in common; the overlaps of batches add up."""

    n_judged: int = 0  # how many questions have labels
    n_ranked: int = 0  # how many questions something was retrieved for
    n_both: int = 0  # how many are both
    n_possible: int = 0  # how many labels the rankings of their questions have room for
    n_shared: int = 0  # how many of them were retrieved
    judged: str = ""  # a judged question without a ranking, or ""
    ranked: str = ""  # a question with a ranking and without labels, or ""
    example: tuple[str, ...] = ()  # a question, a label and a retrieved id, where these differ

    @classmethod
    def of(
        cls,
        judged: JudgedRankings,
        is_judged: BoolArray,
        is_failed: BoolArray,
        sides: Sides,
        *,
        by_id: bool,
    ) -> Overlap:
        """The overlap of a batch; `by_id` says whether ids of passages are compared."""
        is_ranked = (judged.depth > 0) | is_failed
        possible = np.minimum(judged.depth, judged.n_gaining) * by_id
        n_possible, n_shared = int(possible.sum()), len(judged.item_query) * by_id
        example: tuple[str, ...] = ()
        if n_possible and _is_little(n_shared, n_possible, _FEW_PASSAGES):
            possible[judged.item_query] = 0
            rows = np.flatnonzero(possible).tolist()
            question, row = min((shorten(sides.question(row)), row) for row in rows)
            judgements, retrieved = sides.pair(row)
            label = next(iter(Relevance.of(judgements)))
            example = question, shorten(label), shorten(next(iter(retrieved)))
        return cls(
            int(is_judged.sum()),
            int(is_ranked.sum()),
            int((is_judged & is_ranked).sum()),
            n_possible,
            n_shared,
            _example(sides, is_judged & ~is_ranked),
            _example(sides, is_ranked & ~is_judged),
            example,
        )

    @property
    def question_note(self) -> str:
        """A sentence where either side has questions that the other lacks, a tenth or more."""
        lonely = (self.n_judged - self.n_both, self.n_ranked - self.n_both)
        both_sides = zip(lonely, (self.n_judged, self.n_ranked), strict=True)
        if all(n_lonely and 10 * n_lonely >= n for n_lonely, n in both_sides):
            others = counted(self.n_ranked - self.n_both, "ranking", "rankings")
            return (
                f"{self.n_both:,} of {self.n_judged:,} judged questions have a ranking, beside "
                f"{others} of others: a judged question is {self.judged}, a ranked one "
                f"{self.ranked}. Question ids compare exactly: write them alike on both sides"
            )
        return ""

    @property
    def label_note(self) -> str:
        """A sentence where next to no label was retrieved."""
        if self.example and _is_little(self.n_shared, self.n_possible, _FEW_PASSAGES):
            _, label, retrieved = self.example
            return (
                f"{self.n_shared:,} of {self.n_possible:,} labels were retrieved for their "
                f"questions: a label is {label}, an id retrieved for its question {retrieved}. Ids "
                "compare exactly: if both sides name the same passages, read the rankings by the "
                "ids of the labels, or match by text with match_run()"
            )
        return ""


def _is_little(n: int, of: int, share: int) -> bool:
    return n * share <= of


def _example(sides: Sides, wanted: BoolArray) -> str:
    return shorten(sides.question(int(wanted.argmax()))) if wanted.any() else ""


@dataclass(frozen=True)
class Cut(Total):
    """What a threshold on the retriever's scores does to rankings; the cuts of batches add up."""

    n_rising: int = 0  # how many more rankings have scores that rise with the rank than that fall
    n_before: int = 0  # how many rankings hold anything without it, and
    n_left: int = 0  # with it
    highest: float = -math.inf  # score of all

    @classmethod
    def of(cls, before: Ranking, left: Ranking) -> Cut:
        scores = [score for score in before.scores or () if score is not None]
        return cls(slope(scores), bool(before.ids), bool(left.ids), max(scores, default=-math.inf))

    def __add__(self, other: Cut) -> Cut:
        return replace(super().__add__(other), highest=max(self.highest, other.highest))

    @property
    def notes(self) -> list[str]:
        """Sentences where it leaves out the best, or next to everything."""
        notes = []
        if self.n_rising > 0:
            notes.append(
                "most scores rise with the rank, as distances do: min_score leaves out the best"
            )
        if self.n_before and _is_little(self.n_left, self.n_before, _FEW_QUESTIONS):
            notes.append(
                f"min_score leaves nothing of {self.n_before - self.n_left:,} of "
                f"{counted(self.n_before, 'ranking', 'rankings')}: the highest score of all is "
                f"{self.highest:g}"
            )
        return notes


@dataclass(frozen=True)
class Remarks(Total):
    """What a reader of scores should know of their queries; those of batches add up."""

    n_scored: int = 0
    deepest: int = 0  # the length of the longest ranking
    cutoffs: frozenset[int] = frozenset()  # of the metrics
    below: Mapping[float, int] = field(default_factory=dict)  # min_grade to labels below it
    gaining: int = 0  # how many labels have a positive grade
    fit: tuple[str, ...] = ()  # what is wrong with the ids of labels
    n_negative: int = 0  # how many judgements have a negative grade
    n_short: int = 0  # how many scored queries retrieved something, and less than is relevant
    whole: Mapping[str, float] = field(default_factory=dict)  # ndcg to its sum with ideal=all
    overlap: Overlap = field(default_factory=Overlap)
    cut: Cut = field(default_factory=Cut)

    @classmethod
    def of(
        cls,
        judged: JudgedRankings,
        metrics: Sequence[RankingMetric],
        scored: BoolArray,
        overlap: Overlap,
    ) -> Remarks:
        grades = {getattr(metric, "min_grade", 0.0) for metric in metrics} - {0.0}
        short = scored & (judged.depth > 0) & (judged.depth < judged.n_gaining)
        return cls(
            n_scored=int(scored.sum()),
            deepest=int(judged.depth.max(initial=0)),
            cutoffs=frozenset(k for metric in metrics if (k := getattr(metric, "k", None))),
            below={
                grade: int((judged.n_gaining - judged.count_judgements(grade))[scored].sum())
                for grade in grades
            },
            gaining=int(judged.n_gaining[scored].sum()),
            n_negative=int((judged.judged_grade < 0).sum()),
            n_short=int(short.sum()),
            whole={
                metric.metric_name: float(np.sum(ideal.score_queries(judged)[scored]))
                for metric in metrics
                if isinstance(metric, NDCG) and metric.k is None and metric.ideal == "retrieved"
                for ideal in [metric.model_copy(update={"ideal": "all"})]
            },
            overlap=overlap,
        )

    def __add__(self, other: Remarks) -> Remarks:
        return replace(super().__add__(other), deepest=max(self.deepest, other.deepest))

    def label_notes(self) -> list[str]:
        """Notes on labels that don't fit, which a reader of a single table should have, too."""
        notes = [self.overlap.question_note or ("" if self.fit else self.overlap.label_note)]
        notes += self.fit
        notes += [self._below(grade, n) for grade, n in sorted(self.below.items()) if grade <= 1]
        return [note for note in notes if note]

    def _below(self, min_grade: float, n: int) -> str:
        """A sentence on labels with a positive grade that don't count as relevant."""
        if not n:
            return ""
        verb = "has" if n == 1 else "have"
        return (
            f"{n:,} of {counted(self.gaining, 'label', 'labels')} with a positive grade {verb} one "
            f"below {min_grade:g}, and metrics with min_grade={min_grade:g} don't count "
            f"{'it' if n == 1 else 'them'} as relevant"
        )

    def notes(self) -> list[str]:
        notes = self.cut.notes
        notes += [self._below(grade, n) for grade, n in sorted(self.below.items()) if grade > 1]
        if self.n_negative:
            notes.append(
                f"{self.n_negative:,} labels have a negative grade: pooled but not judged, "
                "without gain and not relevant"
            )
        if self.n_short:
            notes += [
                f"{self.n_short} of {self.n_scored} questions got fewer passages than are "
                f"relevant, and {name} measures them against the best ranking of that length; "
                f"{name[:-1] + ', ' if name.endswith(')') else name + '('}ideal=all) has the mean "
                f"{score(total / self.n_scored)}"
                for name, total in self.whole.items()
            ]
        beyond = sorted(k for k in self.cutoffs if k > self.deepest)
        if self.deepest and beyond:
            notes.append(
                f"no question got more than {counted(self.deepest, 'passage', 'passages')}, so "
                f"metrics at {', '.join(map(str, beyond))} see no more; a "
                "similarity_top_k may be too small"
            )
        return [note for note in notes if note]


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
    n_rising = int(np.count_nonzero(last > first)) - int(np.count_nonzero(last < first))
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
    of_labels = remarks.label_notes()
    scores = Scores(
        query_ids,
        {name: np.concatenate([nothing, *of]) for name, of in columns.items() if name not in own},
        excluded=excluded,
        failed=failed,
        empty=empty,
        no_relevant=no_relevant,
        label_notes=of_labels,
        notes=[
            *of_labels,
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
    return has_value if has_value is None else has_value & (reason == 0)


def ranking_metrics(metrics: Metrics) -> list[RankingMetric]:
    """Names or metrics as metrics of rankings that compare ids."""
    chosen = []
    for metric in resolve(metrics):
        name = metric.metric_name
        if not isinstance(metric, RankingMetric):
            remedy = "A metric of texts needs the questions and the texts: use evaluate()."
            raise InvalidInput("metrics", name, "metrics of rankings", remedy, lacks="texts")
        chosen.append(metric)
    return chosen


def no_common_query(run: object, ours: str, theirs: str) -> InvalidInput:
    """The error of a run whose queries, such as `ours`, aren't those of the qrels."""
    expected = f"some that the qrels have, too, which are like {theirs!r}"
    return InvalidInput(f"query ids of {run}", ours, expected, "Query ids compare exactly.")
