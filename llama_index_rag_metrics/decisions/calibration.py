"""calibrate(): many questions scored by a judge's labels, few by people's, one honest number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.clusters import Clusters, clusters_of, merged_metadata
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import (
    counted,
    digits_of,
    estimate,
    mean_of,
    percent,
    questions,
    score,
)
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among, slice_of, unknown_key
from llama_index_rag_metrics.scores.scores_report import glossary
from llama_index_rag_metrics.statistics import prediction_powered as ppi
from llama_index_rag_metrics.statistics.intervals import (
    MeanInterval,
    check_options,
    exact_mean,
    mean_interval,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

Scored: TypeAlias = "EvaluationResults | Scores | Mapping[str, float]"
ONE_SCORE = "score"
"""The name of a metric that was given without one."""

_COUNT_NOTHING = (
    'Score both sides with no_relevant="zero": without the questions that labels leave out, the '
    "sample isn't random."
)

_ONE_BY_ONE = "Calibrate the systems of stages or of a sweep one by one."

_RELIABLE = 50
"""From so many human labels on, a judge that agreed on all of them may be relied on."""

_UNLIKE = 0.01
"""Below this p value, the questions that people scored look unlike the others."""


@dataclass(frozen=True, slots=True, repr=False)
class Calibrated(Sentence):
    """A metric by people's few scores and a judge's many.

    Attributes:
        mean: the calibrated mean; people's own where the judge doesn't help.
        low: the lower end of its interval; None where none is given, as is `high`.
        human: the mean of people's scores alone, with its interval.
        judge_mean: the mean of the judge's scores alone, which no interval makes right.
        n_judged: how many questions the judge scored, those of the people among them.
        worth: as many questions scored by people would tell as much; at most `n_judged`.
        weight: how far the judge is trusted, from 0 to 1 (λ of PPI++).
        bias: the judge's mean minus people's, over the questions that both scored.
        correlation: of people's and the judge's scores of a question, from -1 to 1, by which the
            worth goes; None where one side's are all the same.
    """

    metric: str
    mean: float
    low: float | None
    high: float | None
    human: MeanInterval
    judge_mean: float
    n_human: int
    n_judged: int
    worth: float
    weight: float
    bias: float
    correlation: float | None
    sentence: str

    @property
    def helps(self) -> bool:
        return self.weight > 0

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Reportable):
    """Means from few human labels and many of a judge; `compare` and the gate take it as a system.

    Attributes:
        human: people's scores by these metrics; `judge` has the judge's.
        metrics: metric name to its calibrated mean.
        slices: value of the metadata to the same of these queries.
        slice_key: the key of the metadata; None for no slices.
        confidence: of the intervals.
        notes: what a reader of the numbers should know.

    Examples:
        >>> human = {f"q{n}": float(n % 3 > 0) for n in range(60)}
        >>> judge = {f"q{n}": float(n % 3 > 0 or n % 4 == 0) for n in range(400)}
        >>> calibration = calibrate(judge, human)
        >>> [(name, round(each.mean, 4)) for name, each in calibration.metrics.items()]
        [('score', 0.6667)]
    """

    human: Scores
    judge: Scores
    metrics: Mapping[str, Calibrated]
    slices: Mapping[str | None, Mapping[str, Calibrated]]
    slice_key: str | None
    confidence: float
    notes: tuple[str, ...]

    def __getitem__(self, metric: str) -> Calibrated:
        return self.metrics[name_among(metric, self.metrics)]

    def __iter__(self) -> Iterator[Calibrated]:
        return iter(self.metrics.values())

    @property
    def name(self) -> str:
        return self.human.name or self.judge.name

    def report(self, *, full: bool = False) -> m.Report:
        """Human, judged and calibrated means, and agreement; as a table, one row per metric."""
        metrics = [*self]
        name = f" of {self.name}" if self.name else ""
        most = max(metrics, key=lambda metric: metric.n_judged)
        intervals = f"{percent(self.confidence)} intervals"
        tables = [calibration_table("", self.metrics)]
        tables += [
            calibration_table(f"{self.slice_key}: {'without' if value is None else value}", part)
            for value, part in self.slices.items()
        ]
        return m.Report(
            title=f"Calibrated scores{name}",
            lead=f"{most.n_human:,} human and {most.n_judged:,} judged questions",
            decision=[
                m.Statement(metric.sentence, "best" if metric.helps else "open")
                for metric in metrics
            ],
            sections=[m.Section("Calibrated means", tables, f"{intervals}. {EXPLAINED}")],
            notes=self.notes,
            glossary=glossary(self.metrics),
            metrics=[*self.metrics],
            records=_records(self),
        )


def calibrate(
    judge_scores: Scored | Mapping[str, Scored],
    human_scores: Scored,
    *,
    metrics: Sequence[str] | None = None,
    confidence: float = 0.95,
    slices: str | None = None,
    clusters: Clusters | None = None,
) -> Calibration:
    """Combine many scores by a judge's labels and a few by people's into one honest number.

    What the judge gets wrong on average is measured where people labelled, too, and taken off
    everywhere (prediction-powered inference: Angelopoulos, Duchi and Zrnic, PPI++, 2023). The worse
    the judge, the less it counts; one that knows nothing leaves people's scores as they are.

    The questions that people labelled must be drawn at random from those that the judge labelled.
    Twenty are the fewest; 50 to 100 are usual.

    Args:
        judge_scores: of all questions, by the judge's labels. Several judges, by name, count by the
            mean of their scores of a question.
        human_scores: of some of them, by people's labels: the same rankings, the same metrics.
        metrics: names of metrics; None for those that both have.
        confidence: of the intervals.
        slices: a key of the queries' metadata; agreement and means of each of its values, too.
        clusters: what queries belong to, such as the document that they were made from: a key of
            their metadata, or query id to cluster, of the judge's queries, too.

    Raises:
        InvalidInput: the judge didn't score a question that people did, there is no metric in
            common, or an argument can't be used.
        UnknownMetric: one side has no scores by a metric that is wanted.

    Examples:
        >>> human = {f"q{n}": float(n % 3 > 0) for n in range(60)}
        >>> judge = {f"q{n}": float(n % 3 > 0 or n % 4 == 0) for n in range(400)}  # too lenient
        >>> rate = calibrate(judge, human)["score"]
        >>> round(rate.judge_mean, 4), round(rate.mean, 4), rate.n_human, round(rate.worth)
        (0.75, 0.6667, 60, 133)
    """
    check_options(confidence)
    judges = _judges(judge_scores)
    human = _scores("human_scores", human_scores)
    judge = mean_of_judges(judges) if len(judges) > 1 else judges[""]
    if metrics is None:
        names = tuple(metric for metric in human.metric_names if metric in judge)
    else:
        names = names_in_all(metrics, (judge, human))
    if not names:
        remedy = f"People's scores have {', '.join(human) or 'none'}."
        raise InvalidInput("judge_scores", list(judge), "a metric that both have", remedy)
    for metric in names:
        _check_pairs(judge, human, metric)
    metadata = merged_metadata((judge, human))
    judge, human = (
        side.replace(columns={metric: side.column(metric) for metric in names}, metadata=metadata)
        for side in (judge, human)
    )
    of_query = clusters_of(clusters, judge.query_ids, metadata)
    numbers = None
    if of_query is not None:
        numbers = dict(zip(judge.query_ids, of_query.tolist(), strict=True))

    def calibrated(judge: Scores, human: Scores) -> dict[str, Calibrated]:
        return {metric: _calibrated(judge, human, metric, confidence, numbers) for metric in names}

    notes = [*_notes(judge, human, names, numbers)]
    if len(judges) > 1:
        notes.append(_note_on_judges(judges, judge, human, names[0], numbers))
    by_slice = {}
    if slices is not None:
        if not any(slices in row for row in metadata.values()):
            raise unknown_key("slices", slices, metadata)
        values = (metadata.get(query_id, {}).get(slices) for query_id in human.query_ids)
        if all(slice_of(value) is None for value in values):
            expected = "a key of the metadata of questions that people scored"
            raise InvalidInput("slices", slices, expected, "Let people score some that have it.")
        judged = judge.slices(slices)
        by_slice = {
            value: calibrated(judged[value], part)
            for value, part in human.slices(slices).items()
            if value in judged
        }
    return Calibration(
        human=human,
        judge=judge,
        metrics=calibrated(judge, human),
        slices=by_slice,
        slice_key=slices,
        confidence=confidence,
        notes=tuple(notes),
    )


def names_in_all(wanted: Sequence[str], sides: Iterable[Scores]) -> tuple[str, ...]:
    """The metrics that are wanted, each once, which all sides must have."""
    chosen = [wanted] if isinstance(wanted, str) else list(wanted)
    for side in sides:
        chosen = [name_among(metric, side.metric_names) for metric in chosen]
    return tuple(dict.fromkeys(chosen))


def split(
    judge: Mapping[str, float], human: Mapping[str, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """People's scores, the judge's of the same questions, and the judge's of the others."""
    return (
        np.array([*human.values()], np.float64),
        np.array([judge[query_id] for query_id in human], np.float64),
        np.array([judge[query_id] for query_id in judge if query_id not in human], np.float64),
    )


