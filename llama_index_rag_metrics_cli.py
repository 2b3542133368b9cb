"""The command `rag-metrics`: its help and completion need no LlamaIndex.

Importing the package takes a second, since it registers its metrics with LlamaIndex. So `main`
makes its module without running it, and the command that runs calls `run_package` first.
"""

from __future__ import annotations

import sys
from importlib import reload
from importlib.util import find_spec, module_from_spec

PACKAGE = "llama_index_rag_metrics"


def main() -> None:
    """Run the command line."""
    spec = find_spec(PACKAGE)
    if spec is not None and PACKAGE not in sys.modules:
        sys.modules[PACKAGE] = module_from_spec(spec)
    try:
        from llama_index_rag_metrics.cli import main as run

        run()
    except KeyboardInterrupt:  # while it starts; a command says itself what it kept
        sys.stderr.write("rag-metrics: interrupted: nothing was written\n")
        sys.exit(130)


def run_package() -> None:
    """Run the package's module, where `main` only made it."""
    package = sys.modules[PACKAGE]
    if not hasattr(package, "__all__"):
        reload(package)
