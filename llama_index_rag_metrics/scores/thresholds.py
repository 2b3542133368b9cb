"""Thresholds on the retriever's scores: what each costs answerable questions, and spares others."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from llama_index_rag_metrics.files.conversations import conversations_of
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import limits_of, worst_score
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.rankings.judging.columns import columns_for
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, scores_in
from llama_index_rag_metrics.rankings.judging.judged_column import ColumnSources, RetrievalScores
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import FALLING, RISING, Ranking, Run, slope
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report import numbers
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.report.plot import Plot
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.scores.scores_report import glossary
from llama_index_rag_metrics.scores.scoring.batches import Metrics
from llama_index_rag_metrics.scores.scoring.score_rankings import (
    Expected,
    Retrieved,
    align,
    score_rankings,
)
from llama_index_rag_metrics.scores.systems import System
from llama_index_rag_metrics.statistics.abstention import (
    FOLDS,
    Steps,
    abstention_nauc,
    confidences,
    shortest_between,
)
from llama_index_rag_metrics.statistics.differences import difference_intervals, widest_apart
from llama_index_rag_metrics.statistics.intervals import (
    MeanInterval,
    mean_interval,
    number_clusters,
    units_of,
)
from llama_index_rag_metrics.statistics.resampling import NOISE

_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a threshold does to the questions that were seen."""

    min_score: float  # passages with a lower score are left out
    mean: float  # of the metric over the answerable questions, with what is left
    answered: float  # the share of the answerable questions for which anything is left
    spared: float  # the share of those without an answer that are left nothing; NaN without any


@dataclass(frozen=True, slots=True)
class Proposal:
    """A threshold to take, and what it does to questions that didn't choose it."""

    min_score: float  # the shortest number that does to these questions what the score chosen does
    seen: Threshold  # what it does to the questions that chose it: an optimistic view
    loss: MeanInterval  # what answerable questions lose, each by a threshold that others chose
    spared: MeanInterval  # the share of those without an answer that are spared, in the same way

    @property
    def line(self) -> str:
        """The postprocessor of LlamaIndex that applies it, to be copied."""
        return f"SimilarityPostprocessor(similarity_cutoff={self.min_score!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Thresholds(Reportable, Sequence[Threshold]):
    """Every threshold that makes a difference, ascending, and the one that is proposed.

    Thresholds are scores that were seen: of answerable questions each, of the others the highest.

    Attributes:
        rows: the thresholds.
        metric: what answerable questions are measured by.
        without: what is returned without a threshold.
        n_answerable: how many questions have something relevant.
        n_unanswerable: how many are judged and have nothing relevant.
        tolerance: how far the metric's mean may fall for the proposal.
        proposed: None where no threshold spares more within the tolerance.
        nauc: how well a ranking's scores tell where to abstain, as MTEB computes it: by the highest
            score ("max"), their standard deviation ("std"), and the first minus the second
            ("diff1"). Questions without an answer count as 0, those with nothing retrieved don't.
        name: of the retriever.
        notes: what a reader of the numbers should know.

    Examples:
        >>> from llama_index_rag_metrics import Ranking, score_thresholds
        >>> expected = {"q1": ["a"], "q2": ["b"], "q3": [], "q4": []}
        >>> run = {"q1": Ranking(["a"], scores=[0.8]), "q2": Ranking(["b"], scores=[0.7]),
        ...        "q3": Ranking(["a"], scores=[0.45]), "q4": Ranking(["b"], scores=[0.3])}
        >>> found = score_thresholds(expected, run, "recall@5")
        >>> found.proposed.line
        'SimilarityPostprocessor(similarity_cutoff=0.7)'
    """

    rows: tuple[Threshold, ...]
    metric: str
    without: Threshold
    n_answerable: int
    n_unanswerable: int
    tolerance: float = _TOLERANCE
    proposed: Proposal | None = None
    nauc: Mapping[str, float] = field(default_factory=dict)
    name: str = ""
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Threshold: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Threshold]: ...

    def __getitem__(self, index: int | slice) -> Threshold | Sequence[Threshold]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def plot(self, kind: str = "by_threshold", metric: str | None = None) -> Plot:
        """The curve over all thresholds; see `Reportable.plot`."""
        return super().plot(kind, metric)

    def report(self, *, full: bool = False) -> m.Report:
        """The proposal, some of the thresholds, and how far the scores tell where to abstain."""
        return thresholds_report(self)


