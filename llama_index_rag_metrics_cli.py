"""The command `rag-metrics`: it starts without LlamaIndex, so that help and completion are quick.

The package's own import brings LlamaIndex along. So this lies outside the package and leaves that
import out; a command makes up for it before it begins.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec

PACKAGE = "llama_index_rag_metrics"


def main() -> None:
    """Run the command line."""
    spec = find_spec(PACKAGE)
    if spec is not None:
        sys.modules.setdefault(PACKAGE, module_from_spec(spec))
    from llama_index_rag_metrics.cli import main as run

    try:
        run()
    finally:
        if not hasattr(sys.modules[PACKAGE], "__all__"):  # for whoever imports the package later
            for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
                del sys.modules[name]
