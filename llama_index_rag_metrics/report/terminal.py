"""Reports in the terminal, as wide as it is, with and without colour."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from .model import Listing, QueryAnswers, Report, ReportedAnswer, Table, Tone
from .numbers import shown
from .text import one_line, passage_line, short_ids

_STYLES: dict[Tone, str] = {
    "normal": "",
    "best": "bold green",
    "quiet": "dim",
    "alarm": "bold red",
    "open": "yellow",
}
_LABEL_WIDTH, _NAME_WIDTH, _ID_WIDTH = 28, 16, 20
_MARGIN, _DIVIDER, _LEAST_WIDTH = 1, 1, 40
# gaps between columns, and widths of their heads and of labels, tried until all stand side by side
_TIGHTER = (
    *((2, 99, 99), (2, 18, 99), (2, 12, 99), (1, 12, 99)),
    *((2, 18, 15), (1, 12, 15), (1, 8, 15), (0, 8, 15), (2, 18, 99)),
)
# a line may break after blanks, and signs within names
_BREAK = re.compile(r"(?<=\s)(?=\S)|(?<=[^\W_][-_/])(?=[^\W_])")


class Trimmed:
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


def print_report(report: Report, *, console: Console | None = None) -> None:
    out = console or Console(highlight=False)
    for part in _parts(report, out.width, on_request=True):
        out.print(Trimmed(part))


def to_text(report: Report, *, width: int | None = None) -> str:
    columns = width or max(shutil.get_terminal_size((100, 0)).columns, _LEAST_WIDTH)
    page = io.StringIO()
    # in a notebook, rich would display what it should return
    out = Console(file=page, width=columns, color_system=None, highlight=False, force_jupyter=False)
    for part in _parts(report, columns, on_request=False):
        out.print(Trimmed(part))
    return page.getvalue().rstrip("\n")


def print_text(text: str, *remarks: str) -> None:
    out = Console(highlight=False)
    out.print(Trimmed(_indented(Text(text))))
    for remark in remarks:
        out.print(Trimmed(_indented(_remark(remark))))
    out.print()


def _parts(report: Report, width: int, *, on_request: bool) -> Iterator[RenderableType]:
    if report.decision:
        yield _indented(_title(report))
    for statement in report.decision:
        yield _indented(Text(one_line(statement.text), _STYLES[statement.tone]))
    for table in report.tables:
        yield _heading(table.title) if table.title else Text()
        yield from _table(table, width)
        if table.text:
            yield _indented(Text(one_line(table.text), "dim"))
    for listing in report.listings:
        if on_request or not listing.on_request:
            yield _heading(listing.title)
            above = [Text(one_line(listing.lead)), Text(listing.legend, "dim")]
            yield _indented(Group(*filter(None, above), _listed(listing)))
        else:
            yield _indented(Text(f"\n{listing.on_request}", "dim"))
    if report.failures:
        yield _heading(report.failures_title)
        grid = _borderless_grid(_NAME_WIDTH)
        for failure in report.failures:
            grid.add_row(Text(one_line(failure.system)), Text(one_line(failure.text), "red"))
        yield _indented(grid)
    if report.notes:
        yield _heading("Notes")
        yield from map(_indented, map(_remark, report.notes))


def _title(report: Report) -> Text:
    title = Text(one_line(report.title), "bold")
    if report.outcome is not None:
        title.append(": ")
        title.append(one_line(shown(report.outcome)), _STYLES[report.outcome.tone])
    if report.lead:
        title.append(f"  {report.lead}", "not bold")
    return title


def _table(table: Table, width: int) -> Iterator[RenderableType]:
    label, *heads = map(one_line, (table.label_head, *table.head))
    labels, texts = [], []
    for row in table.rows:
        labels.append(one_line(row.label))
        texts.append([one_line(shown(cell)) for cell in row.cells])
    widest = min(max(_LABEL_WIDTH, width // 3), _widest([label, *labels]))
    for gap, head_width, longest_label in _TIGHTER:
        label_width = min(widest, longest_label)
        room = width - _MARGIN - label_width
        widths = _widths(heads, texts, head_width, max(1, room - gap - _DIVIDER))
        blocks = _blocks(widths, gap, room)
        if len(blocks) == 1:
            break
    for number, block in enumerate(blocks):
        if number:
            yield Text()
        grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 0, 0, gap), pad_edge=False, show_edge=False)
        grid.show_header = any((label, *heads))
        grid.add_column(_folded(label, label_width), width=label_width, overflow="fold")
        for column in block:
            grid.add_column(
                _folded(heads[column], widths[column]),
                width=widths[column],
                justify="left" if table.is_text(column) else "right",
                overflow="fold",
            )
        for row, name, words in zip(table.rows, labels, texts, strict=True):
            cells = [Text(words[column], _STYLES[row.cells[column].tone]) for column in block]
            grid.add_row(_folded(name, label_width), *cells)
        yield _indented(grid)


def _widths(
    heads: Sequence[str], texts: Sequence[Sequence[str]], head_width: int, limit: int
) -> list[int]:
    widths = []
    for head, *cells in zip(heads, *texts, strict=True):
        words = map(str.rstrip, _BREAK.split(head))
        line = min(head_width, cell_len(head))
        widths.append(min(limit, max(1, line, _widest([*words, *cells]))))
    return widths


def _blocks(widths: Sequence[int], gap: int, room: int) -> list[list[int]]:
    blocks: list[list[int]] = [[]]
    remaining = room
    for column, width in enumerate(widths):
        needed = width + gap + _DIVIDER
        if needed > remaining and blocks[-1]:
            blocks.append([])
            remaining = room
        blocks[-1].append(column)
        remaining -= needed
    return blocks


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _folded(text: str, width: int) -> Text:
    lines = [""]
    for word in _BREAK.split(text):
        if lines[-1] and cell_len(f"{lines[-1]}{word}".rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return Text("\n".join(map(str.rstrip, lines)))


def _listed(listing: Listing) -> Grid:
    grid = _borderless_grid(_ID_WIDTH)
    names = short_ids(map(attrgetter("query_id"), listing.queries))
    for query in listing.queries:
        scores = [shown(answer.score, interval=False) for answer in query.answers]
        head, why = one_line(query.text), query.why
        if not listing.n_items:
            head, why = f"{' → '.join(scores)}  {head}", ()
        name = Text(names[query.query_id], "dim", overflow="fold", no_wrap=False)
        grid.add_row(name, _cut(head, "bold"))
        for line in why:
            grid.add_row("", Text(line, "yellow"))
        answers = _borderless_grid(_NAME_WIDTH, None)
        _add_relevant(answers, query, listing.n_wanted)
        for answer in query.answers:
            if listing.n_items or answer.outcome:
                _add_answer(answers, answer, listing.n_items)
        if answers.row_count:
            grid.add_row("", answers)
        for remark in query.remarks:
            grid.add_row("", Text(one_line(remark), "red"))
    if listing.more_in_words:
        grid.add_row("", Text(listing.more_in_words, "dim"))
    return grid


def _add_answer(grid: Grid, answer: ReportedAnswer, most: int) -> None:
    lines = [Text(one_line(answer.outcome))] if answer.outcome else []
    for number, search in enumerate(answer.searches or (), 1):
        lines.append(_cut(f"search {number}: {search}"))
    for item in (answer.retrieved or ())[:most]:
        lines.append(_cut(str(item), "green" if item.is_hit else ""))
    score = Text(one_line(shown(answer.score)), _STYLES[answer.score.tone])
    head = [Text(one_line(answer.system)), score]
    for line in lines or [Text()]:
        grid.add_row(*head, line)
        head = [Text(), Text()]


def _add_relevant(grid: Grid, query: QueryAnswers, most: int) -> None:
    label = Text("relevant", "dim")
    for passage in query.wanted[:most]:
        outcome = Text(passage.where, "red" if passage.is_missed else "dim")
        if text := passage_line(passage.text):
            # the text is cut at the right edge; where it was lost is shown in full
            grid.add_row(label, "", _cut(f"{passage.name}  {text}"))
            label = Text()
        else:
            outcome = Text.assemble(passage.name, ": " if outcome else "", outcome)
        if outcome:
            grid.add_row(label, "", outcome)
        label = Text()
    if query.more_wanted(most):
        grid.add_row("", "", Text(query.more_wanted(most), "dim"))


def _cut(text: str, style: str = "") -> Text:
    return Text(text, style, overflow="ellipsis", no_wrap=True)


def _borderless_grid(*widths: int | None) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0), expand=True)
    for width in widths:
        grid.add_column(max_width=width, overflow="ellipsis", no_wrap=width is not None)
    grid.add_column(ratio=1)
    return grid


def _remark(text: str) -> Grid:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text("!", "bold yellow"), Text(one_line(text), overflow="fold"))
    return grid


def _heading(text: str) -> Text:
    return Text(f"\n{one_line(text)}", "bold")


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, _MARGIN))
