"""`rag-metrics metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Annotated

from pydantic.fields import FieldInfo
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import exit_codes
from llama_index_rag_metrics.metrics.metric_names import ALIASES, MetricEntry
from llama_index_rag_metrics.report.terminal import Trimmed

_CUTOFFS = {"k": "@k", "tokens": "@Ntokens"}
"""Parameters that are written behind the name."""


def print_catalogue(entries: Iterable[MetricEntry], *, console: Console | None = None) -> None:
    """Print the metrics as a table: name, range, definition, parameters, other names."""
    out = console or Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("metric", no_wrap=True)
    table.add_column("range", no_wrap=True)
    table.add_column("definition", overflow="fold")
    for entry in entries:
        table.add_row(Text(entry.name, "bold"), _range(entry), entry.definition)
        table.add_row("", "", Text("\n".join(_facts(entry)), "dim"))
    out.print(Trimmed(Padding.indent(table, 1)))
    out.print(Text("\n name, name@k, name(parameter=value), name(parameter=value)@k", "dim"))


def print_entry(entry: MetricEntry, *, console: Console | None = None) -> None:
    """Print everything about one metric."""
    out = console or Console(highlight=False)
    title = Text.assemble((entry.name, "bold"), f"  {_range(entry)}  ", *_variant_of(entry))
    parts: list[Text | Table] = [title, Text(), Text(_description(entry))]
    if entry.parameters:
        grid = Table("name", "default", "", box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name, field in _parameters(entry):
            grid.add_row(name, _default(field), Text(field.description or ""))
        parts += [Text("\nParameters", "bold"), grid]
    if aliases := _aliases(entry):
        parts += [Text("\nAlso called", "bold"), Text(", ".join(aliases))]
    for part in parts:
        out.print(Trimmed(Padding.indent(part, 1)))


def _range(entry: MetricEntry) -> str:
    low, high = entry.metric_class.bounds
    return f"{low:g} to {high:g}".replace("inf", "∞")


def _facts(entry: MetricEntry) -> Iterator[str]:
    if variant := _variant_of(entry):
        yield variant[0]
    yield ", ".join(
        _CUTOFFS.get(name, f"{name}={_default(field)}") for name, field in _parameters(entry)
    )
    if aliases := _aliases(entry):
        yield f"also called {', '.join(aliases)}"


def _variant_of(entry: MetricEntry) -> list[str]:
    if not entry.preset:
        return []
    preset = ", ".join(f"{name}={_value(value)}" for name, value in entry.preset.items())
    return [f"= {entry.metric_class.name}({preset})"]


def _parameters(entry: MetricEntry) -> list[tuple[str, FieldInfo]]:
    return sorted(entry.parameters.items(), key=lambda pair: pair[0] not in _CUTOFFS)


def _default(field: FieldInfo) -> str:
    return "…" if field.is_required() else _value(field.default)


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _aliases(entry: MetricEntry) -> list[str]:
    name = entry.name
    return [alias for alias, target in ALIASES.items() if target == name]


def _description(entry: MetricEntry) -> str:
    text = cleandoc(entry.metric_class.__doc__ or "")
    for section in ("Args:", "Raises:", "Examples:"):
        text = text.partition(f"\n\n{section}")[0]
    return "\n\n".join(part.replace("\n", " ") for part in text.split("\n\n"))


def list_metrics(
    name: Annotated[
        str | None, options.argument("NAME", "A metric, by any of its names: prints all about it.")
    ] = None,
) -> None:
    """List every metric: its names, range, definition and parameters."""
    with exit_codes(command=list_metrics):
        from llama_index_rag_metrics.metrics.metric_names import ALIASES, METRICS, metric

        if name is None:
            print_catalogue(METRICS.values())
            return
        known = ALIASES.get(name, name)
        print_entry(METRICS[known] if known in METRICS else METRICS[metric(name).name])
