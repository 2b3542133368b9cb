"""A toy of a new output format, in one file: reports as reStructuredText."""

from collections.abc import Iterator

from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Listing, Report, Table
from llama_index_rag_metrics.report.numbers import shown


def to_rst(report: Report) -> str:
    """The decision, the tables, queries worth a look, what failed, remarks."""
    title = plain(report.title)
    blocks = [f"{title}\n{'=' * len(title)}"]
    blocks += [plain(statement.text) for statement in report.decision]
    blocks += [_list_table(table) for table in report.tables]
    blocks += [block for listing in report.listings for block in _listed(listing)]
    blocks += [f"* {plain(failure.text)}" for failure in report.failures]
    blocks += [f"* {plain(note)}" for note in report.notes]
    return "\n\n".join(blocks) + "\n"


def _list_table(table: Table) -> str:
    lines = [f".. list-table:: {plain(table.title)}".rstrip(), "   :header-rows: 1", ""]
    rows = [[table.label_head, *table.head]]
    rows += [[row.label, *map(shown, row.cells)] for row in table.rows]
    for row in rows:
        lines += [
            f"   {'* -' if number == 0 else '  -'} {plain(cell)}" for number, cell in enumerate(row)
        ]
    return "\n".join(lines)


def _listed(listing: Listing) -> Iterator[str]:
    yield plain(listing.title)
    for query in listing.queries:
        lines = [f"expected {line}" for line in query.wanted]
        for answer in query.answers:
            came = ", ".join(map(str, (answer.retrieved or ())[: listing.n_items]))
            lines.append(f"{plain(answer.system)} {shown(answer.score)} {came}")
        lines += map(plain, query.remarks)
        yield "\n".join(
            [
                f"* {plain(query.query_id)} {plain(query.text)}",
                "",
                *(f"  * {line}" for line in lines),
            ]
        )
