"""`rag-metrics metrics`: every metric, or all about one."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated

from . import options
from .commands import app, command, unbroken_pipe

if TYPE_CHECKING:
    from llama_index_rag_metrics.metrics.metric_names import MetricEntry

_CUTOFFS = {"k": "@k", "tokens": "@Ntokens"}  # parameters that are written behind the name
_FORMS = "\n name, name@k, name(parameter=value), name(parameter=value)@k"


@command(app, "metrics", "rag-metrics metrics ndcg")
def run_metrics(
    name: Annotated[str | None, options.argument("NAME", "A metric: prints all about it.")] = None,
) -> None:
    """List every metric: its names, range, definition and parameters."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from llama_index_rag_metrics.metrics.metric_names import ALIASES, METRICS, metric
    from llama_index_rag_metrics.report.terminal import Trimmed

    entries = list(METRICS.values())
    if name is not None:
        entry_name = ALIASES.get(name, name)
        if entry_name not in METRICS:
            entry_name = metric(entry_name).name
        entries = [METRICS[entry_name]]
    table = Table("metric", "range", "definition", box=None, padding=(0, 2, 0, 1))
    for entry in entries:
        low, high = entry.metric_class.bounds
        bounds = f"{low:g} to {high:g}".replace("inf", "∞")
        table.add_row(Text(entry.name, "bold"), bounds, entry.definition)
        table.add_row("", "", Text(_facts(entry), "dim"))
    with unbroken_pipe():
        console = Console(highlight=False)
        console.print(Trimmed(table))
        console.print(Text(_FORMS if name is None else _description(entries[0])))


def _facts(entry: MetricEntry) -> str:
    from llama_index_rag_metrics.metrics.metric_names import ALIASES

    lines = []
    if entry.preset:
        preset = ", ".join(f"{name}={_value(value)}" for name, value in entry.preset.items())
        lines.append(f"= {entry.metric_class.name}({preset})")
    parameters = []
    for name, field in entry.parameters.items():
        default = "…" if field.is_required() else _value(field.default)
        parameters.append(_CUTOFFS.get(name, f"{name}={default}"))
    lines.append(", ".join(parameters))
    aliases = [alias for alias, name in ALIASES.items() if name == entry.name]
    if aliases:
        lines.append(f"also called {', '.join(aliases)}")
    return "\n".join(filter(None, lines))


def _description(entry: MetricEntry) -> str:
    description = cleandoc(entry.metric_class.__doc__ or "")
    for section in ("Args:", "Raises:", "Examples:"):
        description = description.partition(f"\n\n{section}")[0]
    paragraphs = [part.replace("\n", " ") for part in description.split("\n\n")]
    for name, field in entry.parameters.items():
        if field.description:
            paragraphs.append(f"{_CUTOFFS.get(name, name)}: {field.description}")
    return "\n" + "\n\n".join(paragraphs)


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
