"""relate(): which metric predicts how good the answers are."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.calibration import names_in_all
from llama_index_rag_metrics.decisions.clusters import Clusters, clusters_in_words, clusters_of
from llama_index_rag_metrics.decisions.comparison.pairing import Results, check_finite, scores_of
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.files.answers import Answers, answers_of
from llama_index_rag_metrics.metrics.metric_names import is_of_unanswerable, lower_is_better
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.scores.scores_export import read_json
from llama_index_rag_metrics.statistics.association import FEWEST, Measure, associations
from llama_index_rag_metrics.statistics.differences import difference_intervals, widest_apart
from llama_index_rag_metrics.statistics.intervals import (
    RESAMPLES,
    SEED,
    MeanInterval,
    check_options,
    exact_mean,
    without_noise,
)
from llama_index_rag_metrics.statistics.resampling import Units, commonest

_AT_ENDS = 0.25
"""About the share of the questions at a metric's best, and at its worst."""

Given: TypeAlias = "Mapping[str, Any] | Scores | EvaluationResults | Any"
"""Scores of answers: what `read_answers` takes, or scores."""


@dataclass(frozen=True, slots=True, repr=False)
class MetricRelation(Sentence):
    """How well one metric predicts the answers.

    Attributes:
        value: the AUC, or tau-b of graded answers; None where the metric doesn't vary. Of a metric
            of which less is better, as if its scores were turned round.
        low, high: its interval, which holds together with those of all metrics; None if unknown.
        spearman: Spearman's rank correlation of graded answers; None of others.
        behind: how far it is below the first metric, from `behind_low` to `behind_high`.
        at_best: the answers' mean on the `n_at_best` questions with the metric's best scores.
        at_worst: the same of its worst scores.
        same_as: a metric that puts these questions in the same order; "" if there is none.
    """

    metric: str
    measure: Measure
    value: float | None
    low: float | None
    high: float | None
    spearman: float | None
    behind: float | None
    behind_low: float | None
    behind_high: float | None
    at_best: float | None
    n_at_best: int
    at_worst: float | None
    n_at_worst: int
    same_as: str

    @property
    def null(self) -> float:
        """The value of a metric that says nothing about the answers."""
        return 0.5 if self.measure == "auc" else 0.0

    @property
    def predicts(self) -> bool:
        """Whether better scores are shown to go with better answers."""
        return self.low is not None and self.low > self.null

    @property
    def contradicts(self) -> bool:
        """Whether better scores are shown to go with worse answers."""
        return self.high is not None and self.high < self.null

    def __str__(self) -> str:
        from llama_index_rag_metrics.decisions.relation_report import describe

        return describe(self)


@dataclass(frozen=True, slots=True)
class Reference:
    """What answers score without any context, or with every relevant passage.

    Attributes:
        mean: over the questions that have both scores.
        gap: how much better the answers are than without context, or than they are with every
            relevant passage; paired by question.
    """

    mean: float
    gap: MeanInterval


@dataclass(frozen=True, eq=False, repr=False)
class Relation(Reportable):
    """What predicts the answers, metric by metric, the best first.

    Attributes:
        metrics: those that were computed; ones that don't vary come last.
        measure: "auc" of answers that have two values, "tau_b" of graded ones.
        n: the questions with a score of the answer and of every metric.
        mean: of their answers.
        is_share: whether every answer is 0 or 1.
        is_shown: whether the first metric is shown to predict better than each other one.
        reason: why nothing can be told; "" where it can.
        closed_book: answers without any context; None unless given.
        oracle: answers with every relevant passage; None unless given.
        name: what was scored of the answers; "" if it has no name.
        notes: what a reader of the numbers should know, such as which questions are left out.

    Examples:
        >>> scores = Scores([f"q{n}" for n in range(40)], {"recall@5": [0, 0.5, 1, 1] * 10})
        >>> answers = {f"q{n}": int(n % 4 > 0) for n in range(40)}
        >>> relate(scores, answers).primary
        'recall@5'
    """

    metrics: tuple[MetricRelation, ...]
    measure: Measure
    n: int
    mean: float
    is_share: bool
    is_shown: bool
    reason: str
    closed_book: Reference | None
    oracle: Reference | None
    name: str
    notes: tuple[str, ...]
    confidence: float

    @property
    def primary(self) -> str | None:
        """The metric to decide by: of those that are shown to predict the one of highest value.

        `compare` and `sweep` take it as `primary=`. Others may predict as well; see `is_shown`.
        """
        return next((each.metric for each in self.metrics if each.predicts), None)

    def __getitem__(self, metric: str) -> MetricRelation:
        by_name = {each.metric: each for each in self.metrics}
        return by_name[name_among(metric, by_name)]

    def __iter__(self) -> Iterator[MetricRelation]:
        return iter(self.metrics)

    def report(self, *, full: bool = False) -> Report:
        """What predicts the answers best, and a row a metric."""
        from llama_index_rag_metrics.decisions.relation_report import relation_report

        return relation_report(self)


