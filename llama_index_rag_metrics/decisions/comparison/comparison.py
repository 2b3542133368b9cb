"""compare(): is one system better than another, by how much, and how sure is that?"""

from __future__ import annotations

import math
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, compress, product
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, system_of
from llama_index_rag_metrics.metrics.metric_names import limits_of
from llama_index_rag_metrics.report import model, numbers
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.text import listed, one_line
from llama_index_rag_metrics.runtime.containers import BoolArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.label_fit import with_reuse
from llama_index_rag_metrics.scores.scores import Scores, name_among
from llama_index_rag_metrics.statistics.intervals import MeanInterval, alpha_of, mean_intervals
from llama_index_rag_metrics.stories import results_report
from llama_index_rag_metrics.stories.first_line import with_failures
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.story import lost_most

from .difference import TALLY, Difference, differences_of, what_to_do
from .pairing import Paired, pair, scores_of

if TYPE_CHECKING:
    import pandas as pd

_BEST = "{system} is the best of {n:,} on {metric}."
_HOW = "Intervals of differences hold for all systems at once, with {confidence} confidence."
_COMMON = "Means are of questions that all have scores for, a difference of those that both have."
# precision@k divides by k, the others by what there is of the first k
_AVERAGE = re.compile(r"(precision(?!@)|(?:embedding|bm25)_similarity|llm_relevancy)(?:@(\d+))?")
_DEPTHS = (
    "{metric} is a mean over all that was retrieved, at most {least} passages by one system and "
    "{most} by another: compare on {name}@{least}"
)
_CLUSTERS = "{questions} in {clusters}: these count as a whole, and t is cluster-robust"
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
        >>> old, new = (Scores(["q1", "q2"], {"mrr": [1.0, mrr]}) for mrr in (0.0, 0.5))
        >>> print(compare({"old": old, "new": new}, "old")["new", "mrr"])
        new may be 0.97 worse or 0.97 better than old on mrr: 2 questions can't tell.
    """

    systems: Mapping[str, System]  # the baseline first
    baseline: str
    differences: tuple[Difference, ...]
    means: Mapping[tuple[str, str], MeanInterval]
    confidence: float
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

    def __getitem__(self, key: tuple[str, str]) -> Difference:
        rivals = list(self.systems)[1:]
        if not isinstance(key, tuple) or len(key) != 2 or key[0] not in rivals:
            raise InvalidInput("comparison[...]", key, f"one of the systems {rivals}, and a metric")
        return self._by_metric[name_among(key[1], self.metric_names)][key[0]]

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    @cached_property
    def _by_metric(self) -> dict[str, dict[str, Difference]]:
        rows: dict[str, dict[str, Difference]] = {metric: {} for metric in self.metric_names}
        for row in self:
            rows[row.metric][row.system] = row
        return rows

    @cached_property
    def _digits(self) -> dict[str, int]:
        digits = dict.fromkeys(self.metric_names, 0)
        for row in self:
            carried = numbers.digits_for(row.n, row.low, row.high)
            digits[row.metric] = max(digits[row.metric], carried)
        return digits

    @cached_property
    def winner(self) -> str | None:
        """The system shown to beat all others on the metric that decides; None if none is."""
        contest = self.paired.contest(self.primary)
        if len(contest.scores) < 2:
            return None
        leader = int(contest.scores.mean(axis=0).argmax())
        is_shown = contest.beats_all(leader, alpha_of(self.confidence))
        return self.paired.systems[leader] if is_shown else None

    @cached_property
    def sentences(self) -> list[model.Statement]:
        """What the metric that decides shows: a line a system, and what to do or would decide."""
        differences = list(self._by_metric[self.primary].values())
        lines = [row.statement for row in differences]
        if len(self.systems) > model.MOST_ABREAST:
            lines = self._outcomes
        if self.winner is None:
            choice = what_to_do(self.paired, differences, alpha_of(self.confidence))
            if choice:
                lines.append(model.Statement(choice))
        elif len(self.systems) > 2:
            fields = {"system": self.winner, "n": len(self.systems), "metric": self.primary}
            lines.insert(0, model.Statement(_BEST.format(**fields), "best"))
        return lines

    @property
    def _outcomes(self) -> list[model.Statement]:
        names: dict[tuple[str, model.Tone], list[str]] = defaultdict(list)
        for name in self._rivals:
            row = self._by_metric[self.primary][name]
            names[row.statement.label, row.statement.tone].append(name)
        lines = []
        for (label, tone), systems in names.items():
            lines.append(model.Statement(f"{label}: {listed(systems, most=12)}.", tone, label))
        return lines

    @property
    def decision(self) -> str:
        """The best system, or what would decide; of two systems the verdict on the other one."""
        if self.winner is None and len(self.systems) > 2:
            return self.sentences[-1].text
        return self.sentences[0].text

    def by_query(self, system: str, metric: str) -> dict[str, float]:
        """Return query id to system minus baseline, of the questions with a score for both."""
        values = self.paired.values(system, metric, self.baseline)
        is_scored = ~np.isnan(values)
        query_ids = compress(self.paired.query_ids, is_scored)
        return dict(zip(query_ids, values[is_scored].tolist(), strict=True))

    def report(self, *, full: bool = False) -> model.Report:
        """The verdicts, a table a metric with a row a system, the worst questions, and remarks."""
        systems = [self.systems[name] for name in (self.baseline, *self._rivals)]
        decision = with_failures(self.sentences, systems, self.primary)
        uneven = [note for note in self.notes if note.startswith(f"{self.primary} is a mean over")]
        decision += [model.Statement(f"{note}.", "open") for note in uneven]
        notes = list(dict.fromkeys([*self.notes, *results_report.remarks(systems)]))
        rivals = [name for name in self._rivals if self._by_metric[self.primary][name].changed]
        best_rival = self.systems[(rivals or self._rivals)[0]]
        gains = self.by_query(best_rival.name, self.primary)
        n = numbers.questions(len(self.paired.query_ids) * any(row.n for row in self))
        extent = f"compared on {numbers.counted(len(self.metric_names), 'metric', 'metrics')}"
        lead = results_report.with_left_out(f"{n} {extent}", systems[0])
        if not self._is_paired(self.primary):
            n_common = self._is_common(self.primary).sum()
            lead = f"{n_common:,} of {n} {extent}, those that all have scores for"
        return model.Report(
            title=f"{listed(list(self.systems)[1:])} against {one_line(self.baseline)}",
            lead=lead,
            decision=decision,
            about=results_report.about(systems),
            tables=[*self._tables(), *results_report.counts_tables(systems)],
            listings=[lost_most(gains, [systems[0], best_rival], self.primary)],
            failures=results_report.failures(systems),
            notes=results_report.unsaid(notes, decision),
            glossary=results_report.glossary(self.metric_names),
            figures={"differences": self._figure},
            queries=partial(results_report.queries_of, systems, self.primary, compared=True),
            records=model.Records.of_fields(self.differences, _RECORDS),
        )

    def _is_paired(self, metric: str) -> bool:
        """Whether all systems that a metric measured have scores of the same questions."""
        n_scored = (~np.isnan(self.paired.columns[metric])).any(axis=1).sum()
        return bool(n_scored in (0, self._is_common(metric).sum()))

    def _is_common(self, metric: str) -> BoolArray:
        """(questions,) whether all systems have a score, but for those that have none at all."""
        is_missing = np.isnan(self.paired.columns[metric])
        return np.asarray(~is_missing[:, ~is_missing.all(axis=0)].any(axis=1), np.bool_)

    @cached_property
    def _common_means(self) -> Mapping[tuple[str, str], MeanInterval]:
        columns = {}
        for metric, scores in self.paired.columns.items():
            if not self._is_paired(metric):
                columns[metric] = np.where(self._is_common(metric)[:, np.newaxis], scores, np.nan)
        return {**self.means, **_means(replace(self.paired, columns=columns), self.confidence)}

    @property
    def _rivals(self) -> list[str]:
        rows = list(self._by_metric[self.primary].values())
        rows.sort(key=lambda row: -row.gain if row.n else math.inf)
        return [row.system for row in rows]

    def _tables(self) -> list[model.Table]:
        primary, *metrics = self.metric_names
        names = [self.baseline, *self._rivals]
        level = numbers.percent(self.confidence)
        head = ["mean", f"{level} interval", "difference", f"{level} interval", TALLY]
        rows = [model.Row(name, self._cells(name, primary)) for name in names]
        explanations = []
        if len(names) > 2:
            explanations.append(_HOW.format(confidence=level))
        if not self._is_paired(self.primary):
            explanations.append(_COMMON)
        tables = [model.Table(f"On {primary}", head, rows, text=" ".join(explanations))]
        if metrics:
            tables.append(self._others(names, metrics))
        return tables

    def _others(self, names: Sequence[str], metrics: Sequence[str]) -> model.Table:
        cells: dict[tuple[str, str], list[model.Cell]] = {}
        for name, metric in product(names, metrics):
            mean, bounds, difference, *_ = self._cells(name, metric)
            cells[name, metric] = [mean._replace(low=bounds.low, high=bounds.high), difference]
        if len(names) == 2 and len(metrics) > 2:
            old, new = names
            rows = [model.Row(name, [cells[old, name][0], *cells[new, name]]) for name in metrics]
            head = [old, new, "difference"]
            return model.Table("On other metrics", head, rows, "metric", is_detail=True)
        rows, head = [], list[str]()
        for metric in metrics:
            head += (metric, "difference")
        for name in names:
            row = chain.from_iterable(cells[name, metric] for metric in metrics)
            rows.append(model.Row(name, list(row)))
        return model.Table("On other metrics", head, rows, is_detail=True)

    def _cells(self, name: str, metric: str) -> list[model.Cell]:
        mean, row = self._common_means[name, metric], self._by_metric[metric].get(name)
        bounds = model.Cell("score", "bounds", low=mean.low, high=mean.high)
        cells = [model.Cell(mean.mean, "score"), bounds]
        if self.systems[name].invalid(metric):
            cells[0] = model.Cell("not valid", tone="open")
        if row is None:
            cells += [model.Cell(text, tone="quiet") for text in ("baseline", None, None)]
        else:
            difference, tally = row.cells
            interval = model.Cell(None, "range", low=row.low, high=row.high)
            if row.low is not None and not row.changed:
                interval = model.Cell("same scores", "outcome", "quiet")
            cells += (difference._replace(low=None), interval, tally)
        changes: dict[str, Any] = {"digits": self._digits[metric]}
        if self.systems[name].is_in_doubt:
            changes["tone"] = "open"
        return [cell._replace(**changes) for cell in cells]

    def _figure(self) -> model.Figure:
        metrics, scale = [self.primary], limits_of(self.primary)
        if len(self.systems) <= model.MOST_ABREAST:
            metrics = [name for name in self.metric_names if limits_of(name) == scale]
        series, systems = [], list(self.systems)
        for name in self._rivals:
            marks = []
            for row in self:
                if row.system == name and row.metric in metrics and row.n:
                    interval = numbers.between(row.low, row.high)
                    title = f"{name}: {row.metric}: {numbers.signed(row.difference)} ({interval})"
                    mark = model.Mark(row.difference, row.metric, title, row.low, row.high)
                    if not row.changed:
                        mark = mark._replace(title=row.verdict, low=None, high=None)
                    marks.append(mark)
            series.append(model.Series(name, systems.index(name), marks))
        return model.Figure("points", "", "", series, has_zero_line=True)

    def to_pandas(self) -> pd.DataFrame:
        """Return the unrounded numbers as a data frame, with the p of scipy's paired t-test.

        It is two-sided and not corrected; identical scores have p = 1. Nothing is decided by it.
        """
        from scipy.stats import ttest_1samp

        frame, p_values = super().to_pandas(), []
        with warnings.catch_warnings():  # of differences that are all the same
            warnings.simplefilter("ignore", RuntimeWarning)
            for row in self:
                values = list(self.by_query(row.system, row.metric).values())
                p = float(ttest_1samp(values, 0).pvalue)
                p_values.append(1.0 if row.n and not row.changed else p)
        return frame.assign(p=p_values)


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
        InvalidInput: the systems have other questions or labels, a score is infinite, or a system
            has no scores by a metric that is wanted.

    Examples:
        >>> a = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 0.5, 0.0]})
        >>> b = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 1.0, 0.5]})
        >>> difference = compare({"bm25": a, "hybrid": b}, "bm25")["hybrid", "mrr"]
        >>> round(difference.difference, 4), difference.outcome
        (0.3333, "can't tell")
    """
    if not isinstance(systems, Mapping) or len(systems) < 2:
        expected = "two systems or more: a mapping of name to results or scores"
        raise InvalidInput("systems", systems, expected, 'For example {"bm25": a, "hybrid": b}.')
    scores = {name: scores_of(system, f"system {name!r}") for name, system in systems.items()}
    if not isinstance(baseline, str) or baseline not in scores:
        raise InvalidInput("baseline", baseline, " or ".join(map(repr, scores)))
    scores = {baseline: scores[baseline], **scores}
    for name in list(scores)[1:]:
        scores[name] = with_reuse(scores[name], scores[baseline], baseline)
    paired = pair(scores, metrics, clusters)
    noun = "conversation" if clusters is None else "cluster"
    keys = list(product(list(scores)[1:], paired.columns, [baseline]))
    reported = {key: system_of(systems[key], key)._replace(scores=scores[key]) for key in scores}
    return Comparison(
        systems=reported,
        baseline=baseline,
        means=_means(paired, confidence),
        differences=tuple(differences_of(paired, keys, confidence, margin)),
        confidence=confidence,
        notes=(*_notes(paired, scores, noun, is_all=metrics is None), *_asked_otherwise(reported)),
        paired=paired,
    )