def powered(
    judge: Mapping[str, float],
    human: Mapping[str, float],
    clusters: Mapping[str, int] | None = None,
    widest: float | None = None,
) -> ppi.PredictionPowered:
    """People's scores by query, moved by a judge's; `clusters` are of all that the judge scored."""
    numbers = _numbers(judge, human, clusters)
    return ppi.prediction_powered(*split(judge, human), widest=widest, clusters=numbers)


def _numbers(
    judge: Mapping[str, float], human: Mapping[str, float], clusters: Mapping[str, int] | None
) -> IntArray | None:
    """The clusters of the questions that people scored, then of the others."""
    if clusters is None:
        return None
    query_ids = [*human, *(query_id for query_id in judge if query_id not in human)]
    return np.array([clusters[query_id] for query_id in query_ids], np.int64)


def _calibrated(
    judge: Scores, human: Scores, metric: str, confidence: float, clusters: Mapping[str, int] | None
) -> Calibrated:
    by_judge, by_people = judge.by_query(metric), human.by_query(metric)
    people, same, others = split(by_judge, by_people)
    limits = limits_of(metric)
    both_vary = min(np.ptp(people), np.ptp(same)) > NOISE
    combined, interval = ppi.prediction_powered_interval(
        powered(by_judge, by_people, clusters), confidence=confidence, limits=limits
    )
    return Calibrated(
        metric=metric,
        mean=interval.mean,
        low=interval.low,
        high=interval.high,
        human=mean_interval(
            people, confidence=confidence, limits=limits, clusters=combined.clusters
        ),
        judge_mean=exact_mean(np.concatenate([same, others])),
        n_human=combined.n,
        n_judged=combined.n_judged,
        worth=combined.worth,
        weight=combined.weight,
        bias=exact_mean(same) - exact_mean(people),
        correlation=float(np.corrcoef(people, same)[0, 1]) if both_vary else None,
        sentence=_sentence(metric, interval, combined, confidence),
    )


