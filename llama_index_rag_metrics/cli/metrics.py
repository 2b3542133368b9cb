"""`rag-metrics metrics`."""

from __future__ import annotations

from typing import Annotated

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import exit_codes


def list_metrics(
    name: Annotated[
        str | None, options.argument("NAME", "A metric, by any of its names: prints all about it.")
    ] = None,
) -> None:
    """List every metric: its names, range, definition and parameters."""
    with exit_codes(command=list_metrics):
        from llama_index_rag_metrics.aliases import ALIASES
        from llama_index_rag_metrics.cli.metric_listing import print_catalogue, print_entry
        from llama_index_rag_metrics.metric_names import METRICS, metric

        if name is None:
            print_catalogue(METRICS.values())
            return
        known = ALIASES.get(name, name)
        print_entry(METRICS[known] if known in METRICS else METRICS[metric(name).name])
