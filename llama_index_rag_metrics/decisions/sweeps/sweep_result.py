"""Sweep: every configuration of a grid with its quality and its cost, and what is best of them."""

from __future__ import annotations

from typing import Any

from llama_index_rag_metrics.decisions.comparison.comparison import Comparison, compare
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.reportable import Reportable

from .choice import Choice
from .sweep_report import sweep_report
from .sweep_sentences import decision_in_words


class Sweep(Reportable, Choice):
    """What `sweep` found: its configurations in the order of the grid.

    Attributes:
        metric_names: all metrics, of which the first decides.
        confidence: 1 - this is how often, at most, a winner is named though there is none, and how
            often a configuration that isn't within the tolerance is taken to be.
        tolerance: how much worse than the best one the recommended configuration may be.

    Examples:
        >>> from llama_index_rag_metrics import sweep
        >>> def build(top_k):
        ...     return lambda query: ["d2", "d1"][:top_k]
        >>> dataset = {"queries": {f"q{n}": "x?" for n in range(10)}, "corpus": {},
        ...            "relevant_docs": {f"q{n}": ["d1" if n else "d2"] for n in range(10)}}
        >>> swept = sweep(build, {"top_k": [1, 2]}, dataset, ["recall"])
        >>> swept.winner.name, swept["top_k=1"].mean("recall")
        ('top_k=2', 0.1)
    """

    @property
    def decision(self) -> str:
        """The result in one or two sentences."""
        return decision_in_words(self)

    def compare(self, baseline: str | None = None, **options: Any) -> Comparison:
        """The configurations compared with one of them, by default the first that was evaluated.

        `options` are the further arguments of `compare`.
        """
        settings = {"metrics": self.metric_names, **options}
        return compare(self.results, baseline or next(iter(self.results), ""), **settings)

    def report(self, *, full: bool = False) -> Report:
        """The decision, and every configuration with its quality and cost."""
        return sweep_report(self)

    def __repr__(self) -> str:
        return f"<Sweep of {len(self)} configurations: {self.decision}>"