def _sentence(
    metric: str, interval: MeanInterval, combined: ppi.PredictionPowered, confidence: float
) -> str:
    if not interval.n:
        return f"{metric} has no value: people scored no question."
    number = estimate(metric, interval.mean, interval.low, interval.high, interval.n, confidence)
    return f"{number}{', by ' if combined.reason_alone else ': '}{describe_worth(combined)}."


def describe_worth(combined: ppi.PredictionPowered) -> str:
    if combined.reason_alone:
        people = counted(combined.n, "human question", "human questions")
        return f"{people} alone: {combined.reason_alone}"
    worth = f"{math.floor(combined.worth):,} human ones"
    if math.floor(combined.worth) == combined.n:
        worth = "little more than the human ones"
    sentence = f"{combined.n:,} human and {combined.n_judged:,} judged questions are worth {worth}"
    if combined.agreed and combined.n < _RELIABLE:
        agreed = f"the judge agreed with people on all {combined.n}"
        return f"{sentence}; {agreed}: label {_RELIABLE} before you rely on it"
    return sentence


def _judges(scores: object) -> dict[str, Scores]:
    """One judge under "", several by name."""
    are_several = isinstance(scores, Mapping) and any(
        isinstance(each, (EvaluationResults, Scores, Mapping)) for each in scores.values()
    )
    if not isinstance(scores, Mapping) or isinstance(scores, Reportable) or not are_several:
        return {"": _scores("judge_scores", scores)}
    judges = {str(name): _scores(f"judge_scores[{name!r}]", each) for name, each in scores.items()}
    if len(judges) == 1:
        return {"": next(iter(judges.values()))}
    first, *others = judges.values()
    for judge in others:
        for query_id, ranking in judge.rankings.items():
            if first.rankings.get(query_id, ranking) != ranking:
                expected = "scores of the same rankings by each judge"
                value = f"others for {query_id}"
                raise InvalidInput("judge_scores", value, expected, _ONE_BY_ONE)
    return judges


