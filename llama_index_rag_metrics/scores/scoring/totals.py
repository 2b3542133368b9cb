"""Means of scores that aren't kept: sums that come out the same in any order, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.numbers import carried, counted, mean_of, questions
from llama_index_rag_metrics.report.reportable import Reportable, written
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.scores import Counts, listed_means
from llama_index_rag_metrics.scores.first_line import nothing_measured
from llama_index_rag_metrics.scores.mappings import ByMetric, added, name_among
from llama_index_rag_metrics.scores.rows import count_rows
from llama_index_rag_metrics.scores.scores_report import glossary
from llama_index_rag_metrics.scores.scoring.batches import Remarks, ScoredBatch

_MANTISSA = 53
_LOWER = 26
_LOWEST_EXPONENT = -1074


@dataclass(frozen=True, slots=True)
class ExactSum:
    """The sum of 64-bit floats without rounding, counted in units of the smallest float above 0.

    Sums of parts add up to the very sum of the whole, in whatever order the parts come. Fractions
    would, too, and take some fifty times as long (benchmarks/plain_ways.py).

    >>> tenth = ExactSum.of([0.1] * 5)
    >>> (tenth + tenth).value
    1.0
    """

    units: int = 0

    @classmethod
    def of(cls, numbers: npt.ArrayLike) -> ExactSum:
        """The sum of finite numbers, at most 2**26 of them."""
        fraction, exponent = np.frexp(np.asarray(numbers, np.float64))
        mantissa = (fraction * 2.0**_MANTISSA).astype(np.int64)
        lowest = int(exponent.min(initial=0))
        upper = np.bincount(exponent - lowest, mantissa >> _LOWER)
        lower = np.bincount(exponent - lowest, mantissa & ((1 << _LOWER) - 1))
        units = 0
        for above in np.flatnonzero((upper != 0) | (lower != 0)).tolist():
            mantissas = (int(upper[above]) << _LOWER) + int(lower[above])
            shift = lowest + above - _MANTISSA - _LOWEST_EXPONENT
            units += mantissas << shift if shift >= 0 else mantissas >> -shift
        return cls(units)

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum(self.units + other.units)

    @property
    def value(self) -> float:
        """The sum, rounded once."""
        return float(self.units / (1 << -_LOWEST_EXPONENT))


@dataclass(frozen=True)
class ScoreTotals(Reportable):
    """Means and counts of scores that weren't kept, or that went into a file.

    Totals add up: `+` of the parts gives, to the last bit, the totals of the whole.

    Attributes:
        sums: metric name to the sum of its scores.
        counts: how many queries the means are taken over, and how many are special.
        remarks: what a reader of the numbers should know of the queries.
        name: what to call the scored system in reports.
        path: the file that the scores of each query were written to, if any.
        own: metric name to how many queries have a value, of metrics for which that isn't
            `counts.scored`, such as those of leaks.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from llama_index_rag_metrics import score_files, write_qrels, write_run
        >>> with TemporaryDirectory() as folder:
        ...     run, qrels = Path(folder, "bm25.run"), Path(folder, "qrels.txt")
        ...     write_run({"q1": ["a", "b"], "q2": ["c"]}, run)
        ...     write_qrels({"q1": ["b"], "q2": ["c"]}, qrels)
        ...     totals = score_files(run, qrels, "mrr", per_query=False)
        >>> totals.means["mrr"], (totals + totals).counts.queries
        (0.75, 4)
    """

    sums: Mapping[str, ExactSum]
    counts: Counts
    remarks: Remarks
    name: str = ""
    path: Path | None = None
    own: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def nothing(cls, metric_names: Iterable[str]) -> ScoreTotals:
        """The totals of no queries."""
        return cls({metric: ExactSum() for metric in metric_names}, Counts(), Remarks())

    @classmethod
    def of(cls, scored: ScoredBatch) -> ScoreTotals:
        """The totals of a batch."""
        return cls(
            {name: ExactSum.of(of[scored.has_value(name)]) for name, of in scored.columns.items()},
            scored.counts,
            scored.remarks,
            own={metric: int(has_value.sum()) for metric, has_value in scored.own.items()},
        )

    def __add__(self, other: ScoreTotals) -> ScoreTotals:
        return ScoreTotals(
            added(self.sums, other.sums),
            self.counts + other.counts,
            self.remarks + other.remarks,
            self.name,
            self.path,
            {metric: self._n(metric) + other._n(metric) for metric in {**self.own, **other.own}},
        )

    @property
    def metric_names(self) -> tuple[str, ...]:
        return tuple(self.sums)

    def n(self, metric: str) -> int:
        """How many queries the metric's mean is taken over."""
        return self._n(name_among(metric, self.sums))

    def _n(self, metric: str) -> int:
        return self.own.get(metric, self.counts.scored)

    @property
    def means(self) -> Mapping[str, float]:
        """Metric name to the mean over the queries that have a value; NaN for none."""
        totals = ((metric, total.value, self._n(metric)) for metric, total in self.sums.items())
        means = ((metric, total / n if n else math.nan) for metric, total, n in totals)
        return MappingProxyType(ByMetric(means))

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers should know."""
        return [*self.counts.notes, *self.remarks.notes()]

    def report(self, *, full: bool = False) -> m.Report:
        """Means, counts and notes; as a table, one row with all of them."""
        name, counts, metrics = self.name or "score", self.counts, self.metric_names
        is_measured = counts.failed < counts.queries
        means = {
            metric: mean if is_measured and not math.isnan(mean) else None
            for metric, mean in self.means.items()
        }
        rows = [
            m.Row(metric, [mean_of(m.Cell.of(mean, "score"), counts.scored)])
            for metric, mean in means.items()
        ]
        parts = [rows, [*count_rows([counts])]]
        table = m.Table("", [name], parts, fold="Counts", by_system=True)
        values = {"run": self.name, **means, **asdict(counts)}
        return m.Report(
            title=f"Retrieval of {name}",
            lead=f"{questions(counts.scored)} on {counted(len(metrics), 'metric', 'metrics')}",
            decision=[self._decision()],
            sections=[m.Section("Means", [table])],
            notes=self.notes,
            glossary=glossary(metrics),
            metrics=metrics,
            records=m.Records({label: [value] for label, value in values.items()}),
        )

    def _decision(self) -> m.Statement:
        """The headline's mean, without an interval: sums don't tell how much scores spread."""
        counts, metric = self.counts, m.headline(self.metric_names)
        if counts.failed >= counts.queries or not metric or not self._n(metric):
            return m.Statement(nothing_measured(counts, []), "alarm")
        n = self._n(metric)
        parts = [f"{metric} is {carried(self.means[metric], n)} on {questions(n)}"]
        what = {"failed": counts.failed, "got no result": counts.empty}
        total = f"{counts.queries:,}"
        parts += [f"{part:,} of {total} {name} (scored 0)" for name, part in what.items() if part]
        return m.Statement(f"{'; '.join(parts)}.", "open" if len(parts) > 1 else "normal")

    def state(self) -> dict[str, Any]:
        """All but name and path, as JSON, for another process: sums stay exact."""
        return {
            "sums": {metric: hex(total.units) for metric, total in self.sums.items()},
            "counts": asdict(self.counts),
            "remarks": self.remarks.state(),
            "own": dict(self.own),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ScoreTotals:
        """The totals that `state` was made of.

        >>> counts = Counts(2, 2, 0, 0, 0, 0)
        >>> totals = ScoreTotals({"mrr": ExactSum.of([0.1, 0.2])}, counts, Remarks())
        >>> ScoreTotals.from_state(totals.state()) == totals
        True
        """
        return cls(
            {metric: ExactSum(int(units, 16)) for metric, units in state["sums"].items()},
            Counts(**state["counts"]),
            Remarks.from_state(state["remarks"]),
            own=state["own"],
        )

    def to_json(self, path: str | Path | None = None) -> str:
        """Name, means, counts and notes as JSON; written to `path`, if given."""
        parts = {
            "name": self.name,
            "means": jsonable(self.means, "means"),
            "counts": asdict(self.counts),
            "notes": self.notes,
        }
        return written(json_text(parts), path)

    def __repr__(self) -> str:
        queries = questions(self.counts.scored)
        name = terminal(self.name) or "unnamed"
        return f"<ScoreTotals {name}: {queries}; {listed_means(self.means)}>"
