"""The report of one system, or of several compared with the first, which loads no LlamaIndex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llama_index_rag_metrics.decisions.comparison.comparison import compare
from llama_index_rag_metrics.evaluation.evaluation_results import results_report
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.stories.results_report import SLICES

if TYPE_CHECKING:
    from llama_index_rag_metrics import EvaluationResults, Scores


def report_of(
    systems: Mapping[str, EvaluationResults | Scores],
    *,
    worst: int = 0,
    slice_by: Sequence[str] = (),
) -> Report:
    """Return the report of one retriever, or of several compared with the first.

    Raises:
        InvalidInput: several have other questions.
    """
    alone = results_report(systems, worst=worst, slice_by=slice_by)
    if len(systems) == 1:
        return alone
    compared = compare(systems, next(iter(systems))).report(full=True)
    slices = [section for section in alone.sections if slice_by and section.heading == SLICES]
    return replace(compared, listings=alone.listings, sections=[*compared.sections, *slices])