def mean_of_judges(judges: Mapping[str, Scores]) -> Scores:
    """The mean of several judges' scores, of the queries that all of them scored.

    >>> both = {"a": Scores(["q1", "q2"], {"mrr": [1, 0]}), "b": Scores(["q1"], {"mrr": [0.5]})}
    >>> mean_of_judges(both).by_query("mrr")
    {'q1': 0.75}
    """
    first, *others = judges.values()
    metrics = [metric for metric in first if all(metric in judge for judge in others)]
    by_judge = {metric: [judge.by_query(metric) for judge in judges.values()] for metric in metrics}
    columns = {
        metric: [
            exact_mean(np.array([scores.get(query_id, math.nan) for scores in by_query]))
            for query_id in first.query_ids
        ]
        for metric, by_query in by_judge.items()
    }
    merged: dict[str, dict[str, Any]] = {
        part: {
            key: value for judge in judges.values() for key, value in getattr(judge, part).items()
        }
        for part in ("excluded", "metadata")
    }
    return first.replace(columns=columns, notes=(), usage={}, **merged)


def _scores(argument: str, scores: object) -> Scores:
    if isinstance(scores, EvaluationResults):
        return scores.scores
    if isinstance(scores, Scores):
        return scores
    if isinstance(scores, Mapping) and all(
        isinstance(value, (int, float)) and math.isfinite(value) for value in scores.values()
    ):
        return Scores([*scores], {ONE_SCORE: [float(value) for value in scores.values()]})
    expected = "results of an evaluation, Scores, or a mapping of query id to a finite score"
    is_several = isinstance(scores, (Mapping, Sequence)) and not isinstance(scores, str)
    remedy = _ONE_BY_ONE if is_several else ""
    raise InvalidInput(argument, scores, expected, remedy)


def _check_pairs(judge: Scores, human: Scores, metric: str) -> None:
    by_judge, by_people = judge.by_query(metric), human.by_query(metric)
    if not by_people:
        raise InvalidInput(f"human_scores by {metric}", "none", "a question with a value")
    for argument, side in (("judge_scores", by_judge), ("human_scores", by_people)):
        if infinite := [query_id for query_id, value in side.items() if not math.isfinite(value)]:
            raise InvalidInput(f"{argument} by {metric}", join_first(infinite), "finite scores")
    if missing := [query_id for query_id in by_people if query_id not in by_judge]:
        remedy = "Let the judge label these, too, or leave them out of human_scores."
        if any(judge.excluded.get(query_id) == "no_relevant" for query_id in missing):
            remedy = _COUNT_NOTHING
        raise InvalidInput(
            f"judge_scores by {metric}",
            f"none for {join_first(missing)}",
            f"one for each of the {questions(len(by_people))} that people scored",
            remedy,
        )


