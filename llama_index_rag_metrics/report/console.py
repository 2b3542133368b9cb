"""Results and comparisons in the terminal, as wide as it is, with and without colour."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llama_index_rag_metrics.comparison import Comparison
from llama_index_rag_metrics.comparison.verdict import counted
from llama_index_rag_metrics.dataset import RetrievalDataset
from llama_index_rag_metrics.evaluation import StageChange, StageResults
from llama_index_rag_metrics.report.compared import (
    Table as Compared,
)
from llama_index_rag_metrics.report.compared import (
    count_table,
    difference_tables,
    hole_tables,
    remarks_of,
    settings_of,
    slice_tables,
    title_of,
    tukey_table,
    verdicts,
)
from llama_index_rag_metrics.report.staged import stage_rows, stage_systems
from llama_index_rag_metrics.report.summary import (
    Cell,
    Question,
    Reported,
    Row,
    System,
    Tone,
    failures,
    hardest,
    headline,
    metric_rows,
    plain,
    query_rows,
    remarks,
    sections,
    slice_rows,
    systems_of,
)
from llama_index_rag_metrics.report.trimmed import Trimmed

_STYLES: dict[Tone, str] = {
    "normal": "",
    "best": "bold green",
    "quiet": "dim",
    "alarm": "bold red",
}
_MARK = "* "
_MARGIN, _GAP, _DIVIDER = 1, 3, 1
_LONGEST_LABEL, _LONGEST_NAME = 28, 16
_MOST_FAILURES = 10


def print_results(
    reported: Reported | Sequence[Reported],
    *,
    metric: str | None = None,
    worst: int = 5,
    slice_by: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print a comparison: means, counts, latency, slices, the hardest queries, and what went wrong.

    Args:
        reported: the results of one or several retrievers, or their scores.
        metric: the metric of the slices and of the hardest queries; None takes ndcg where there is
            one, else the first.
        worst: how many of the hardest queries to show.
        slice_by: keys of the queries' metadata.
        console: where to; None is standard output.

    Raises:
        InvalidInput: no query has a key of `slice_by`.
        UnknownMetric: the metric wasn't computed.
    """
    out = console or Console(highlight=False)
    systems = systems_of(reported)
    shown = metric or headline(systems)
    tables = {"": sections(systems)}
    for key in slice_by:
        tables[f"{shown} by {plain(key)}"] = [slice_rows(systems, key, shown)]
    names = [one.name for one in systems]
    pages = _tables(tables, names, out.width, "(scored queries)")
    for part in (*pages, *_lists(systems, shown, worst)):
        out.print(Trimmed(part))


def print_queries(
    reported: Reported | Sequence[Reported], *, console: Console | None = None
) -> None:
    """Print every query's scores: the metrics of one retriever side by side, or the retrievers."""
    out = console or Console(highlight=False)
    systems = systems_of(reported)
    metrics = list(dict.fromkeys(metric for one in systems for metric in one.scores))
    if len(systems) == 1:
        tables, names = (
            {"By query": [metric_rows(systems[0].scores)]},
            [plain(one) for one in metrics],
        )
    else:
        tables = {f"{plain(one)} by query": [query_rows(systems, one)] for one in metrics}
        names = [one.name for one in systems]
    for part in _tables(tables, names, out.width):
        out.print(Trimmed(part))


def print_comparison(comparison: Comparison, *, console: Console | None = None) -> None:
    """Print a comparison: the verdict, differences with intervals and tests, slices and notes.

    Args:
        comparison: what `compare` made.
        console: where to; None is standard output.
    """
    out = console or Console(highlight=False)
    n = len(comparison.query_ids)
    title = Text.assemble((title_of(comparison), "bold"), f"  {counted(n)}")
    out.print(Trimmed(_indented(title)))
    for tone, sentence in verdicts(comparison):
        out.print(Trimmed(_indented(Text(sentence, _STYLES[tone]))))
    pairs = tukey_table(comparison)
    for table in (
        *difference_tables(comparison),
        count_table(comparison),
        *slice_tables(comparison),
        *([] if pairs is None else [pairs]),
        *hole_tables(comparison),
    ):
        out.print(Trimmed(_heading(table.title)))
        out.print(Trimmed(_indented(_compared(table, out.width - _MARGIN))))
    out.print(Trimmed(_indented(Text(settings_of(comparison), "dim"))))
    out.print(Trimmed(_heading("Notes")))
    for note in remarks_of(comparison):
        out.print(Trimmed(_indented(_remark(note))))


