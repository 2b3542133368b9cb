"""Reports in the terminal, as wide as it is, with and without colour."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report import query_lines
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.excerpts import cut_line, passage_line
from llama_index_rag_metrics.report.failures import failure_lines, failures_title
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.report.wording import why_lines

_STYLES: dict[m.Tone, str] = {
    "normal": "",
    "best": "bold green",
    "leading": "bold",
    "quiet": "dim",
    "alarm": "bold red",
    "open": "yellow",
}
_MARK = "* "
_MARGIN, _DIVIDER = 1, 1
_GAP_BY_SYSTEM, _GAP = 3, 2
_LABEL_WIDTH, _NAME_WIDTH, _ID_WIDTH = 28, 16, 12
_LEAST_WIDTH = 40
_SHORT_NAME = 8
_BREAK = re.compile(r"(?<=\s)(?=\S)|(?<=[^\W_][-_/])(?=[^\W_])")


class _OneLine:
    """A text that is cut at the right edge, between words."""

    def __init__(self, text: str, style: str = "") -> None:
        self.text, self.style = text, style

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, max(1, min(cell_len(self.text), options.max_width)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = self.text
        if cell_len(line) > options.max_width:
            whole = chop_cells(line, max(1, options.max_width))[0]
            line = cut_line(line, len(whole))
            if cell_len(line) > options.max_width:  # the sign of what is left out
                line = f"{line[:-2]}…"
        yield Text(line, self.style, overflow="crop", no_wrap=True)


class Trimmed:
    """Another renderable without rich's trailing blanks: files read like terminals."""

    def __init__(self, part: RenderableType) -> None:
        self.part = part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self.part, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
            yield from line
            yield Segment.line()


def print_report(report: m.Report, *, console: Console | None = None) -> None:
    """Print a report; without a console, to standard output."""
    out = console or Console(highlight=False)
    for part in _parts(report, out.width, on_request=True):
        out.print(Trimmed(part))


def to_text(report: m.Report, *, width: int | None = None) -> str:
    """The report as plain text, without what is shown on request; as wide as the terminal."""
    if width is None:
        width = max(shutil.get_terminal_size((100, 0)).columns, _LEAST_WIDTH)
    page = io.StringIO()
    out = Console(
        file=page,
        width=max(width, 1),
        color_system=None,
        highlight=False,
        force_jupyter=False,  # where rich sees a notebook, it would display what it is to write
    )
    for part in _parts(report, out.width, on_request=False):
        out.print(Trimmed(part))
    return page.getvalue().rstrip("\n")


def print_text(text: str | Text, *remarks: str) -> None:
    """Print a text, remarks and an empty line to standard output."""
    out = Console(highlight=False)
    out.print(Trimmed(_indented(Text.assemble(text))))
    for remark in remarks:
        out.print(Trimmed(_indented(_remark(remark))))
    out.print()


def print_heading(title: str, lead: str, notes: Sequence[str] = ()) -> None:
    print_text(Text.assemble((plain(title), "bold"), f"  {lead}"), *notes)


def _parts(report: m.Report, width: int, *, on_request: bool) -> Iterator[RenderableType]:
    if report.decision:
        yield _indented(_title(report))
    for statement in report.decision:
        yield _indented(Text(plain(statement.text), _STYLES[statement.tone]))
        if statement.command:
            yield _indented(Text(f"  {plain(statement.command)}", "bold"))
    tables = report.tables("summary", "detail")
    widths = _widths([table for table in tables if table.by_system and table.rows], width)
    for section in report.sections:
        for table in section.tables:
            if table.title and table.place != "page":
                yield _heading(table.title, table.remark)
            if table.place != "page":
                yield from _split(table, *widths) if table.by_system else _cut_off(table, width)
        if section.text:
            yield _indented(Text(plain(section.text), "dim"))
    for listing in report.listings:
        if on_request or not listing.on_request:
            yield _heading(listing.title, listing.remark)
            above = Text(plain(listing.lead)), Text(listing.legend, "dim")
            yield _indented(Group(*filter(None, above), _listed(listing)))
    if report.failures:
        yield _heading(failures_title(report.failures))
        yield _indented(_failures(report.failures))
    if report.notes:
        yield _heading("Notes")
        yield from map(_indented, map(_remark, report.notes))


