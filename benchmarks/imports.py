"""What `import llama_index_rag_metrics` adds to `import llama_index.core`."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from measure import Row, rounds_of, times


def imports_rows(rounds: int = 7) -> list[Row]:
    """Whole fresh processes."""
    programs = {
        "llama_index.core": "import llama_index.core",
        "both": "import llama_index.core, llama_index_rag_metrics",
    }
    contestants = {
        name: partial(subprocess.run, [sys.executable, "-c", program], check=True)
        for name, program in programs.items()
    }
    taken = times(rounds_of(contestants, rounds), "both", "llama_index.core")
    return [Row("`import llama_index_rag_metrics`", "`import llama_index.core` alone", taken)]