def comparison_text(comparison: Comparison, *, width: int = 100) -> str:
    """What `print_comparison` prints, as plain text."""
    page = io.StringIO()
    out = Console(file=page, width=width, color_system=None, highlight=False)
    print_comparison(comparison, console=out)
    return page.getvalue().rstrip("\n")


def print_stages(stages: StageResults, *, console: Console | None = None) -> None:
    """Print what every stage reaches, gains, loses and takes, and what was lost.

    Args:
        stages: what `evaluate_stages` made.
        console: where to; None is standard output.
    """
    out = console or Console(highlight=False)
    systems = stage_systems(stages)
    tables = {"": [*sections(systems), *stage_rows(stages)]}
    for part in _tables(tables, [one.name for one in systems], out.width):
        out.print(Trimmed(part))
    for stage in stages:
        if lost := stages.lost(stage):
            out.print(Trimmed(_heading(f"Lost by {plain(stage)}: {len(lost)}")))
            out.print(Trimmed(_indented(_lost(lost, stages[stage].scores.queries))))


def stages_text(stages: StageResults, *, width: int = 100) -> str:
    """What `print_stages` prints, as plain text."""
    page = io.StringIO()
    print_stages(
        stages, console=Console(file=page, width=width, color_system=None, highlight=False)
    )
    return page.getvalue().rstrip("\n")


