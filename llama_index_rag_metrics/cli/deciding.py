"""Several systems, compared and shown with the decision first, as `evaluate` and `score` do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.report.model import Statement
from llama_index_rag_metrics.report.numbers import questions

if TYPE_CHECKING:
    from llama_index_rag_metrics import Comparison, EvaluationResults, Scores

    Systems: TypeAlias = Mapping[str, EvaluationResults | Scores]

_MOST_FLIPS = 1_000_000_000
"""Questions times random flips of signs: of more questions there are fewer flips."""


class Decided(NamedTuple):
    """Systems side by side, and what is said first; None where the report itself knows."""

    systems: Systems
    comparison: Comparison | None
    decision: list[Statement] | None

    @classmethod
    def of(cls, systems: Systems, *, has_page: bool) -> Decided:
        """All that were measured against the first of them, on the questions that all have."""
        from llama_index_rag_metrics import compare
        from llama_index_rag_metrics.decisions.comparison.comparison_report import decisions
        from llama_index_rag_metrics.evaluation.results.results_report import systems_of
        from llama_index_rag_metrics.scores.deciding import with_failures
        from llama_index_rag_metrics.statistics.intervals import RESAMPLES

        columns = systems_of(systems)
        measured = {column.name: column.scores for column in columns if column.is_measured}
        if len(measured) < 2:
            return cls(systems, None, None)
        first, *_ = measured.values()
        shared = set.intersection(*(set(scores.query_ids) for scores in measured.values()))
        metric, verdicts, comparison = first.metric_names[0], [], None
        if len(shared) > 1:
            comparison = compare(
                {name: systems[name] for name in measured},
                next(iter(measured)),
                metrics=None if has_page else [metric],
                on_missing="intersect",
                resamples=min(RESAMPLES, max(1000, _MOST_FLIPS // len(shared))),
            )
            verdicts = [*decisions(comparison)]
        if any(len(shared) < len(scores.query_ids) for scores in measured.values()):
            common = questions(len(shared)) if shared else "no question"
            verdicts.append(Statement(f"They have {common} in common.", "open"))
        return cls(systems, comparison, with_failures(verdicts, columns, metric))

    def write_page(self, html: Path) -> None:
        """The comparison, or the systems side by side if one of them couldn't be compared."""
        from llama_index_rag_metrics.evaluation.results.results_report import results_report
        from llama_index_rag_metrics.report.html import write_page

        if self.comparison is not None and len(self.comparison.names) == len(self.systems):
            self.comparison.to_html(html)
        else:
            write_page(results_report(self.systems, decision=self.decision), html)

    def show(self, **options: Any) -> None:
        """Print them; `options` are those of `print_results`."""
        from llama_index_rag_metrics.evaluation.results.results_report import print_results

        print_results(self.systems, decision=self.decision, **options)
