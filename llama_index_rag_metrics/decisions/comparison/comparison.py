"""compare(): is one system better than another, by how much, and how sure is that?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from itertools import chain, compress, product, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llama_index_rag_metrics.evaluation.evaluation_results import (
    EvaluationResults,
    curve_figures,
    system_of,
)
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.drawing import short_names, without_prefix
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.figure import Axis, Draw, Figure, Series
from llama_index_rag_metrics.report.numbers import (
    between,
    counted,
    digits_for,
    percent,
    questions,
    signed,
)
from llama_index_rag_metrics.report.reportable import Reportable, written
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.intervals import (
    MeanInterval,
    alpha_of,
    check_confidence,
    mean_intervals,
)
from llama_index_rag_metrics.stories import results_report, rows
from llama_index_rag_metrics.stories.first_line import with_failures
from llama_index_rag_metrics.stories.label_view import System

from .decision import BEST, counts, what_to_do, winner_of
from .difference import Difference, Outcome, differences_of, margin_of
from .pairing import Paired, clusters_in_words, pair, scores_of

if TYPE_CHECKING:
    import pandas as pd

_MOST_LINES = 9  # up to this many other systems have a sentence each
_METHODS = (
    "{confidence} confidence intervals decide.",
    "{confidence} confidence intervals decide; those on {metric} hold for all {systems} systems at "
    "once, and those on other metrics together.",
)
_TONES: Mapping[Outcome, m.Tone] = {"better": "best", "worse": "alarm"}
_RECORDS = (
    *("system", "baseline", "metric", "n", "baseline_mean", "mean", "difference", "low", "high"),
    *("wins", "ties", "losses", "outcome", "detectable", "note", "verdict"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Reportable):
    """Systems compared with a baseline, paired by question.

    `differences` are by system, then metric; also `comparison["hybrid", "ndcg@10"]`. `means` has
    the mean of each (system, metric), over all questions with a score; the first metric decides.

    Examples:
        >>> from llama_index_rag_metrics import Scores, compare
        >>> old, new = (Scores(["q1", "q2"], {"mrr": [1.0, mrr]}) for mrr in (0.0, 0.5))
        >>> print(compare({"old": old, "new": new}, "old")["new", "mrr"])
        new may be 0.97 worse or 0.97 better than old on mrr. Only 1 of 2 questions changed: ...
    """

    systems: Mapping[str, Scores]
    reported: Mapping[str, EvaluationResults | Scores]
    baseline: str
    differences: tuple[Difference, ...]
    means: Mapping[tuple[str, str], MeanInterval]
    confidence: float
    clusters: str | None
    notes: tuple[str, ...]
    paired: Paired = field(repr=False)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics; the first one decides."""
        return tuple(self.paired.columns)

    @property
    def primary(self) -> str:
        """The metric that decides."""
        return self.metric_names[0]

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The questions compared, in the order of their ids."""
        return self.paired.query_ids

    @property
    def names(self) -> list[str]:
        """The systems, the baseline first."""
        return [self.baseline, *(name for name in self.systems if name != self.baseline)]

    def __getitem__(self, key: tuple[str, str]) -> Difference:
        systems = self.names[1:]
        if not isinstance(key, tuple) or len(key) != 2 or key[0] not in systems:
            example = f"As in comparison[{systems[0]!r}, {self.primary!r}]."
            expected = f"a metric and one of the systems {systems}"
            raise InvalidInput("comparison[...]", key, expected, example)
        return self._by_key[key[0], name_among(key[1], self.metric_names)]

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], Difference]:
        return {(row.system, row.metric): row for row in self}

    @property
    def _answering(self) -> list[str]:
        return [name for name in self.names if self.systems[name].is_measured]

    def measured(self, metric: str) -> list[Difference]:
        """Return the differences of systems that answered anything; none if the baseline didn't."""
        if not self.systems[self.baseline].is_measured:
            return []
        return [self[name, metric] for name in self._answering[1:]]

    @cached_property
    def _digits(self) -> dict[str, int]:
        digits = dict.fromkeys(self.metric_names, 0)
        for row in self:
            digits[row.metric] = max(digits[row.metric], digits_for(row.n, row))
        return digits

    @cached_property
    def winner(self) -> str | None:
        """The system that is shown to beat all others on the metric that decides; None if none is.

        Of equal systems one is named in at most 1 - confidence of cases.
        """
        return winner_of(self.paired, self._answering, alpha_of(self.confidence))

    @cached_property
    def sentences(self) -> list[m.Statement]:
        """What the metric that decides shows: a line a system, and what to do or would decide.

        Of many systems, how many are better and worse takes the place of the lines.
        """
        differences = self.measured(self.primary)
        lines = [_statement(difference) for difference in differences]
        if len(lines) > _MOST_LINES:
            lines = [m.Statement(counts(differences))]
        choice = what_to_do(self.paired, differences, alpha_of(self.confidence))
        if self.winner is None and choice:
            lines.append(m.Statement(choice, "open"))
        if self.winner is not None and len(self.names) > 2:
            name, n = short_names(self.names)[self.winner], f"{len(self.names):,}"
            best = BEST.format(system=name, systems=n, metric=self.primary)
            lines.insert(0, m.Statement(best, "best"))
        return lines

    @property
    def decision(self) -> str:
        """The best system, or what would decide; of two systems the verdict on the other one."""
        if len(self.names) == 2 or not self.sentences:
            return self[self.names[1], self.primary].verdict
        return self.sentences[-1 if self.winner is None else 0].text

    def by_query(self, system: str, metric: str) -> dict[str, float]:
        """Return query id to system minus baseline, of the questions with a score for both."""
        values = self.paired.values(system, metric, self.baseline)
        is_scored = ~np.isnan(values)
        query_ids = compress(self.query_ids, is_scored)
        return dict(zip(query_ids, values[is_scored].tolist(), strict=True))

    def report(self, *, full: bool = False) -> m.Report:
        """The verdicts, a table a metric with a row a system, means and remarks."""
        return _report(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return all numbers as JSON; written to `path`, if given."""
        names = ("baseline", "confidence", "clusters", "decision", "notes")
        content = {
            "systems": list(self.systems),
            **{name: getattr(self, name) for name in names},
            "queries": len(self.query_ids),
            "means": [
                {"system": system, "metric": metric, **asdict(mean)}
                for (system, metric), mean in self.means.items()
            ],
            "differences": [{name: getattr(row, name) for name in _RECORDS} for row in self],
        }
        return written(json_text(jsonable(content, "comparison")), path)

    def to_pandas(self) -> pd.DataFrame:
        """Return the unrounded numbers as a data frame, with the p of scipy's paired t-test.

        It is two-sided and not corrected; identical scores have p = 1. Nothing is decided by it.
        """
        from scipy.stats import ttest_1samp

        frame, p_values = super().to_pandas(), []
        for row in self:
            values = [*self.by_query(row.system, row.metric).values()]
            p = 1.0
            if row.changed or not row.n:
                with warnings.catch_warnings():  # of differences that are all the same
                    warnings.simplefilter("ignore", RuntimeWarning)
                    p = float(ttest_1samp(values, 0).pvalue)
            p_values.append(p)
        return frame.assign(p=p_values)

    def __repr__(self) -> str:
        return f"<Comparison: {terminal(self.decision)}>"


def compare(
    systems: Mapping[str, EvaluationResults | Scores],
    baseline: str,
    *,
    metrics: Sequence[str] | None = None,
    confidence: float = 0.95,
    margin: float | None = None,
    clusters: str | None = None,
) -> Comparison:
    """Compare systems with a baseline, paired by question.

    A system is better or worse where the interval of its difference leaves out 0, alike where it
    lies within the margin; otherwise these questions can't tell.

    Args:
        systems: two or more, by name: the results of an evaluation, or bare scores.
        metrics: the first decides; None takes those that all systems have. The intervals of the
            first hold together over systems, those of all others among themselves.
        margin: a difference too small to matter; None is 0.02 for metrics from 0 to 1, else 0.
        clusters: a key of the questions' metadata, such as the document that they were made from:
            clusters count as a whole. Conversations do unless another key is given.

    Raises:
        InvalidInput: the systems have other questions or labels, or a score is infinite.
        UnknownMetric: a system has no scores by a metric that is wanted.

    Examples:
        >>> a = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 0.5, 0.0]})
        >>> b = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 1.0, 0.5]})
        >>> difference = compare({"bm25": a, "hybrid": b}, "bm25")["hybrid", "mrr"]
        >>> round(difference.difference, 4), difference.outcome
        (0.3333, "can't tell")
    """
    if not isinstance(systems, Mapping):
        expected = "a mapping of name to results or scores"
        raise InvalidInput("systems", systems, expected, 'For example {"bm25": a, "hybrid": b}.')
    scores = {name: scores_of(system, f"system {name!r}") for name, system in systems.items()}
    if len(scores) < 2:
        raise InvalidInput("systems", list(scores), "two systems or more")
    if not isinstance(baseline, str) or baseline not in scores:
        raise InvalidInput("baseline", baseline, " or ".join(map(repr, scores)))
    paired = pair(scores, baseline, metrics=metrics, clusters=clusters)
    check_confidence(confidence)
    margin_of(next(iter(paired.columns)), margin, "margin")
    notes = list(paired.notes)
    if paired.clusters is not None:
        words = clusters_in_words(clusters, paired.clusters)
        notes.append(f"{words}: these count as a whole, and t is cluster-robust")
    keys = list(product(scores, paired.columns))
    means = mean_intervals(
        np.stack([paired.values(*key) for key in keys], axis=1),
        limits=[limits_of(metric) for _, metric in keys],
        confidence=confidence,
        clusters=paired.clusters,
    )
    return Comparison(
        systems=scores,
        reported=dict(systems),
        baseline=baseline,
        differences=tuple(differences_of(paired, baseline, confidence, margin)),
        means=dict(zip(keys, means, strict=True)),
        confidence=confidence,
        clusters=clusters,
        notes=tuple(notes),
        paired=paired,
    )


def _report(comparison: Comparison) -> m.Report:
    systems = [system_of(comparison.reported[name], name) for name in comparison.names]
    metrics, primary = list(comparison.metric_names), comparison.primary
    decision = with_failures(comparison.sentences, systems, primary)
    level = percent(comparison.confidence)
    method = _METHODS[len(systems) > 2].format(
        confidence=level, metric=primary, systems=f"{len(systems):,}"
    )
    details: list[m.Statement] = []
    if len(systems) <= _MOST_LINES + 1:
        for metric in metrics[1:]:
            details += map(_statement, comparison.measured(metric))
    short = short_names(comparison.names)
    baseline, *rivals = [short[name] for name in comparison.names]
    n = questions(len(comparison.query_ids))
    notes = [
        (mean.note, f"mean {metric} of {system}")
        for (system, metric), mean in comparison.means.items()
    ]
    remarks = results_report.gathered(notes) + results_report.remarks(systems)
    every_note = list(dict.fromkeys([*comparison.notes, *remarks]))
    return m.Report(
        title=f"{results_report.listed(rivals)} against {results_report.listed([baseline])}",
        lead=f"{n} compared on {counted(len(metrics), 'metric', 'metrics')}",
        decision=decision,
        further=details,
        about=results_report.about(systems),
        sections=[
            m.Section("Differences", _tables(comparison, f"{level} interval"), text=method),
            m.Section("Questions and latency", rows.counts_tables(systems)),
        ],
        failures=results_report.failures(systems),
        notes=results_report.unsaid(every_note, decision),
        glossary=results_report.glossary(metrics),
        metrics=metrics,
        primary=primary,
        figures=_figures(comparison, systems),
        queries=partial(results_report.queries_of, systems, metrics, compared=True),
        records=m.Records.of_fields(comparison.differences, _RECORDS),
    )


def _statement(difference: Difference) -> m.Statement:
    label: str = difference.outcome
    if difference.low is not None and not difference.changed:
        label = "the same"
    return m.Statement(difference.verdict, _tone(difference), label)


def _tone(difference: Difference) -> m.Tone:
    return _TONES.get(difference.outcome, "normal")


def _tables(comparison: Comparison, interval: str) -> list[m.Table]:
    """Return a table of the metric that decides, best system first, and one of all others."""
    names, (primary, *metrics) = comparison.names, comparison.metric_names
    prefix, short = without_prefix(names)
    labels = dict(zip(names, short, strict=True))
    heading = f"{prefix}…" if prefix else "system"
    lines = [m.Row(labels[name], _cells_of_others(comparison, name)) for name in names]
    if comparison.baseline != "baseline":
        labels[comparison.baseline] += " (baseline)"

    def rank(name: str) -> tuple[bool, float]:
        mean = comparison.means[name, primary].mean
        return math.isnan(mean), mean if lower_is_better(primary) else -mean

    rows = [
        m.Row(labels[name], _cells(comparison, name, primary)) for name in sorted(names, key=rank)
    ]
    head = ["mean", interval, "difference", interval, "better / same / worse"]
    tables = [m.Table(f"On {primary}", head, [rows], heading)]
    if metrics:
        head = list(chain.from_iterable(zip(metrics, repeat("difference"))))
        tables.append(m.Table("On other metrics", head, [lines], heading, "detail"))
    return tables


def _cells_of_others(comparison: Comparison, name: str) -> list[m.Cell]:
    """Return the mean with its interval, and the difference, on each metric but the first."""
    cells = []
    for metric in comparison.metric_names[1:]:
        mean, interval, difference, *_ = _cells(comparison, name, metric)
        cells += [mean._replace(low=interval.low, high=interval.high), difference]
    return cells


def _cells(comparison: Comparison, name: str, metric: str) -> list[m.Cell]:
    mean = comparison.means[name, metric]
    cells = [
        m.Cell.of(None if math.isnan(mean.mean) else mean.mean, "score"),
        m.Cell("score", "bounds", low=mean.low, high=mean.high),
    ]
    if name == comparison.baseline or not comparison[name, metric].n:
        cells += [m.Cell(None, tone="quiet")] * 3
    else:
        row = comparison[name, metric]
        interval = m.Cell(None, "range")
        if row.changed:
            interval = m.Cell(None, "range", low=row.low, high=row.high)
        tally = m.Cell((row.wins, row.ties, row.losses), "tally")
        cells += [m.Cell(row.difference, "signed", _tone(row)), interval, tally]
    return [cell._replace(digits=comparison._digits[metric]) for cell in cells]


def _figures(comparison: Comparison, systems: list[System]) -> dict[str, Draw]:
    def interval_of(number: int, metric: str) -> MeanInterval:
        return comparison.means[comparison.names[number], metric]

    def means(metric: str | None) -> Figure:
        metrics = [metric] if metric else comparison.metric_names
        return results_report.means_figure(systems, metrics, interval_of, compared=True)

    curves = curve_figures(systems, comparison.query_ids)
    return {"means": means, "differences": partial(_difference_figure, comparison), **curves}


def _difference_figure(comparison: Comparison, metric: str | None) -> Figure:
    """Return each system's differences from the baseline; hollow where the interval holds 0."""
    series, ends = [], [0.0]
    for number, name in enumerate(comparison.names[1:], 1):
        metrics = [metric] if metric else comparison.metric_names
        differences = [comparison[name, metric_name] for metric_name in metrics]
        differences = [row for row in differences if row.n]
        columns = m.Records.of_fields(differences, ("difference", "low", "high", "metric")).columns
        x, low, high, names = columns.values()
        remarks, hollow = [], []
        for row in differences:
            ends += filter(None, (row.low, row.difference, row.high))
            interval = between(row.low, row.high)
            remarks.append(f"{row.metric}: {signed(row.difference)} ({interval})")
            hollow.append(row.outcome not in _TONES)
        series.append(Series(name, number, x, names, low, high, remarks, hollow))
    room = 0.06 * (max(ends) - min(ends)) or 0.1
    axis = Axis(f"difference from {comparison.baseline}", ends=(min(ends) - room, max(ends) + room))
    return Figure("points", axis, Axis(), series, zero_line=True)