def _notes(
    judge: Scores, human: Scores, metrics: Sequence[str], clusters: Mapping[str, int] | None
) -> Iterator[str]:
    """Notes where the questions that people scored look unlike the others to the judge."""
    from scipy.special import stdtr

    for side, name in ((human, "people"), (judge, "the judge")):
        if n_without := list(side.excluded.values()).count("no_relevant"):
            yield f"{name} found nothing relevant for {questions(n_without)}. {_COUNT_NOTHING}"
    for metric in metrics:
        by_judge, by_people = judge.by_query(metric), human.by_query(metric)
        _, same, others = split(by_judge, by_people)
        if min(len(same), len(others)) < 2:
            continue
        parts = np.full((len(by_judge), 2), np.nan)
        parts[: len(same), 0], parts[len(same) :, 1] = same, others
        units = Units.of(parts, _numbers(by_judge, by_people, clusters))
        n = int(units.n_units[0])
        pulls = units.influence[:, 0] - units.influence[:, 1]
        error = math.sqrt(np.square(pulls).sum() * n / max(1, n - 1))
        apart = exact_mean(same) - exact_mean(others)
        if error and 2 * stdtr(max(1, n - 1), -abs(apart) / error) < _UNLIKE / len(metrics):
            yield (
                f"the judge's {metric} is {score(exact_mean(same))} on the questions that people "
                f"scored and {score(exact_mean(others))} on the others: they don't look drawn at "
                "random, which calibration assumes"
            )


def _note_on_judges(
    judges: Mapping[str, Scores],
    judge: Scores,
    human: Scores,
    metric: str,
    clusters: Mapping[str, int] | None,
) -> str:
    """What each of several judges would be worth alone, so that a poor one can be left out."""
    people, common = human.by_query(metric), judge.by_query(metric)
    listed = []
    for name, each in judges.items():
        by_judge = each.by_query(metric)
        alone = powered({query_id: by_judge[query_id] for query_id in common}, people, clusters)
        listed.append(f"{math.floor(alone.worth):,} with {name}")
    return (
        f"the judge is the mean of {' and '.join(judges)}; with one of them alone, on {metric}, "
        f"human and judged questions would be worth: {', '.join(listed)}"
    )


EXPLAINED = (
    "Calibrated means use the judge only as far as people's scores of the same questions confirm "
    "it (prediction-powered inference). Worth: how many questions scored by people would be as "
    "precise, which goes by the correlation of both sides' scores of a question. The judge's own "
    "mean is shown for comparison; it isn't evidence."
)
_HEAD = ("calibrated", "people alone", "judge alone", "worth", "correlation")


def calibration_table(title: str, metrics: Mapping[str, Calibrated]) -> m.Table:
    return m.Table(title, _HEAD, [[_row(metric) for metric in metrics.values()]])


def _row(metric: Calibrated) -> m.Row:
    human = metric.human
    return m.Row(
        metric.metric,
        [
            _mean(metric.mean, metric.n_human, metric.low, metric.high),
            _mean(human.mean, metric.n_human, human.low, human.high),
            _mean(metric.judge_mean, metric.n_human)._replace(tone="quiet"),
            m.Cell(math.floor(metric.worth), "count", "best" if metric.helps else "quiet"),
            m.Cell(metric.correlation, "signed", "quiet", digits=digits_of(metric.n_human)),
        ],
    )


def _mean(value: float, n: int, low: float | None = None, high: float | None = None) -> m.Cell:
    known = None if math.isnan(value) else value
    return mean_of(m.Cell(known, "score", low=low, high=high), n)


def _records(calibration: Calibration) -> m.Records:
    """One row a metric; with slices, one a slice and metric, None for all questions."""
    parts = [(None, calibration.metrics), *calibration.slices.items()]
    rows = []
    for value, part in parts:
        for metric in part.values():
            row: dict[str, Any] = {"slice": value, **asdict(metric)}
            human = row.pop("human")
            rows.append({**row, **{f"human_{end}": human[end] for end in ("mean", "low", "high")}})
    return m.Records.of(rows, [name for name in rows[0] if name != "slice" or calibration.slices])
