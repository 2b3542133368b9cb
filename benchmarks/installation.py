"""What an installation takes of a disk: `python benchmarks/installation.py`; needs the network."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent


def installed(what: str) -> tuple[int, float, float]:
    """Of an installation in a new environment: packages, megabytes (10⁶ bytes) and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        begun = time.perf_counter()
        install = ["-m", "pip", "install", "-q", "--no-compile", what]
        subprocess.run([python, *install], check=True, cwd=ROOT)
        seconds = time.perf_counter() - begun
        packages = next(Path(folder).glob("lib/*/site-packages"))
        files = [path.stat().st_size for path in packages.rglob("*") if path.is_file()]
        return len(list(packages.glob("*.dist-info"))) - 1, sum(files) / 1e6, seconds


def main() -> None:
    table = Table(title=f"Python {sys.version.split()[0]}", title_justify="left")
    for heading in ("", "packages", "MB", "seconds"):
        table.add_column(heading)
    for what in ("llama-index-core<0.15", ".", ".[demo]", ".[all]", ".[test]"):
        packages, size, seconds = installed(what)
        table.add_row(what.replace("[", "\\["), str(packages), f"{size:.0f}", f"{seconds:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