def score_thresholds(
    expected: Expected,
    retrieved: Retrieved,
    metric: Metrics,
    *,
    tolerance: float = _TOLERANCE,
    name: str = "",
    documents: Mapping[str, str] | None = None,
) -> Thresholds:
    """The scores of stored rankings as thresholds; `results.thresholds()` is the same.

    Questions that are judged and have nothing relevant are those without an answer.

    Args:
        expected, retrieved, name, documents: as of `score_rankings`. The rankings have scores.
        metric: the name of a metric that needs labels, of which more is better.
        tolerance: how far the metric's mean may fall for the threshold that is proposed.

    Raises:
        InvalidInput: an argument can't be used; scores are missing, aren't finite, rise with the
            rank as distances do, or are of several retrievers.

    Examples:
        >>> from llama_index_rag_metrics import Ranking
        >>> run = {"q1": Ranking(["a", "b"], scores=[0.9, 0.4]), "q2": Ranking(["b"], scores=[0.2])}
        >>> [(row.min_score, row.mean, row.spared)
        ...  for row in score_thresholds({"q1": ["b"], "q2": []}, run, "recall")]
        [(0.2, 1.0, 0.0), (0.4, 1.0, 1.0), (0.9, 0.0, 1.0)]
    """
    scores = score_rankings(expected, retrieved, metric, name=name, documents=documents)
    query_ids, relevance, rankings = align(expected, retrieved)
    run = Run(dict(zip(query_ids, rankings, strict=True)))
    run.min_score = getattr(retrieved, "min_score", None)
    judged = {
        query_id: Relevance.of(judgements)
        for query_id, judgements in zip(query_ids, relevance, strict=True)
        if judgements is not None
    }
    system = System(scores.name, scores, run, judged, {}, {})
    return thresholds_of(system, scores.metric_names[0], tolerance, documents)


def thresholds_of(
    system: System,
    metric: str,
    tolerance: float = _TOLERANCE,
    documents: Mapping[str, str] | None = None,
) -> Thresholds:
    """The thresholds of a system whose rankings are known."""
    check_amount("tolerance", tolerance, "a number from 0 on", lambda n: 0 <= n < math.inf)
    metric = name_among(metric, system.scores.metric_names)
    measure = _measure(metric)
    low, high = limits_of(metric)
    if tolerance >= high - low:
        expected = f"less than {high - low:g}, all that {metric} can lose"
        remedy = "It is in the metric's own unit: 0.02 is two points of a hundred."
        raise InvalidInput("tolerance", tolerance, expected, remedy)
    _check_run(system)
    known = system.scores.by_query(metric)
    unanswerable = {*system.scores.unanswerable}
    answerable = sorted(known.keys() - unanswerable, key=str)
    if not answerable:
        remedy = "" if system.scores.counts.scored else "Label questions that have an answer, too."
        raise InvalidInput("metric", metric, "a metric with a value for some question", remedy)
    failed = system.run.failed
    others = sorted(unanswerable - failed.keys(), key=str)
    n, query_ids = len(answerable), [*answerable, *others]

    matched = system.judged_by(metric)
    rankings = [matched.run.get(query_id, Ranking()) for query_id in answerable]
    rankings += [system.run.get(query_id, Ranking()) for query_id in others]
    judged = judge(
        [matched.relevance.get(query_id) for query_id in query_ids],
        rankings,
        list(dict.fromkeys([RetrievalScores, *columns_for([measure])])),
        ColumnSources(query_ids, documents=documents),
    )
    by_rank = np.split(scores_in(judged), np.cumsum(judged.depth)[:-1])
    notes = _check_scores(
        [each for query_id, each in zip(query_ids, by_rank, strict=True) if query_id not in failed],
        system.run.min_score,
    )
    if n_failed := len(unanswerable) - len(others):
        are = "is" if n_failed == 1 else "are"
        text = f"{questions(n_failed)} without an answer {are} left out: the retriever failed"
        notes.append(text)
    steps = _steps(judged, measure, by_rank, n)
    full = steps.values[:, 0]
    if not np.allclose(full, [known[query_id] for query_id in answerable]):
        raise InvalidInput("metric", metric, "a metric that labels and rankings alone decide")

    returned = np.flatnonzero(judged.depth)
    values = np.concatenate([full, np.zeros(len(others))])[returned]
    telling = [confidences(by_rank[place]) for place in returned]
    together = conversations_of(query_ids, system.scores.metadata)
    clusters = None if together is None else np.split(number_clusters(together), [n])
    return Thresholds(
        tuple(_rows(steps, steps.candidates)),
        metric,
        _rows(steps, np.array([-math.inf]))[0],
        n,
        len(others),
        tolerance,
        _proposal(steps, metric, tolerance, clusters),
        {
            key: abstention_nauc(np.array([each[key] for each in telling]), values)
            for key in confidences(np.zeros(1))
        },
        system.scores.name,
        tuple(notes),
    )


