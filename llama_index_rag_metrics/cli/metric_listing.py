"""The metrics as `rag-metrics metrics` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import cleandoc
from math import isfinite

from pydantic.fields import FieldInfo
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llama_index_rag_metrics.metrics.metric_names import ALIASES, MetricEntry
from llama_index_rag_metrics.report.terminal import Trimmed

_CUTOFFS = {"k": "@k", "tokens": "@Ntokens"}
"""Parameters that are written behind the name."""


def print_table(entries: Iterable[MetricEntry]) -> None:
    """Print the metrics as a table: name, range, definition, parameters, other names."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("metric", no_wrap=True)
    table.add_column("range", no_wrap=True)
    table.add_column("definition", overflow="fold")
    for entry in entries:
        parameters = [
            _CUTOFFS.get(name, f"{name}={_default(field)}") for name, field in _parameters(entry)
        ]
        variant, aliases = _variant(entry), _aliases(entry)
        lines = [variant] if variant else []
        lines.append(", ".join(parameters))
        if aliases:
            lines.append(f"also called {', '.join(aliases)}")
        table.add_row(Text(entry.name, "bold"), _range(entry), entry.definition)
        table.add_row("", "", Text("\n".join(lines), "dim"))
    _print(table)
    console = Console(highlight=False)
    console.print(Text("\n name, name@k, name(parameter=value), name(parameter=value)@k", "dim"))


def record(entry: MetricEntry) -> dict[str, object]:
    """What is known of a metric, as JSON holds it; null is no bound, and no default."""
    low, high = entry.metric_class.bounds
    return {
        "name": entry.name,
        "also_called": _aliases(entry),
        "low": low if isfinite(low) else None,
        "high": high if isfinite(high) else None,
        "definition": entry.definition,
        "parameters": {
            name: None if field.is_required() else str(field.default)
            for name, field in _parameters(entry)
        },
    }


def print_entry(entry: MetricEntry) -> None:
    """Print everything about one metric."""
    _print(Text.assemble((entry.name, "bold"), f"  {_range(entry)}  ", _variant(entry)))
    description = cleandoc(entry.metric_class.__doc__ or "")
    for section in ("Args:", "Raises:", "Examples:"):
        description = description.partition(f"\n\n{section}")[0]
    paragraphs = [part.replace("\n", " ") for part in description.split("\n\n")]
    _print(Text("\n" + "\n\n".join(paragraphs)))
    if entry.parameters:
        grid = Table("name", "default", "", box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name, field in _parameters(entry):
            grid.add_row(name, _default(field), Text(field.description or ""))
        _print(Text("\nParameters", "bold"))
        _print(grid)
    if aliases := _aliases(entry):
        _print(Text("\nAlso called", "bold"))
        _print(Text(", ".join(aliases)))


def _print(part: RenderableType) -> None:
    Console(highlight=False).print(Trimmed(Padding.indent(part, 1)))


def _range(entry: MetricEntry) -> str:
    low, high = entry.metric_class.bounds
    return f"{low:g} to {high:g}".replace("inf", "∞")


def _variant(entry: MetricEntry) -> str:
    preset = ", ".join(f"{name}={_value(value)}" for name, value in entry.preset.items())
    return f"= {entry.metric_class.name}({preset})" if preset else ""


def _parameters(entry: MetricEntry) -> list[tuple[str, FieldInfo]]:
    return sorted(entry.parameters.items(), key=lambda pair: pair[0] not in _CUTOFFS)


def _default(field: FieldInfo) -> str:
    return "…" if field.is_required() else _value(field.default)


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _aliases(entry: MetricEntry) -> list[str]:
    return [alias for alias, target in ALIASES.items() if target == entry.name]