def _asked_otherwise(systems: Mapping[str, System]) -> Iterator[str]:
    for aspect in ("matched", "tokens"):
        ways: dict[str, str] = {}
        for name, system in systems.items():
            if way := system.about.get(f"{aspect} by"):
                ways[name] = way
        if len(set(ways.values())) > 1:
            listing = ", ".join(map(" by ".join, ways.items()))
            yield f"{aspect} otherwise, which scores may show: {listing}"


def _notes(
    paired: Paired, scores: Mapping[str, Scores], noun: str, *, is_all: bool
) -> Iterator[str]:
    if paired.clusters is not None:
        members = numbers.counted(len(np.unique(paired.clusters)), noun, f"{noun}s")
        n = numbers.questions(len(paired.clusters))
        yield _CLUSTERS.format(questions=n, clusters=members)
    unpaired = [metric for metric in scores[paired.systems[0]] if metric not in paired.columns]
    if is_all and unpaired:
        yield f"not compared, since not every system has them: {', '.join(unpaired)}"
    depths = [system.retrieval.run.depth for system in scores.values() if system.retrieval]
    low, high = min(depths, default=0), max(depths, default=0)
    for match in filter(None, map(_AVERAGE.fullmatch, paired.columns)):
        depth = min(high, int(match[2] or high))
        if low < depth:
            yield _DEPTHS.format(metric=match[0], least=low, most=depth, name=match[1])


def _means(paired: Paired, confidence: float) -> dict[tuple[str, str], MeanInterval]:
    by_key: dict[tuple[str, str], MeanInterval] = {}
    for metric, scores in paired.columns.items():
        limits, clusters = [limits_of(metric)] * len(paired.systems), paired.clusters
        means = mean_intervals(scores, limits=limits, confidence=confidence, clusters=clusters)
        by_key |= zip(product(paired.systems, [metric]), means, strict=True)
    return by_key
