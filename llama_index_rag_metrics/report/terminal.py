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
    "quiet": "dim",
    "alarm": "bold red",
    "open": "yellow",
}
_MARGIN, _DIVIDER = 1, 1
_LABEL_WIDTH, _NAME_WIDTH, _ID_WIDTH = 28, 16, 12
# gaps between columns and widths of their heads, tried until all columns stand side by side
_TIGHTER = ((2, 99), (2, 18), (2, 12), (1, 12), (2, 18))
_LEAST_WIDTH = 40
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
    for section in report.sections:
        for table in section.tables:
            if table.title and table.place != "page":
                yield _heading(table.title, table.remark)
            if table.place != "page":
                yield from _table(table, width)
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
        title.append(plain(shown(outcome)), _STYLES[outcome.tone])
    return title.append(f"  {report.lead}" if report.lead else "", "not bold")


def _table(table: m.Table, width: int) -> Iterator[RenderableType]:
    """The table; columns that don't fit beside the labels follow below, with the labels again."""
    heads = list(map(plain, table.head))
    texts = [[plain(shown(cell)) for cell in row.cells] for row in table.rows]
    labels = [plain(row.label) for row in table.rows]
    label = min(max(_LABEL_WIDTH, width // 3), _widest([plain(table.first), *labels]))
    room = width - _MARGIN - label
    widest = [_widest(row[number] for row in texts) for number in range(len(heads))]
    gap, widths = _fitting(heads, widest, room)
    for number, block in enumerate(_blocks(widths, gap, room)):
        if number:
            yield Text()
        grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 0, 0, gap), pad_edge=False, show_edge=False)
        grid.show_header = any((table.first, *heads))
        grid.add_column(Text(_folded(plain(table.first), label)), width=label, overflow="fold")
        for column in block:
            side: JustifyMethod = "left" if column < table.text_columns else "right"
            head = Text(_folded(heads[column], widths[column]))
            grid.add_column(head, width=widths[column], justify=side, overflow="fold")
        for row, words in zip(table.rows, texts, strict=True):
            cells = [Text(words[n], _STYLES[row.cells[n].tone]) for n in block]
            grid.add_row(Text(_folded(plain(row.label), label)), *cells)
        yield _indented(grid)


def _fitting(heads: Sequence[str], widest: Sequence[int], room: int) -> tuple[int, list[int]]:
    """The gap and the widths of columns: with heads as whole as lets all stand side by side."""
    for gap, most in _TIGHTER:
        widths = []
        for head, cell in zip(heads, widest, strict=True):
            needed = max(cell, min(most, cell_len(head)))
            widths.append(max(1, min(needed, room - gap - _DIVIDER)))
        if sum(widths) + (gap + _DIVIDER) * len(widths) <= room:
            return gap, widths
    return gap, widths


def _blocks(widths: Sequence[int], gap: int, room: int) -> list[list[int]]:
    """The columns that fit beside each other."""
    blocks: list[list[int]] = []
    left = 0
    for column, width in enumerate(widths):
        needed = width + gap + _DIVIDER
        if not blocks or needed > left:
            blocks.append([])
            left = room
        blocks[-1].append(column)
        left -= needed
    return blocks or [[]]


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


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
        head = (
            Text(plain(answer.system)),
            Text(plain(shown(answer.score)), _STYLES[answer.score.tone]),
        )
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
    grid.add_row(Text("!", "bold yellow"), Text(plain(text), overflow="fold"))
    return grid


def _heading(text: str, remark: str = "") -> Text:
    return Text.assemble((f"\n{plain(text)}", "bold"), (f"  {remark}" if remark else "", "dim"))


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, _MARGIN))
