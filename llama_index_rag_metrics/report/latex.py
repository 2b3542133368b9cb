"""The main tables of a report for LaTeX, with the package booktabs.

For names in Chinese, Japanese or Korean, XeLaTeX or LuaLaTeX is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from llama_index_rag_metrics.report.escape import latex as escape
from llama_index_rag_metrics.report.model import Cell, Report, Table, Tone
from llama_index_rag_metrics.report.numbers import shown

_STRONG: tuple[Tone, ...] = ("best", "alarm")


def to_latex(report: Report) -> str:
    """The main tables; what stands out is bold."""
    return "\n".join(map(tabular, report.tables("summary")))


def tabular(table: Table) -> str:
    rows = [[escape(row.label), *map(_cell, row.cells)] for row in table.rows]
    sides = "l" * (1 + table.text_columns) + "r" * (len(table.head) - table.text_columns)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            _ampersands([escape(name) for name in (table.first, *table.head)]),
            r"\midrule",
            *map(_ampersands, rows),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _cell(cell: Cell) -> str:
    text = escape(shown(cell, interval=False))
    return rf"\textbf{{{text}}}" if cell.tone in _STRONG else text


def _ampersands(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