def _title(report: m.Report) -> Text:
    title = Text(plain(report.title), "bold")
    if (outcome := report.outcome) is not None:
        title.append(": ")
        title.append(_text(outcome), _STYLES[outcome.tone])
    return title.append(f"  {report.lead}" if report.lead else "", "not bold")


def _widths(tables: Sequence[m.Table], width: int) -> tuple[int, int, int]:
    """For all tables of systems: widths of labels and columns, and how many columns a line has."""
    if not tables:
        return 0, 0, 1
    rows = [row for table in tables for row in table.rows]
    labels = [row.label for row in rows] + [table.first for table in tables if table.system_rows]
    label = min(max(_LABEL_WIDTH, width // 3), _widest(map(plain, labels)))
    head = _widest(plain(head) for table in tables for head in table.head)
    cell = _widest(_MARK + _text(cell) for row in rows for cell in row.cells)
    column = max(min(_NAME_WIDTH, head), cell)
    abreast = max(1, (width - _MARGIN - label) // (_GAP_BY_SYSTEM + column + _DIVIDER))
    return label, column, abreast


def _split(table: m.Table, label: int, column: int, abreast: int) -> Iterator[RenderableType]:
    """The table in as many pieces as it takes, and what the mark of the best means."""
    for start in range(0, len(table.head), abreast):
        if start:
            yield Text()
        chosen = slice(start, start + abreast)
        grid = _labelled_grid(label, _GAP_BY_SYSTEM, table.first if table.system_rows else "")
        for name in table.head[chosen]:
            head = Text(_folded(plain(name), column), overflow="fold")
            grid.add_column(head, width=column, justify="right")
        for part in table.parts:
            for row in part:
                first = Text(_folded(plain(row.label), label))
                grid.add_row(first, *map(_marked, row.cells[chosen]))
            grid.add_section()
        yield _indented(grid)
    if not table.title and any(cell.tone == "leading" for row in table.rows for cell in row.cells):
        line = "column" if table.system_rows else "row"
        yield _indented(Text(f"{_MARK}best mean of its {line}, perhaps by chance", "dim"))


def _cut_off(table: m.Table, width: int) -> Iterator[RenderableType]:
    """As many of the columns as fit beside labels of two lines, and which ones are left out."""
    width -= _MARGIN
    heads = list(map(plain, table.head))
    labels = [plain(table.first), *(plain(row.label) for row in table.rows)]
    columns = []
    for number, head in enumerate(heads):
        widest = _widest(_text(row.cells[number]) for row in table.rows)
        columns.append(max(min(_NAME_WIDTH, _in_two_lines(head)), widest))
    label = min(_LABEL_WIDTH, max(map(_in_two_lines, labels)))
    while len(columns) > 1 and label + _total(columns) > width:
        columns.pop()
    if label + _total(columns) > width:
        label = min(label, _widest(word.rstrip() for text in labels for word in _words(text)))
        columns = [min(columns[0], max(1, width - label - _total([0])))]
    if _widest(labels) + _total(columns) <= width:
        label = _widest(labels)
    for number, head in enumerate(heads[: len(columns)]):
        room = width - label - _total(columns)
        if 0 < cell_len(head) - columns[number] <= room:
            columns[number] = cell_len(head)
    grid = _labelled_grid(label, _GAP, table.first)
    grid.show_header = any((table.first, *table.head))
    for number, (head, column) in enumerate(zip(heads, columns, strict=False)):
        side: JustifyMethod = "left" if number < table.text_columns else "right"
        grid.add_column(Text(_folded(head, column)), width=column, justify=side, overflow="fold")
    for row in table.rows:
        cells = [Text(_text(cell), _STYLES[cell.tone]) for cell in row.cells[: len(columns)]]
        grid.add_row(Text(_folded(plain(row.label), label)), *cells)
    left_out = ", ".join(filter(None, heads[len(columns) :]))
    yield _indented(grid)
    if left_out:
        yield _indented(Text(f"too narrow for: {left_out}", "dim"))


def _labelled_grid(label: int, gap: int, head: str) -> Grid:
    """A table with a column of labels."""
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 0, 0, gap), pad_edge=False, show_edge=False)
    grid.add_column(Text(_folded(plain(head), label)), width=label, overflow="fold")
    return grid


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _total(columns: Sequence[int]) -> int:
    return sum(columns) + (_GAP + _DIVIDER) * len(columns)


def _in_two_lines(text: str) -> int:
    """The least width that holds a text in two lines, its words whole; short names stay in one."""
    if cell_len(text) <= _SHORT_NAME and " " not in text:
        return cell_len(text)
    words = _words(text)
    pairs = (("".join(words[:n]), "".join(words[n:])) for n in range(1, len(words) + 1))
    return min((_widest(line.rstrip() for line in pair) for pair in pairs), default=0)


def _words(text: str) -> list[str]:
    """The parts of a text between which a line may break: after blanks, and signs within names."""
    return _BREAK.split(text)


def _folded(text: str, width: int) -> str:
    """The text in lines of a width, its words whole where they fit.

    >>> _folded("openai-3-large-chunk960-rerank7", 16).splitlines()
    ['openai-3-large-', 'chunk960-rerank7']
    """
    lines = [""]
    for word in _words(text):
        if lines[-1] and cell_len(f"{lines[-1]}{word}".rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def _text(cell: m.Cell) -> str:
    return plain(shown(cell, interval=False))


def _marked(cell: m.Cell) -> Text:
    mark = _MARK if cell.tone == "leading" else ""
    return Text(mark + _text(cell), _STYLES[cell.tone])


def _listed(listing: m.Listing) -> Grid:
    grid = _borderless_grid(_ID_WIDTH, dim=0)
    for query in listing.queries:
        grid.add_row(Text(plain(query.query_id)), _OneLine(plain(query.text), "bold"))
        for line in why_lines(query):
            grid.add_row("", Text(line, "yellow"))
        if query.answers or query.wanted:
            answers = _borderless_grid(_NAME_WIDTH, None)
            for part in query_lines.in_order(query, _add_relevant, _add_came):
                part(answers, query, listing.most)
            grid.add_row("", answers)
        for remark in query.remarks:
            grid.add_row("", Text(plain(remark), "red"))
    if listing.more_in_words:
        grid.add_row("", Text(listing.more_in_words, "dim"))
    return grid


def _add_came(grid: Grid, query: m.QueryAnswers, most: int) -> None:
    names = query_lines.short_ids_of(query)
    for answer in query.answers:
        head = (Text(plain(answer.system)), _marked(answer.score))
        for line in query_lines.came_lines(query, answer, most, names) or [query_lines.Line("")]:
            grid.add_row(*head, _OneLine(line.text, "green" if line.is_hit else ""))
            head = (Text(), Text())


def _add_relevant(grid: Grid, query: m.QueryAnswers, most: int) -> None:
    label = Text("relevant", "dim")
    for wanted in query_lines.wanted_lines(query):
        where = Text(wanted.where, "red" if wanted.is_missed else "dim")
        if text := passage_line(wanted.passage):
            # the text is cut at the right edge; where it was lost is shown in full
            grid.add_row(label, "", _OneLine(f"{wanted.name}  {text}"))
            label = Text()
        else:
            where = Text.assemble(f"{wanted.name}{': ' if where else ''}", where)
        if where:
            grid.add_row(label, "", where)
        label = Text()
    if more := query_lines.more_wanted(query):
        grid.add_row("", "", Text(more, "dim"))


def _failures(failures: Sequence[m.Failure]) -> Grid:
    grid = _borderless_grid(_NAME_WIDTH)
    for system, text in failure_lines(failures):
        grid.add_row(Text(system), Text(text, "red"))
    return grid


def _borderless_grid(*widths: int | None, dim: int = -1) -> Grid:
    """Columns of at most these widths, the one numbered `dim` dim, and one with the rest."""
    grid = Grid.grid(padding=(0, 2, 0, 0), expand=True)
    for number, width in enumerate(widths):
        style, is_cut = "dim" if number == dim else None, width is not None
        grid.add_column(max_width=width, style=style, overflow="ellipsis", no_wrap=is_cut)
    grid.add_column(ratio=1)
    return grid


def _remark(text: str) -> Grid:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text("!", "bold yellow"), Text(plain(text)))
    return grid


def _heading(text: str, remark: str = "") -> Text:
    return Text.assemble((f"\n{plain(text)}", "bold"), (f"  {remark}" if remark else "", "dim"))


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, _MARGIN))