def _measure(name: str) -> RankingMetric:
    metric = resolve(name)
    if not isinstance(metric, RankingMetric) or not (
        metric.needs_relevance and not metric.of_unanswerable and not metric.lower_is_better
    ):
        expected = "a metric of rankings that needs labels, of which more is better"
        raise InvalidInput("metric", name, expected)
    return metric.model_copy(update={"match": BY_ID})


def _check_run(system: System) -> None:
    """Refuse rankings that aren't there, of several runs, or of several retrievers."""
    if not system.run:
        raise InvalidInput("run", None, "rankings with scores; bare scores of metrics have none")
    if repeats := system.scores.repeats:
        remedy = "Give one: score_thresholds() of run.repeats[0], or a file with that run alone."
        raise InvalidInput("run", f"{len(repeats)} runs", "one run of each question", remedy)
    calls = (call for ranking in system.run.values() for call in ranking.calls or ())
    names = {call.retriever for call in calls if call.ids}
    if len(names) > 1:
        remedy = "Find a threshold for each, with a run of its own."
        raise InvalidInput("scores", sorted(names), "scores of one retriever", remedy)


def _check_scores(by_rank: Sequence[FloatArray], cut_at: float | None) -> list[str]:
    """Refuse scores that can't be thresholds, and note what limits what they can say."""
    every = np.concatenate([np.array([]), *by_rank])
    if not np.isfinite(every).all():
        raise InvalidInput("scores", every[~np.isfinite(every)].tolist(), "finite numbers")
    slopes = [slope(each) for each in by_rank]
    if sum(slopes) > 0:
        raise InvalidInput("scores", by_rank[slopes.index(1)].tolist(), FALLING, RISING)
    notes = []
    if len(every) and not any(slopes):
        notes.append(
            "no ranking has two different scores, so nothing shows that higher ones are better: "
            "negate distances"
        )
    if mixed := sum(bool((np.diff(each) > 0).any()) for each in by_rank):
        rankings = counted(mixed, "ranking isn't", "rankings aren't")
        notes.append(f"{rankings} in the order of the scores: passages are left out in between")
    highest = [each.max() for each in by_rank if len(each)]
    if len(highest) > 2 and len(set(highest)) == 1:
        notes.append(
            "the highest score is the same for every question, as of ranks, or where scores are "
            "scaled to each question: no threshold tells questions apart"
        )
    if cut_at is not None:
        notes.append(
            f"passages below {cut_at:g} are left out already, so lower thresholds can't be judged: "
            "give results without that one"
        )
    elif highest and (n_empty := len(by_rank) - len(highest)):
        notes.append(
            f"nothing was returned for {questions(n_empty)}: if a threshold was applied already, "
            f"only those above {every.min():g}, the lowest score seen, can be judged: give results "
            "without it"
        )
    return notes


def _steps(
    judged: JudgedRankings, measure: RankingMetric, by_rank: Sequence[FloatArray], n: int
) -> Steps:
    """The metric of the first n questions with ever fewer passages: below each of their scores."""
    distinct = [np.unique(each) for each in by_rank[:n]]
    width = max(map(len, distinct))
    levels = np.full((len(judged), width + 1), np.inf)
    for row, each in enumerate(distinct):
        levels[row, : len(each)] = each
    scores, query = scores_in(judged), judged.retrieved_query
    values = [
        measure.score_queries(judged.only(scores >= levels[query, step]))[:n]
        for step in range(width + 1)
    ]
    best = [max(each, default=-math.inf) for each in by_rank[n:]]
    return Steps(levels[:n, :width], np.array(values).T, np.array(best, np.float64))


