"""Comparison: systems beside a baseline, every number with its uncertainty."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.comparison.difference import Difference, Settings
from llama_index_rag_metrics.comparison.holes import Holes, judgement_holes
from llama_index_rag_metrics.comparison.pairing import Paired
from llama_index_rag_metrics.comparison.verdict import decision
from llama_index_rag_metrics.errors import InvalidInput, MissingExtra, UnknownMetric
from llama_index_rag_metrics.evaluation import EvaluationResults
from llama_index_rag_metrics.jsonable import jsonable
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.statistics.intervals import MeanInterval
from llama_index_rag_metrics.statistics.tukey import TukeyPair, tukey_pairs

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

_FORMAT = "llama-index-rag-metrics comparison, version 1"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Systems compared with a baseline, paired by query.

    Attributes:
        systems: name to scores, in the order given.
        results: name to the results of an evaluation, with its rankings; None where only scores
            were given.
        baseline: the name of the baseline.
        metric_names: the metrics compared.
        query_ids: the queries compared, in the baseline's order.
        means: (system, metric) to the mean with its interval, over the queries with a value.
        differences: by system, then metric; also `comparison["hybrid", "ndcg@10"]`.
        slices: value of the metadata to the comparison of those queries; p values are corrected for
            all slices together.
        notes: what a reader of the numbers should know.
        settings: how it was made.
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
    settings: Settings
    paired: Paired = field(repr=False)

    def __getitem__(self, key: tuple[str, str]) -> Difference:
        """The difference of (system, metric)."""
        if not isinstance(key, tuple) or len(key) != 2:
            remedy = f"As in comparison[{[*self.systems][-1]!r}, {self.metric_names[0]!r}]."
            raise InvalidInput("comparison[...]", key, "a system and a metric", remedy)
        system, metric = key
        for one in self.differences:
            if (one.system, one.metric) == (system, metric):
                return one
        if metric not in self.metric_names:
            raise UnknownMetric(metric, self.metric_names)
        others = [one for one in self.systems if one != self.baseline]
        raise InvalidInput("system", system, " or ".join(map(repr, others)))

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    @property
    def decision(self) -> str:
        """What the comparison comes to, by the primary metric: one plain line."""
        return decision(self)

    def by_query(self, system: str, metric: str) -> dict[str, float]:
        """Query id to system minus baseline, of the queries with a value for both."""
        column = self.paired.differences(system, self.baseline, metric)
        pairs = zip(self.query_ids, column.tolist(), strict=True)
        return {query_id: value for query_id, value in pairs if value == value}  # noqa: PLR0124

    @cached_property
    def tukey(self) -> tuple[TukeyPair, ...]:
        """All pairs of three or more systems by Tukey's test, metric by metric.

        Empty for two systems, and with clusters, of which the test knows nothing.
        """
        if len(self.systems) < 3 or self.paired.clusters is not None:
            return ()
        return tuple(
            one
            for metric in self.metric_names
            for one in tukey_pairs(
                tuple(self.systems),
                metric,
                self.paired.columns[metric],
                self.settings.confidence,
            )
        )

    @cached_property
    def holes(self) -> Mapping[str, tuple[Holes, ...]]:
        """System to its means with unjudged retrieved items taken as not relevant and as relevant.

        Only of the systems given as results of an evaluation: bare scores know no rankings.
        """
        return {
            name: judgement_holes(results, self.metric_names, query_ids=self.query_ids)
            for name, results in self.results.items()
            if results is not None
        }

    def to_pandas(self) -> pd.DataFrame:
        """One row a difference; with slices, a column `slice`, None for all queries."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("to_pandas()", "pandas") from error
        rows = [asdict(one) for one in self.differences]
        if self.slices:
            parts = [(None, self), *self.slices.items()]
            rows = [{"slice": value, **asdict(one)} for value, part in parts for one in part]
        names = [one.name for one in fields(Difference)]
        return pd.DataFrame(rows, columns=[*(["slice"] if self.slices else []), *names])

    def to_json(self, path: str | Path | None = None) -> str:
        """All numbers as JSON; written to `path` where one is given.

        Raises:
            InvalidInput: JSON can't hold a value of the slices' metadata.
        """
        content = {
            "format": _FORMAT,
            "systems": list(self.systems),
            "baseline": self.baseline,
            "settings": asdict(self.settings),
            "decision": self.decision,
            "notes": self.notes,
            "queries": len(self.query_ids),
            "means": [
                {"system": system, "metric": metric, **asdict(one)}
                for (system, metric), one in self.means.items()
            ],
            "differences": [asdict(one) for one in self.differences],
            "holes": {
                system: [asdict(one) for one in found] for system, found in self.holes.items()
            },
            "tukey": [asdict(one) for one in self.tukey],
            "slices": [
                {"value": value, "differences": [asdict(one) for one in part]}
                for value, part in self.slices.items()
            ],
        }
        text = json.dumps(jsonable(content, "comparison"), ensure_ascii=False, allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_html(self, path: str | Path, **options: Any) -> Path:
        """Write the report as one HTML file; the options are those of `write_html`."""
        from llama_index_rag_metrics.report.html import write_html

        return write_html(self, path, **options)

    def to_markdown(self) -> str:
        """The verdict and the tables as GitHub shows them."""
        from llama_index_rag_metrics.report.exports import to_markdown

        return to_markdown(self)

    def to_latex(self) -> str:
        """The differences as LaTeX tables; needs the package booktabs."""
        from llama_index_rag_metrics.report.exports import to_latex

        return to_latex(self)

    def to_csv(self, path: str | Path | None = None) -> str:
        """One row a difference, numbers in full; written to `path` where one is given."""
        from llama_index_rag_metrics.report.exports import to_csv

        return to_csv(self, path)

    def plot(self, kind: str = "means", metric: str | None = None) -> go.Figure:
        """A figure of plotly; kinds and errors are those of `plot`."""
        from llama_index_rag_metrics.report.plots import plot

        return plot(self, kind, metric)

    def _repr_html_(self) -> str:
        from llama_index_rag_metrics.report.notebook import comparison_html

        return comparison_html(self)

    def __str__(self) -> str:
        from llama_index_rag_metrics.report.console import comparison_text

        return comparison_text(self)

    def __repr__(self) -> str:
        others = ", ".join(one for one in self.systems if one != self.baseline)
        metrics, queries = ", ".join(self.metric_names), f"{len(self.query_ids)} queries"
        return f"<Comparison of {others} with {self.baseline}: {queries}; {metrics}>"
