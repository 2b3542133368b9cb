"""What `import llama_index_rag_metrics` adds to `import llama_index.core`."""

from __future__ import annotations

import subprocess
import sys
import time

from rich.table import Table


def imports_table(rounds: int = 7) -> Table:
    """Whole fresh processes, taking turns; the fastest of each counts."""
    programs = {
        "llama_index.core": "import llama_index.core",
        "llama_index.core.evaluation": "import llama_index.core.evaluation",
        "with llama_index_rag_metrics": "import llama_index.core, llama_index_rag_metrics",
    }
    seconds = dict.fromkeys(programs, float("inf"))
    for _ in range(rounds):
        for name, program in programs.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    table = Table(title="import, seconds of a whole process")
    for heading in ("", "seconds", "added"):
        table.add_column(heading, justify="left" if not heading else "right")
    base = seconds["llama_index.core"]
    for name, taken in seconds.items():
        table.add_row(name, f"{taken:.3f}", f"{taken - base:+.3f}")
    return table
