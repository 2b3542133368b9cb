"""A comparison for others: Markdown for a pull request, LaTeX for a paper, CSV for a sheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from llama_index_rag_metrics.comparison import Comparison, Difference
from llama_index_rag_metrics.jsonable import jsonable
from llama_index_rag_metrics.report.compared import (
    Table,
    count_table,
    difference_tables,
    remarks_of,
    settings_of,
    slice_tables,
    title_of,
    tukey_table,
    verdicts,
)
from llama_index_rag_metrics.report.summary import Tone, plain

_STRONG: tuple[Tone, ...] = ("best", "alarm")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~$@&])")
_LATEX: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": r"$-$",
    "–": "--",
    **{one: f"\\{one}" for one in "&%$#_{}"},
}


def to_markdown(comparison: Comparison) -> str:
    """The verdict, the differences, counts, slices and notes, as GitHub shows them.

    What comes from data is escaped: it can hold no link, no mention and no HTML.
    """
    pairs = tukey_table(comparison)
    tables = [
        *difference_tables(comparison),
        count_table(comparison),
        *slice_tables(comparison),
        *([] if pairs is None else [pairs]),
    ]
    parts = [
        f"### {_markdown(title_of(comparison))}",
        *(_markdown(sentence) for _, sentence in verdicts(comparison)),
        *(part for one in tables for part in (f"**{_markdown(one.title)}**", _pipes(one))),
        _markdown(settings_of(comparison)),
        "\n".join(f"- {_markdown(note)}" for note in remarks_of(comparison)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def to_latex(comparison: Comparison) -> str:
    """The differences as tables for LaTeX with booktabs; significant ones are bold.

    Needs the package booktabs; for names in Chinese, Japanese or Korean, XeLaTeX or LuaLaTeX.
    """
    return "\n".join(_tabular(one) for one in difference_tables(comparison))


def to_csv(comparison: Comparison, path: str | Path | None = None) -> str:
    """One row a difference, numbers in full; with slices, a column `slice`, empty for all queries.

    Args:
        comparison: what `compare` made.
        path: a file to write as well, in UTF-8.
    """
    names = [one.name for one in fields(Difference)]
    page = io.StringIO()
    writer = csv.DictWriter(page, ["slice", *names] if comparison.slices else names)
    writer.writeheader()
    for value, part in [("", comparison), *comparison.slices.items()]:
        for one in part:
            sliced = {"slice": value} if comparison.slices else {}
            writer.writerow({**sliced, **jsonable(asdict(one), "comparison")})
    text = page.getvalue()
    if path is not None:
        Path(path).write_text(text, encoding="utf-8", newline="")
    return text


def _pipes(table: Table) -> str:
    lines = [
        [table.first, *table.head],
        [":--", *["--:"] * len(table.head)],
        *(
            [_markdown(row.label), *(_emphasised(cell.text, cell.tone) for cell in row.cells)]
            for row in table.rows
        ),
    ]
    lines[0] = [_markdown(one) for one in lines[0]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _emphasised(text: str, look: Tone) -> str:
    return f"**{_markdown(text)}**" if look in _STRONG else _markdown(text)


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))


def _tabular(table: Table) -> str:
    head = [_latex(one) for one in (table.first, *table.head)]
    rows = [
        [_latex(row.label), *(_bold(_latex(cell.text), cell.tone) for cell in row.cells)]
        for row in table.rows
    ]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * len(table.head)}}}",
            r"\toprule",
            _ampersands(head),
            r"\midrule",
            *map(_ampersands, rows),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _bold(text: str, look: Tone) -> str:
    return rf"\textbf{{{text}}}" if look in _STRONG else text


def _ampersands(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(one, one) for one in plain(text))