def _rows(steps: Steps, thresholds: FloatArray) -> list[Threshold]:
    columns = [f(thresholds) for f in (steps.means, steps.answered, steps.spared)]
    return [Threshold(*row) for row in np.column_stack([thresholds, *columns]).tolist()]


def _proposal(
    steps: Steps, metric: str, tolerance: float, clusters: Sequence[IntArray] | None
) -> Proposal | None:
    if (chosen := steps.choose(tolerance)) is None:
        return None
    lost, spared = steps.held_out(tolerance, clusters)
    low, high = limits_of(metric)
    extremes = steps.values.min(), steps.values.max()
    apart = widest_apart(*extremes, high - low, worst_score(metric))
    of_lost, of_spared = clusters or (None, None)
    gains = (np.diff(steps.values, axis=1) > NOISE).any()
    possible = np.array([[-apart if gains else 0.0, apart]])  # with less, recall never rises
    units = units_of(lost.reshape(-1, 1), of_lost)
    [loss] = difference_intervals(units, widest=apart, possible=possible)
    [seen] = _rows(steps, np.array([chosen]))
    return Proposal(chosen, seen, loss, mean_interval(spared, clusters=of_spared))


_SHOWN, _DRAWN = 11, 400
_CONFIDENCES = {
    "max": "highest score",
    "std": "spread of the scores",
    "diff1": "first score − second",
}
_EXPLAINED = (
    "Passages below a score are left out. answered: questions with an answer that still get any "
    "passage; spared: those without one that get none; a row is the lowest cutoff that spares as "
    "many. The proposal spares the most within the tolerance; it is judged in up to "
    f"{FOLDS} parts of the questions, each by the choice of the others. Scores of another "
    "retriever need a threshold of their own."
)
_TELLING = "Do the scores tell where to abstain?"
_NAUC = (
    "How much of what abstaining on the worst questions would gain is gained by abstaining where "
    "this is lowest: 1 is the best, 0 tells nothing (MTEB's nAUC of abstention)."
)


def thresholds_report(found: Thresholds) -> m.Report:
    of = f" of {plain(found.name)}" if found.name else ""
    telling = [
        m.Row(words, [m.Cell.of(None if math.isnan(value) else value, "score")._replace(digits=2)])
        for key, words in _CONFIDENCES.items()
        for value in [found.nauc[key]]
    ]
    return m.Report(
        title=f"Thresholds on the score{of}",
        lead=f"{questions(found.n_answerable)} with an answer, {found.n_unanswerable:,} without",
        decision=[*_decision(found)],
        sections=[
            m.Section("Thresholds", [_table(found)], _EXPLAINED),
            m.Section(_TELLING, [m.Table(_TELLING, ["nAUC"], [telling], first="by")], _NAUC),
        ],
        notes=found.notes,
        glossary=glossary([found.metric]),
        metrics=[found.metric],
        figures={"by_threshold": lambda _: _figure(found)},
        records=m.Records.of_fields(found, ("min_score", "mean", "answered", "spared")),
    )