def relate(
    results: Results,
    answers: Given,
    *,
    metrics: Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    closed_book: Given | None = None,
    oracle: Given | None = None,
    confidence: float = 0.95,
    clusters: Clusters | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Relation:
    """Which metric predicts how good the answers are, so that it can be the one to decide by.

    Answers with two values, such as right and wrong, are predicted by an AUC: how often the better
    answered one of two questions has the better score, 0.5 if by chance. Of graded answers it is
    Kendall's tau-b, with Spearman's correlation beside it. A metric is said to predict where its
    interval leaves out chance, all intervals holding together; and to predict best where it is
    shown to be ahead of each other one. It needn't cause: easy questions are found and answered.

    Args:
        results: of an evaluation, or scores; of several runs a question counts by its mean.
        answers: a score per question, 0/1 or graded, more is better: {question id: score}, a data
            frame, a path to a table or JSON, MLflow's traces, whatever else `read_answers` takes,
            or made; or Scores. Rows without an id are found by the question's text.
        metrics: names of metrics; None takes all but those of questions without an answer.
        columns: what fields of the answers are called, as for `read_answers`: {"answer":
            "correctness"}; of Scores the name of the metric. Also of the next two.
        closed_book: what answers without any context score, in the same forms.
        oracle: what answers with every relevant passage score.
        confidence: of the intervals.
        clusters: what questions belong to, as for `compare`: by default their conversations.
        resamples, seed: of random flips of signs, by which the intervals hold together.

    Raises:
        InvalidInput: no question has both scores, or an argument can't be used.
        UnknownMetric: there are no scores by a metric that is wanted.
        FileFormatError: answers can't be read.

    Examples:
        >>> scores = Scores([f"q{n}" for n in range(40)], {"recall@5": [0, 0.5, 1, 1] * 10})
        >>> answers = {f"q{n}": int(n % 4 > 0) for n in range(40)}
        >>> print(relate(scores, answers)["recall@5"])
        recall@5 predicts the answers (AUC 1.00, 0.82 to 1.00).
    """
    check_options(confidence, resamples, seed)
    scores = scores_of(results)
    given = _answers(answers, columns, scores.queries)
    names, query_ids, notes = _in_common(scores, given, metrics)
    check_finite(scores, names, query_ids)
    values = np.round([given[query_id] for query_id in query_ids], 12)
    is_share = bool(np.isin(values, (0.0, 1.0)).all())
    of_query = clusters_of(clusters, query_ids, scores.metadata)
    better = {}  # scores of which more is better, without noise of rounding
    for name in names:
        by_query = scores.by_query(name)
        column = np.round([by_query[query_id] for query_id in query_ids], 12)
        better[name] = -column if lower_is_better(name) else column
    options = {"confidence": confidence, "resamples": resamples, "seed": seed}
    rows, is_shown = _related(better, values, clusters=of_query, **options)
    if not is_share:
        notes.append(f"scores of answers go from {values.min():g} to {values.max():g}")
    if turned := [name for name in names if lower_is_better(name)]:
        notes.append(f"less is better on {', '.join(turned)}: low scores count as good ones")
    if of_query is not None:
        notes.append(f"{clusters_in_words(clusters, of_query)}, each counted as one")
    beside = {}
    for argument, source in (("closed_book", closed_book), ("oracle", oracle)):
        if source is not None:
            reference = _answers(source, columns, scores.queries)
            known = np.array([reference.get(query_id, math.nan) for query_id in query_ids])
            if np.isnan(known).all():
                raise _nothing_in_common(argument, query_ids, reference)
            notes += [f"{argument}: {note}" for note in reference.notes]
            if n_lacking := np.count_nonzero(np.isnan(known)):
                notes.append(f"questions without a score of {argument}: {n_lacking:,}")
            beside[argument] = _reference(argument, known, values, of_query, confidence)
    return Relation(
        metrics=rows,
        measure=rows[0].measure,
        n=len(query_ids),
        mean=exact_mean(values),
        is_share=is_share,
        is_shown=is_shown,
        reason=_reason(values, of_query, rows[0]),
        closed_book=beside.get("closed_book"),
        oracle=beside.get("oracle"),
        name=given.name,
        notes=tuple(notes),
        confidence=confidence,
    )


def _answers(source: Given, columns: Mapping[str, str] | None, texts: Mapping[str, str]) -> Answers:
    if isinstance(source, (str, os.PathLike)) and str(source).endswith(".json"):
        with suppress(FileFormatError, OSError):  # what isn't scores is read as answers
            systems = read_json(Path(source))
            if len(systems) != 1:
                raise InvalidInput(str(source), [*systems], "the scores of one system")
            source = next(iter(systems.values()))
    if isinstance(source, (Scores, EvaluationResults)):
        source = scores_of(source).per_query
    return answers_of(source, columns, texts)


def _in_common(
    scores: Scores, answers: Answers, wanted: Iterable[str] | None
) -> tuple[list[str], list[str], list[str]]:
    """The metrics, the questions that all of them and the answers score, by id, and notes."""
    answered = {query_id for query_id in scores.query_ids if query_id in answers}
    if not answered:
        raise _nothing_in_common("answers", scores.query_ids, answers)
    listed = [wanted] if isinstance(wanted, str) else [*(wanted or ())]
    chosen = [*scores] if wanted is None else names_in_all(listed, [scores])
    scored = {name: scores.by_query(name).keys() & answered for name in chosen}
    left = [
        name for name in chosen if not scored[name] or (not listed and is_of_unanswerable(name))
    ]
    names = [name for name in chosen if name not in left]
    if not names:
        raise InvalidInput("metrics", left, "a metric with scores of questions with an answer")
    known = answered.intersection(*(scored[name] for name in names))
    lacking = [name for name in names if scored[name] < answered]
    if not known:
        remedy = "Name some of them: metrics=[...]."
        raise InvalidInput("metrics", lacking, "metrics that score the same questions", remedy)
    asked, given = {*scores.query_ids}, {*answers, *answers.missing}
    excluded = scores.excluded.keys() - asked
    counts = {
        "answers without a score": len(answers.missing),
        "questions without an answer's score": len(asked - given),
        "answers of questions that the means leave out": len(excluded & given),
        "answers of questions that aren't in the results": len(answers.keys() - asked - excluded),
        f"questions without a value by {join_first(lacking)}, left out for all metrics": (
            len(answered) - len(known)
        ),
    }
    notes = [*answers.notes, *(f"{what}: {n:,}" for what, n in counts.items() if n)]
    if left:
        notes.append(f"metrics without scores of these questions: {', '.join(left)}")
    return names, sorted(known), notes


def _nothing_in_common(argument: str, query_ids: Sequence[str], answers: Answers) -> InvalidInput:
    expected = f"scores of questions such as {join_first([*query_ids], 2)}"
    remedy = "Name the column of their ids: columns={'query_id': name}."
    found = join_first([*answers], 2) or "; ".join(answers.notes) or "none"
    if not answers and answers.missing:
        found = f"{join_first([*answers.missing], 2)}, none of them scored"
    return InvalidInput(argument, found, expected, remedy, lacks="query_id")


def _related(
    better: Mapping[str, FloatArray], answers: FloatArray, **options: Any
) -> tuple[tuple[MetricRelation, ...], bool]:
    """The metrics, the best first, and whether that is shown; options of `associations`."""
    measure: Measure = "auc" if len(np.unique(answers)) <= 2 else "tau_b"
    first: dict[bytes, str] = {}
    same_as = {
        name: first.setdefault(np.unique(column, return_inverse=True)[1].tobytes(), name)
        for name, column in better.items()
    }
    # what is repeated or doesn't vary mustn't widen the intervals of the others
    apart = [name for name in first.values() if np.ptp(better[name])] or [*better][:1]
    columns = np.stack([better[name] for name in apart], axis=1)
    found = associations(columns, answers, measure, **options)
    numbers = {name: [_known(part[at]) for part in found[:6]] for at, name in enumerate(apart)}
    rows = []
    for name, column in better.items():
        best, worst = (answers[at] for at in at_ends(column))
        value, low, high, behind, behind_low, behind_high = numbers.get(same_as[name], [None] * 6)
        is_graded = measure == "tau_b" and value is not None
        rows.append(
            MetricRelation(
                metric=name,
                measure=measure,
                value=value,
                low=low,
                high=high,
                spearman=_spearman(column, answers) if is_graded else None,
                behind=behind,
                behind_low=behind_low,
                behind_high=behind_high,
                at_best=exact_mean(best) if len(best) else None,
                n_at_best=len(best),
                at_worst=exact_mean(worst) if len(worst) else None,
                n_at_worst=len(worst),
                same_as="" if same_as[name] == name else same_as[name],
            )
        )
    rows.sort(key=lambda row: (row.value is None, -(row.value or 0.0)))
    return tuple(rows), len(apart) > 1 and found.is_highest


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _spearman(scores: FloatArray, answers: FloatArray) -> float:
    from scipy.stats import spearmanr  # takes a second to import

    return float(spearmanr(scores, answers).statistic)


def at_ends(scores: FloatArray) -> tuple[IntArray, IntArray]:
    """The questions with the highest and the lowest scores, about a quarter each, ties together."""
    levels, position, counts = np.unique(scores, return_inverse=True, return_counts=True)
    if len(levels) < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near = len(scores) * _AT_ENDS
    n_best = int(np.abs(np.cumsum(counts[::-1]) - near).argmin()) + 1
    n_worst = int(np.abs(np.cumsum(counts) - near).argmin()) + 1
    return np.flatnonzero(position >= len(levels) - n_best), np.flatnonzero(position < n_worst)


def _reason(answers: FloatArray, clusters: IntArray | None, first: MetricRelation) -> str:
    """Why nothing can be told of what predicts the answers; "" where it can."""
    n, same = len(answers), commonest(answers)
    if not np.ptp(answers):
        return f"all {questions(n)} have an answer of the same score, {same:g}"
    if first.value is None:
        return f"no metric tells the {questions(n)} apart: each scores all alike"
    units = Units.of(answers.reshape(-1, 1), clusters)
    what = "answers" if clusters is None else "clusters of questions have answers that"
    n_other = f"{units.informative[0]} of {len(units)} {what} differ from the commonest score"
    return "" if units.informative[0] >= FEWEST else f"only {n_other}, {same:g}; {FEWEST} must"


def _reference(
    argument: str,
    known: FloatArray,
    answers: FloatArray,
    clusters: IntArray | None,
    confidence: float,
) -> Reference:
    seen = np.concatenate([known, answers])[np.tile(~np.isnan(known), 2)]
    is_share = answers.min() >= 0 and answers.max() <= 1
    if is_share and not 0 <= seen.min() <= seen.max() <= 1:
        expected = "scores from 0 to 1, as those of the answers that it is compared with"
        raise InvalidInput(argument, f"scores from {seen.min():g} to {seen.max():g}", expected)
    gap = without_noise(known - answers if argument == "oracle" else answers - known)
    units = Units.of(gap.reshape(-1, 1), clusters)
    widest = widest_apart(seen.min(), seen.max(), math.inf)
    [interval] = difference_intervals(units, widest=widest, confidence=confidence)
    return Reference(exact_mean(known[~np.isnan(known)]), interval)
