"""Parts of a report in HTML that hold for every report: statements, tables, folds, figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.drawing import without_prefix
from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.escape import render
from llama_index_rag_metrics.report.figure import CAPTIONS, Figure
from llama_index_rag_metrics.report.numbers import interval_of, shown
from llama_index_rag_metrics.report.svg import on_page

# what the three numbers of a tally are called, and what a click on each of them filters by
_TALLY = ("better", "same", "worse")


def statement(sentence: m.Statement) -> str:
    """A sentence; the label that it may begin with becomes a badge, its command can be copied."""
    text, badge = sentence.text, ""
    if sentence.label:
        text = text.removeprefix(f"{sentence.label}: ")
        badge = f'<b class="badge {sentence.tone}">{escape(sentence.label)}</b> '
    look = "" if sentence.label else f" {sentence.tone}"
    command = f"<pre>{escape(sentence.command)}</pre>" if sentence.command else ""
    return f'<p class="verdict{look}">{badge}{escape(text)}</p>{command}'


def table(numbers: m.Table, parts: Sequence[Sequence[m.Row]], systems: Sequence[str] = ()) -> str:
    """A table; in rows of `systems` the counts of better and worse questions filter these."""
    sides = ["l" if n < numbers.text_columns else "" for n in range(len(numbers.head))]
    heads = "".join(map(_heading, (numbers.first, *numbers.head), ("l", *sides)))
    positions = {name: number for number, name in enumerate(without_prefix(systems)[1])}
    positions |= {name: number for number, name in enumerate(systems)}
    bodies = []
    for part in parts:
        rows = [_row(row, sides, positions.get(row.label, 0)) for row in part]
        bodies.append(f"<tbody>{''.join(rows)}")
    label = escape(numbers.title or "Numbers")
    look = " class=sortable" if numbers.sortable else ""
    return (
        f'<div class=wide tabindex=0 role=group aria-label="Table: {label}"><table{look}>'
        f"<thead><tr>{heads}{''.join(bodies)}</table></div>"
    )


def _heading(name: str, side: str) -> str:
    look = f" class={side}" if side else ""
    return f"<th scope=col{look}>{escape(name)}" if name else f"<td{look}>"


def _row(row: m.Row, sides: Sequence[str], system: int) -> str:
    cells = "".join(_cell(cell, side, system) for cell, side in zip(row.cells, sides, strict=True))
    return f"<tr><th scope=row class=l>{escape(row.label)}{cells}"


def _cell(cell: m.Cell, side: str, system: int) -> str:
    look = " ".join(filter(None, ("" if cell.tone == "normal" else cell.tone, side)))
    attributes = f' class="{look}"' if look else ""
    if isinstance(cell.value, (int, float)):
        attributes += f" data-sort={cell.value!r}"
    if cell.form == "tally" and isinstance(cell.value, tuple) and system:
        return f"<td{attributes}>{_tally(cell.value, system)}"
    interval = interval_of(cell).strip()
    small = f" <small>{escape(interval)}</small>" if interval else ""
    return f"<td{attributes}>{escape(shown(cell, interval=False))}{small}"


def _tally(counts: Sequence[float], system: int) -> str:
    links = []
    for count, name in zip(counts, _TALLY, strict=True):
        links.append(
            f'<a href="#rag-questions" class={name} data-show="{name} {system}" '
            f'title="show them">{count:,}</a>'
        )
    return " / ".join(links)


def figure(kind: str, drawn: Figure | None, metric: str = "") -> str:
    """A drawing with its caption; "" where there is nothing to draw."""
    if drawn is None:
        return ""
    caption = CAPTIONS[kind]
    title = f"{caption}: {metric}" if metric else caption
    drawing = render(on_page(drawn, title))
    return f"<figure><figcaption>{escape(title)}</figcaption>{drawing}</figure>"


def fold(title: str, *inner: str) -> str:
    """Something that unfolds; "" where there is nothing in it."""
    inside = "".join(inner)
    return f"<details><summary>{escape(title)}</summary>{inside}</details>" if inside else ""


def bullets(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    terms = "".join(f"<dt>{escape(name)}<dd>{escape(meaning)}" for name, meaning in pairs)
    return f"<dl>{terms}</dl>" if terms else ""


def sentence(text: str, look: str = "quiet") -> str:
    return f"<p class={look}>{escape(text)}</p>" if text else ""


def attributes_of(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items() if value)
