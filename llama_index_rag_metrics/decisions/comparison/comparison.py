"""Comparison: systems beside a baseline, every number with its uncertainty."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from llama_index_rag_metrics.decisions.calibration import Calibration
from llama_index_rag_metrics.decisions.comparison.comparison_sentences import decision
from llama_index_rag_metrics.decisions.comparison.difference import (
    ComparisonSettings,
    Difference,
    SystemPair,
    all_pairs,
)
from llama_index_rag_metrics.decisions.comparison.drawn_pairing import DrawnPaired
from llama_index_rag_metrics.decisions.comparison.holes import Holes, judgement_holes
from llama_index_rag_metrics.decisions.comparison.pairing import Paired
from llama_index_rag_metrics.decisions.draws import Draw
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.reportable import Reportable, written
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.intervals import MeanInterval

_FORMAT = "llama-index-rag-metrics comparison, version 1"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Reportable):
    """Systems compared with a baseline, paired by query.

    Attributes:
        systems: name to scores, in the order given.
        results: name to the results of an evaluation, with its rankings; None where only scores
            were given.
        query_ids: the queries compared, in the baseline's order.
        means: (system, metric) to the mean with its interval, over the queries with a value.
        differences: by system, then metric; also `comparison["hybrid", "ndcg@10"]`.
        slices: value of the metadata to the comparison of those queries; intervals and p values are
            corrected for all slices together.
        notes: what a reader of the numbers should know.
        calibrations: name to what `calibrate` made of it, where systems were given so.

    Examples:
        >>> from llama_index_rag_metrics import compare, score_rankings
        >>> expected = {"q1": ["a"], "q2": ["b"], "q3": ["c"]}
        >>> lists = {
        ...     "bm25": {"q1": ["x", "a"], "q2": ["x", "b"], "q3": ["c"]},
        ...     "hybrid": {"q1": ["a", "x"], "q2": ["b", "x"], "q3": ["c"]},
        ... }
        >>> systems = {name: score_rankings(expected, run, "mrr") for name, run in lists.items()}
        >>> comparison = compare(systems, baseline="bm25")
        >>> comparison.decision
        "These 3 questions can't tell: hybrid may be 0.51 worse or 0.91 better than bm25 on mrr."
        >>> round(comparison["hybrid", "mrr"].difference, 4)
        0.3333
    """

    systems: Mapping[str, Scores]
    results: Mapping[str, EvaluationResults | None]
    baseline: str
    metric_names: tuple[str, ...]
    query_ids: tuple[str, ...]
    means: Mapping[tuple[str, str], MeanInterval]
    differences: tuple[Difference, ...]
    slices: Mapping[Hashable, Comparison]
    notes: tuple[str, ...]
    settings: ComparisonSettings
    paired: Paired = field(repr=False)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)

    def __getitem__(self, key: tuple[str, str]) -> Difference:
        if not isinstance(key, tuple) or len(key) != 2:
            remedy = f"As in comparison[{[*self.systems][-1]!r}, {self.metric_names[0]!r}]."
            raise InvalidInput("comparison[...]", key, "a system and a metric", remedy)
        system, metric = key[0], name_among(key[1], self.metric_names)
        for difference in self.differences:
            if (difference.system, difference.metric) == (system, metric):
                return difference
        raise InvalidInput("system", system, " or ".join(map(repr, self.others)))

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    @property
    def measured(self) -> list[Difference]:
        """The differences of systems that answered any question; none if the baseline didn't."""
        return [
            difference
            for difference in self
            if self.systems[difference.system].is_measured
            and self.systems[difference.baseline].is_measured
        ]

    @property
    def decision(self) -> str:
        """The result of the comparison on the primary metric, as one plain line."""
        used = "" if self.drawn is None else f" {self.drawn.used}"
        return f"{decision(self)}{used}"

    @property
    def drawn(self) -> Draw | None:
        """The draw that the differences rest on, where questions were drawn."""
        return self.paired.draw if isinstance(self.paired, DrawnPaired) else None

    def by_query(self, system: str, metric: str) -> dict[str, float]:
        """Query id to system minus baseline, of the queries with a value for both."""
        return self.paired.by_query(system, metric, self.baseline)

    @cached_property
    def pairs(self) -> tuple[SystemPair, ...]:
        """All pairs of three or more systems, metric by metric; empty for two systems.

        By max-t over the differences of a metric's pairs (Westfall and Young 1993): the intervals
        hold together, and p finds any difference between equal systems in at most 1 - confidence
        of cases.
        """
        return tuple(all_pairs(self.paired, self.settings))

    @cached_property
    def holes(self) -> Mapping[str, tuple[Holes, ...]]:
        """System to its means if unjudged retrieved items were not relevant, and if they were.

        Only for systems given as results of an evaluation: bare scores have no rankings.
        """
        return {
            name: judgement_holes(results, self.metric_names, query_ids=self.query_ids)
            for name, results in self.results.items()
            if results is not None
        }

    @property
    def names(self) -> list[str]:
        """The systems, the baseline first."""
        return [self.baseline, *self.others]

    @property
    def others(self) -> list[str]:
        """The systems but the baseline, in the order given."""
        return [name for name in self.systems if name != self.baseline]

    def report(self, *, full: bool = False) -> Report:
        """The decision, differences, means and remarks; as a table, one row per difference."""
        from llama_index_rag_metrics.decisions.comparison.comparison_report import comparison_report

        return comparison_report(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """All numbers as JSON; written to `path`, if given."""
        content = {
            "format": _FORMAT,
            "systems": list(self.systems),
            "baseline": self.baseline,
            "settings": asdict(self.settings),
            "decision": self.decision,
            "drawn": None if self.drawn is None else str(self.drawn),
            "notes": self.notes,
            "queries": len(self.query_ids),
            "means": [
                {"system": system, "metric": metric, **asdict(mean)}
                for (system, metric), mean in self.means.items()
            ],
            "differences": [*map(asdict, self.differences)],
            "holes": {system: [*map(asdict, holes)] for system, holes in self.holes.items()},
            "calibrations": {
                system: [*map(asdict, by_metric)] for system, by_metric in self.calibrations.items()
            },
            "pairs": [*map(asdict, self.pairs)],
            "slices": [
                {"value": value, "differences": [*map(asdict, part)]}
                for value, part in self.slices.items()
            ],
        }
        plain = jsonable(content, "comparison")
        return written(json_text(plain), path)

    def __repr__(self) -> str:
        return f"<Comparison: {terminal(self.decision)}>"
