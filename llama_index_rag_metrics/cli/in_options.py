"""Errors in the words of the command line: its options, where a program has arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_args

from typer.models import ArgumentInfo, OptionInfo

from llama_index_rag_metrics.errors import InvalidInput, RagMetricsError

_CALLED = {
    "index_or_nodes": ("corpus", "new_nodes"),
    "judgements": ("qrels", "output"),
    "metrics": ("metric",),
    "path": ("output",),
}
"""Arguments that a command's function calls otherwise."""

_WORDS = {
    ": use evaluate().": ", which `rag-metrics evaluate` has.",
    "use evaluate(), or match_run() on a stored run, whose relevance and run score_rankings() "
    "takes.": "`rag-metrics score --matcher` and `rag-metrics evaluate --matcher` have it.",
    "Pass llm=..., or set Settings.llm.": "Set Settings.llm in the module of --retriever.",
    "Pass embed_model=..., or set Settings.embed_model.": "Set Settings.embed_model in the module "
    "of --retriever.",
    "pass api_key=..., or set ": "set ",
    "Give Ranking(ids, spans=...).": "Give RUN as JSON lines with retrieved_spans.",
    "Give Ranking(ids, tokens=...) or texts,": "Give RUN as JSON lines with retrieved_texts,",
    "Give them as forbidden={query id: ids}, or in a column forbidden_ids.": "Give RUN with a "
    "column forbidden_ids.",
    ", or columns={field: your column} to say what it is called here": "",
}
"""What programs are told to do, and what the command line is."""

_COLUMNS = ", or --columns FIELD=COLUMN to say what it is called here"


def in_options(error: RagMetricsError, command: Callable[..., Any] | None) -> str:
    """What an error says to the user of a command.

    Args:
        error: the error.
        command: the function of the command, whose annotations name its options.
    """
    options = dict(_options(command)) if command is not None else {}
    text = str(error)
    if isinstance(error, InvalidInput):
        argument, space, rest = error.argument.partition(" ")
        known = (name for name in (argument, *_CALLED.get(argument, ())) if name in options)
        if name := next(known, None):
            text = f"{options[name]}{space}{rest}{text.removeprefix(error.argument)}"
    for words, instead in _WORDS.items():
        is_columns = "columns=" in words and "columns" in options
        text = text.replace(words, _COLUMNS if is_columns else instead)
    return text


def _options(command: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """The parameters of a command's function, and what the command line calls each."""
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        for info in get_args(parameter.annotation):
            if isinstance(info, OptionInfo):
                # as an annotation, an option's first name stands where its default would
                flags = [flag for flag in (info.default, *(info.param_decls or ())) if flag]
                yield name, next((flag for flag in flags if flag.startswith("--")), flags[0])
            elif isinstance(info, ArgumentInfo):
                yield name, info.metavar or name.upper()
