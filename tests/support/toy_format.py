"""A toy of a new output format, in one file: reports as reStructuredText."""

from __future__ import annotations

from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Report, Table
from llama_index_rag_metrics.report.numbers import shown


def to_rst(report: Report) -> str:
    """The decision and the tables."""
    title = plain(report.title)
    blocks = [f"{title}\n{'=' * len(title)}"]
    blocks += [plain(statement.text) for statement in report.decision]
    blocks += [_list_table(table) for table in report.tables("summary", "detail")]
    blocks += [f"* {plain(note)}" for note in report.notes]
    return "\n\n".join(blocks) + "\n"


def _list_table(table: Table) -> str:
    lines = [f".. list-table:: {plain(table.title)}".rstrip(), "   :header-rows: 1", ""]
    rows = [[table.first, *table.head]]
    rows += [[row.label, *map(shown, row.cells)] for row in table.rows]
    for row in rows:
        lines += [
            f"   {'* -' if number == 0 else '  -'} {plain(cell)}" for number, cell in enumerate(row)
        ]
    return "\n".join(lines)
