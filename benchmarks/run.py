"""Every benchmark of speed, in one run: `python benchmarks/run.py` (needs the extra `dev`).

python benchmarks/run.py           # shows the tables
python benchmarks/run.py --write   # and writes them into README.md and docs/scale.md
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from cohere_rerank import cohere_rows
from evaluation import evaluation_rows
from imports import imports_rows
from measure import Row, console_table, markdown_table
from peers import PACKAGES, peers_rows
from rich.console import Console
from scoring import compute_rows
from stored_file import stored_file_rows

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("", "against", "times as long as this package, median (range)")
COSTS = ("this package", "against", "times as long as that, median (range)")


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between the two markers of a page.

    Raises:
        ValueError: the page hasn't both markers.
    """
    marked = re.compile(f"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.S)
    old = page.read_text(encoding="utf-8")
    if not marked.search(old):
        raise ValueError(f"{page.name} has no <!-- {name} --> and <!-- /{name} -->")
    page.write_text(marked.sub(lambda mark: f"{mark[1]}{text}{mark[2]}", old), encoding="utf-8")


def measured(
    console: Console, headings: Sequence[str], parts: Sequence[Callable[[], list[Row]]]
) -> list[Row]:
    """The rows of all parts, each shown as soon as it is measured."""
    rows = []
    for part in parts:
        part_rows = part()
        console.print(console_table(headings[-1], part_rows), "")
        rows += part_rows
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    write = parser.parse_args().write
    console = Console(width=140)
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    console.print(f"{machine}\n{versions}\n")
    peers = measured(console, PEERS, (peers_rows, stored_file_rows, cohere_rows))
    costs = measured(console, COSTS, (evaluation_rows, compute_rows, imports_rows))
    if write:
        made = f"{machine}; {versions}."
        tables = (markdown_table(PEERS, peers), markdown_table(COSTS, costs))
        write_between(ROOT / "docs" / "scale.md", "speed", "\n\n".join((*tables, made)))
        scored = [row for row in peers if row.task.startswith("score_")]
        write_between(ROOT / "README.md", "speed", markdown_table(PEERS, scored[:3]))


if __name__ == "__main__":
    main()
