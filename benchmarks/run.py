"""Every benchmark of speed, in one run: `python benchmarks/run.py` (needs the extra `dev`).

Those of `compare()` run on their own: benchmarks/README.md.
"""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

from evaluation import evaluation_table
from imports import imports_table
from matching import matching_table
from peers import PACKAGES, SHAPES, peers_tables
from rich.console import Console
from scoring import compute_table


def main() -> None:
    console = Console(width=100)
    console.print(", ".join(f"{name} {version(name)}" for name in PACKAGES))
    console.print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n"
    )
    for table in (
        *peers_tables(SHAPES),
        compute_table(),
        imports_table(),
        evaluation_table(),
        matching_table(),
    ):
        console.print(table, "")


if __name__ == "__main__":
    main()
