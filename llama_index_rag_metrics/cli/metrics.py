"""`rag-metrics metrics`: every metric, or all about one."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated

from . import options as o
from .commands import app, command, unbroken_pipe

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from rich.console import RenderableType

    from llama_index_rag_metrics.metrics.metric_names import MetricEntry

_CUTOFFS = {"k": "@k", "tokens": "@Ntokens"}  # parameters that are written behind the name
_FORMS = "name, name@k, name(parameter=value), name(parameter=value)@k"


@command(app, "metrics", "rag-metrics metrics ndcg")
def run_metrics(
    name: Annotated[str | None, o.argument("NAME", "A metric: prints all about it.")] = None,
) -> None:
    """List every metric: its names, range, definition and parameters."""
    from llama_index_rag_metrics.metrics.metric_names import ALIASES, METRICS, metric

    with unbroken_pipe():
        if name is None:
            _print_table([*METRICS.values()])
            return
        entry_name = ALIASES.get(name, name)
        _print_entry(METRICS[entry_name if entry_name in METRICS else metric(entry_name).name])


def _print_table(entries: list[MetricEntry]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("metric", no_wrap=True)
    table.add_column("range", no_wrap=True)
    table.add_column("definition", overflow="fold")
    for entry in entries:
        parameters = []
        for name, field in _parameters(entry):
            parameters.append(_CUTOFFS.get(name, f"{name}={_default(field)}"))
        lines = [*filter(None, [_variant(entry)]), ", ".join(parameters)]
        if _aliases(entry):
            lines.append(f"also called {_aliases(entry)}")
        table.add_row(Text(entry.name, "bold"), _range(entry), entry.definition)
        table.add_row("", "", Text("\n".join(lines), "dim"))
    _print(table)
    _print(Text(f"\n{_FORMS}", "dim"))


def _print_entry(entry: MetricEntry) -> None:
    from rich.table import Table
    from rich.text import Text

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
    if _aliases(entry):
        _print(Text("\nAlso called", "bold"))
        _print(Text(_aliases(entry)))


def _print(part: RenderableType) -> None:
    from rich.console import Console
    from rich.padding import Padding

    from llama_index_rag_metrics.report.terminal import Trimmed

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


def _aliases(entry: MetricEntry) -> str:
    from llama_index_rag_metrics.metrics.metric_names import ALIASES

    return ", ".join(alias for alias, name in ALIASES.items() if name == entry.name)
