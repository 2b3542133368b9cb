"""Results and comparisons in a notebook, in the colours of its page, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from llama_index_rag_metrics.comparison import Comparison
from llama_index_rag_metrics.evaluation import StageResults
from llama_index_rag_metrics.markup import cell, table
from llama_index_rag_metrics.report.compared import (
    Table,
    count_table,
    difference_tables,
    hole_tables,
    mean_remarks,
    mean_table,
    remarks_of,
    settings_of,
    slice_tables,
    title_of,
    tukey_table,
    verdicts,
)
from llama_index_rag_metrics.report.staged import stage_rows, stage_systems
from llama_index_rag_metrics.report.summary import (
    Question,
    Reported,
    Row,
    Tone,
    failures,
    hardest,
    headline,
    remarks,
    sections,
    systems_of,
)

_STYLES: dict[Tone, str] = {
    "normal": "",
    "best": "font-weight:bold",
    "quiet": "opacity:.55",
    "alarm": "font-weight:bold;color:#d9534f",
}
_WORST = 5
_MOST_FAILURES = 20


def scores_html(reported: Reported | Sequence[Reported]) -> str:
    """The summary as a table, with the hardest queries and the failed ones folded below it.

    Everything that comes from data is escaped.

    Args:
        reported: the results of one or several retrievers, or their scores.
    """
    systems = systems_of(reported)
    metric = headline(systems)
    worst = [_question(one) for one in hardest(systems, metric, _WORST)]
    failed = [
        f"<li>{escape(name)}, <code>{escape(query_id)}</code>: {escape(error)}</li>"
        for name, query_id, error in failures(systems)
    ]
    return "".join(
        [
            "<div>",
            _table([one.name for one in systems], sections(systems)),
            _list([f"<li>{escape(note)}</li>" for note in remarks(systems)]),
            _folded(f"Lowest {metric}", worst),
            _folded(f"Failed: {len(failed)}", failed[:_MOST_FAILURES]),
            "</div>",
        ]
    )


def comparison_html(comparison: Comparison) -> str:
    """The verdict and the differences, with means, slices and notes folded below them.

    Everything that comes from data is escaped.
    """
    pairs = tukey_table(comparison)
    more = [
        mean_table(comparison),
        count_table(comparison),
        *slice_tables(comparison),
        *([] if pairs is None else [pairs]),
        *hole_tables(comparison),
    ]
    said = [
        f'<p style="{_STYLES[tone]}">{escape(sentence)}</p>'
        for tone, sentence in verdicts(comparison)
    ]
    notes = [*remarks_of(comparison), *(f"mean {one}" for one in mean_remarks(comparison))]
    return "".join(
        [
            f"<div><p><b>{escape(title_of(comparison))}</b></p>",
            *said,
            *map(_compared, difference_tables(comparison)),
            f'<p style="opacity:.7">{escape(settings_of(comparison))}</p>',
            *(_folded_html(one.title, _compared(one)) for one in more),
            _folded("Notes", [f"<li>{escape(note)}</li>" for note in notes]),
            "</div>",
        ]
    )


def stages_html(stages: StageResults) -> str:
    """What every stage reaches, gains, loses and takes; what was lost is folded below it.

    Everything that comes from data is escaped.
    """
    systems = stage_systems(stages)
    lost = [
        _folded(
            f"Lost by {stage}: {len(of)}",
            [f"<li><code>{escape(one.query_id)}</code> {escape(str(one))}</li>" for one in of],
        )
        for stage in stages
        if (of := stages.lost(stage)[:_MOST_FAILURES])
    ]
    rows = [*sections(systems), *stage_rows(stages)]
    return f"<div>{_table([one.name for one in systems], rows)}{''.join(lost)}</div>"


def _compared(compared: Table) -> str:
    head = [cell(one, "font-weight:bold", tag="th") for one in compared.head]
    first = cell(compared.first, "font-weight:bold", tag="th", align="left")
    return table([first, *head], map(_row, compared.rows))


def _table(names: Sequence[str], parts: Sequence[Sequence[Row]]) -> str:
    head = [cell(name, "font-weight:bold", tag="th") for name in names]
    return table(["<th></th>", *head], *(map(_row, part) for part in parts))


def _row(row: Row) -> str:
    label = cell(row.label, "font-weight:normal", tag="th", align="left")
    return label + "".join(cell(one.text, _STYLES[one.tone]) for one in row.cells)


def _question(question: Question) -> str:
    answers = "".join(
        f"<li>{escape(one.system)} <b>{escape(one.score.text)}</b> {escape(_cut(one.first))}</li>"
        for one in question.answers
    )
    wanted = f"<li>wanted: {escape(question.wanted)}</li>" if question.wanted else ""
    title = f"<code>{escape(question.query_id)}</code> {escape(question.text)}"
    return f"<li>{title}<ul>{answers}{wanted}</ul></li>"


def _folded(title: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    return _folded_html(title, _list(items))


def _folded_html(title: str, inner: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inner}</details>"


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _cut(text: str, length: int = 120) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