def _decision(found: Thresholds) -> Iterator[m.Statement]:
    metric, n, others = found.metric, found.n_answerable, found.n_unanswerable
    if not others:
        text = "No question is without an answer, so there is nothing to spare: label some"
        yield m.Statement(f"{text} with an empty list.", "open")
        return
    if (proposed := found.proposed) is None:
        text = f"No cutoff within the tolerance, {numbers.given(found.tolerance)} of {metric}, "
        text += "spares a further question without an answer"
        sparing = [_lost(found, row) for row in found if row.spared > found.without.spared]
        text += f"; the cheapest costs {numbers.carried(min(sparing), n)}" if sparing else ""
        yield m.Statement(f"{text}.", "open")
        return
    spared, already = (_count(row.spared, others) for row in (proposed.seen, found.without))
    text = f"nothing is returned for {spared:,} of {questions(others)} without an answer"
    text += f" ({already:,} without a cutoff)" if already else ""
    now, was = numbers.carried(proposed.seen.mean, n), numbers.carried(found.without.mean, n)
    moves = "falls" if proposed.seen.mean < found.without.mean else "rises"
    text += f"; {metric} " + (f"stays {now}" if now == was else f"{moves} from {was} to {now}")
    text = f"With a cutoff of {proposed.min_score!r}, {text}."
    yield m.Statement(text, evidence="Thresholds", command=proposed.line)
    loss, share = proposed.loss, proposed.spared
    if not loss.n:
        text = "There are too few questions to judge it on others than those that chose it."
        yield m.Statement(text, "open")
        return
    low, high = (None if end is None else -end for end in (loss.high, loss.low))
    digits = numbers.digits_of(loss.n)
    changes = f"{numbers.signed(-loss.mean, digits=digits)} ({numbers.between(low, high, digits)})"
    ends = " to ".join(map(_percent, (share.low, share.high)))
    text = (
        f"On other questions, expect {_percent(share.mean)} of those without an answer to get "
        f"nothing ({ends}) and {metric} to change by {changes}: cross-validated, with 95 % "
        "confidence."
    )
    yield m.Statement(text, evidence="Thresholds")


def _percent(share: float | None) -> str:
    if share is None:
        return numbers.NO_VALUE
    return numbers.percent(numbers.significant(share, 2 if share < 0.99 else 3))


def _table(found: Thresholds) -> m.Table:
    """The lowest threshold for each share that is spared, or of many some, and the proposal."""
    lowest = {row.spared: row for row in reversed(found)} if found.n_unanswerable else {}
    shown = _spread([*lowest.values()] or found, _SHOWN)
    proposed = None if found.proposed is None else found.proposed.seen
    if proposed is not None:
        shown = [proposed, *(row for row in shown if row.spared != proposed.spared)]
    rows = [
        m.Row(
            numbers.on_axis(_shortest(found, row)) + " (proposed)" * (row is proposed),
            [
                numbers.mean_of(m.Cell(row.mean, "score"), found.n_answerable),
                numbers.mean_of(m.Cell(_lost(found, row), "score"), found.n_answerable),
                _of(row.answered, found.n_answerable),
                _of(row.spared, found.n_unanswerable),
            ],
        )
        for row in sorted(shown, key=lambda row: row.min_score)
    ]
    head = [found.metric, "lost", "answered", "spared"]
    remark = "" if len(found) == len(rows) else f"(some of {len(found):,})"
    return m.Table("Thresholds", head, [rows], first="from a score of", remark=remark)


def _shortest(found: Thresholds, row: Threshold) -> float:
    """The shortest number that does the same as a threshold, to be copied."""
    place = bisect_left(found, row.min_score, key=lambda row: row.min_score)
    return shortest_between(found[place - 1].min_score if place else -math.inf, row.min_score)


def _lost(found: Thresholds, row: Threshold) -> float:
    lost = found.without.mean - row.mean
    return lost if abs(lost) > NOISE else 0.0


def _count(share: float, n: int) -> int:
    return int(share * n + 0.5)


def _of(share: float, n: int) -> m.Cell:
    return m.Cell((_count(share, n), n), "share") if n else m.Cell.of(None, "share")


def _figure(found: Thresholds) -> Figure | None:
    rows = _spread(found, _DRAWN)
    if not rows:
        return None
    scores = [row.min_score for row in rows]
    columns = {found.metric: [row.mean for row in rows]}
    if found.n_unanswerable:
        columns["spared"] = [row.spared for row in rows]
    series = [
        Series(
            name,
            number,
            scores,
            values,
            remarks=[
                f"from {numbers.score(at)} on: {numbers.score(value)}"
                for at, value in zip(scores, values, strict=True)
            ],
        )
        for number, (name, values) in enumerate(columns.items())
    ]
    remark = "" if found.proposed is None else f"Proposed: {found.proposed.min_score!r}."
    axes = Axis("lowest score that is kept"), Axis("mean, or share of questions")
    return Figure("lines", *axes, series, markers=len(scores) <= _SHOWN, remark=remark)


def _spread(rows: Sequence[Threshold], most: int) -> list[Threshold]:
    """Rows at even distances, the first and the last among them."""
    n = len(rows)
    places = range(n) if n <= most else (at * (n - 1) // (most - 1) for at in range(most))
    return [rows[place] for place in places]