def _lost(lost: Sequence[StageChange], queries: Mapping[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(max_width=12, style="dim", overflow="ellipsis", no_wrap=True)
    grid.add_column(ratio=1)
    for one in lost[:_MOST_FAILURES]:
        grid.add_row(Text(plain(one.query_id)), _line(plain(queries.get(one.query_id, ""))))
        grid.add_row("", _line(plain(str(one)), "red"))
    if (more := len(lost) - _MOST_FAILURES) > 0:
        grid.add_row("", Text(f"and {more} more", "dim"))
    return grid


def print_dataset(dataset: RetrievalDataset, *, console: Console | None = None) -> None:
    """Print what a dataset holds, and what deserves a look before scores are believed."""
    out = console or Console(highlight=False)
    sizes = f"{len(dataset):,} queries · {len(dataset.corpus):,} passages"
    out.print(Trimmed(_indented(Text.assemble((plain(dataset.name), "bold"), f"  {sizes}"))))
    for warning in dataset.check():
        out.print(Trimmed(_indented(_remark(warning))))
    out.print()


def print_text(text: str, *, console: Console | None = None) -> None:
    """Print a paragraph, set in as the rest, and a blank line."""
    out = console or Console(highlight=False)
    out.print(Trimmed(_indented(Text(text))))
    out.print()


def to_text(reported: Reported | Sequence[Reported], *, width: int = 100) -> str:
    """The summary as plain text: means, counts, latency, failures and notes."""
    page = io.StringIO()
    out = Console(file=page, width=width, color_system=None, highlight=False)
    print_results(reported, worst=0, console=out)
    return page.getvalue().rstrip("\n")


def _tables(
    tables: dict[str, list[list[Row]]], names: Sequence[str], width: int, remark: str = ""
) -> Iterator[RenderableType]:
    """The tables with columns of one width, split where they don't fit side by side.

    Args:
        tables: heading to the rows, in parts; the cells of a row go with the names.
        names: what stands above the columns.
        width: of the page.
        remark: what stands beside the headings.
    """
    rows = [row for parts in tables.values() for part in parts for row in part]
    label = min(_LONGEST_LABEL, max(cell_len(row.label) for row in rows))
    column = max(
        min(_LONGEST_NAME, max(map(cell_len, names))),
        *(cell_len(_MARK + cell.text) for row in rows for cell in row.cells),
    )
    at_once = max(1, (width - _MARGIN - label) // (_GAP + column + _DIVIDER))
    for heading, parts in tables.items():
        if heading:
            yield _heading(heading, remark)
        for start in range(0, len(names), at_once):
            if start:
                yield Text()
            some = slice(start, start + at_once)
            table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
            table.add_column(width=label, overflow="fold")
            for name in names[some]:
                table.add_column(Text(name, overflow="fold"), width=column + _GAP, justify="right")
            for part in parts:
                for row in part:
                    table.add_row(Text(row.label), *map(_cell, row.cells[some]))
                table.add_section()
            yield _indented(table)
        cells = [cell for part in parts for row in part for cell in row.cells]
        if not heading and any(cell.tone == "best" for cell in cells):
            yield _indented(Text(f"{_MARK}highest of its row", "dim"))


def _compared(compared: Compared, width: int) -> RenderableType:
    """As many of the columns as fit, the last ones being the first to go, and what they are."""
    columns = [
        max(*(cell_len(row.cells[at].text) for row in compared.rows), _longest_word(head))
        for at, head in enumerate(compared.head)
    ]
    labels = [compared.first, *(row.label for row in compared.rows)]
    label = min(_LONGEST_LABEL, max(map(cell_len, labels)))
    while len(columns) > 1 and label + sum(columns) + (2 + _DIVIDER) * len(columns) > width:
        columns.pop()
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column(Text(compared.first), width=label, overflow="fold")
    for head, column in zip(compared.head, columns, strict=False):
        table.add_column(Text(head), width=column + 2, justify="right", overflow="fold")
    for row in compared.rows:
        cells = [Text(one.text, _STYLES[one.tone]) for one in row.cells[: len(columns)]]
        table.add_row(Text(row.label), *cells)
    left_out = ", ".join(filter(None, compared.head[len(columns) :]))
    return Group(table, Text(f"too narrow for: {left_out}", "dim")) if left_out else table


def _longest_word(head: str) -> int:
    return min(_LONGEST_NAME, max(map(cell_len, head.split()), default=0))


def _cell(cell: Cell) -> Text:
    mark = _MARK if cell.tone == "best" else ""
    return Text(mark + cell.text, _STYLES[cell.tone])


def _lists(systems: Sequence[System], metric: str, worst: int) -> Iterator[RenderableType]:
    if questions := hardest(systems, metric, worst):
        average = "on average; " if len(systems) > 1 else ""
        yield _heading(f"Lowest {metric}", f"{average}what came first [its grade]")
        yield _indented(_questions(questions))
    if failed := failures(systems):
        yield _heading(f"Failed: {len(failed)}")
        yield _indented(_failures(failed))
    if notes := remarks(systems):
        yield _heading("Notes")
        for note in notes:
            yield _indented(_remark(note))


def _questions(questions: Sequence[Question]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(max_width=12, style="dim", overflow="ellipsis", no_wrap=True)
    grid.add_column(ratio=1)
    for question in questions:
        grid.add_row(Text(question.query_id), _line(question.text, "bold"))
        grid.add_row("", _answers(question))
    return grid


def _answers(question: Question) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(max_width=_LONGEST_NAME, overflow="ellipsis", no_wrap=True)
    grid.add_column()
    grid.add_column(ratio=1)
    for answer in question.answers:
        grid.add_row(Text(answer.system), _cell(answer.score), _line(answer.first))
    if question.wanted:
        grid.add_row(Text("wanted", "dim"), "", _line(question.wanted, "dim"))
    return grid


def _failures(failed: Sequence[tuple[str, str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(max_width=_LONGEST_NAME, overflow="ellipsis", no_wrap=True)
    grid.add_column(max_width=12, style="dim", overflow="ellipsis", no_wrap=True)
    grid.add_column(ratio=1)
    for system, query_id, error in failed[:_MOST_FAILURES]:
        grid.add_row(Text(system), Text(query_id), Text(error, "red"))
    if (more := len(failed) - _MOST_FAILURES) > 0:
        grid.add_row("", "", Text(f"and {more} more", "dim"))
    return grid


def _remark(text: str) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text("!", "bold yellow"), Text(text))
    return grid


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, overflow="ellipsis", no_wrap=True)


def _heading(text: str, remark: str = "") -> Text:
    return Text.assemble((f"\n{text}", "bold"), (f"  {remark}" if remark else "", "dim"))


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, _MARGIN))
