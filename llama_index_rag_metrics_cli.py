"""The command `rag-metrics`: it starts without LlamaIndex, so that help and completion are quick.

The package's own import brings LlamaIndex along. So this lies outside the package and leaves that
import to the command that runs.
"""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec, module_from_spec

PACKAGE = "llama_index_rag_metrics"


def main() -> None:
    """Run the command line."""
    gc.set_threshold(100_000)  # what is imported stays: to search it for cycles takes a tenth
    spec = find_spec(PACKAGE)
    if spec is not None and PACKAGE not in sys.modules:
        sys.modules[PACKAGE] = module_from_spec(spec)
    try:
        from llama_index_rag_metrics.cli import main as run

        run()
    except KeyboardInterrupt:  # while it starts; a command says itself what it kept
        sys.stderr.write("rag-metrics: interrupted: nothing was written\n")
        sys.exit(130)
