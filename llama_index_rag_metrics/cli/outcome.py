"""What a command found, for other programs: the JSON of its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from llama_index_rag_metrics.runtime.atomic_files import is_stream, json_text, jsonable, write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.reportable import Reportable
    from llama_index_rag_metrics.scores import Scores

STDOUT = Path("-")
"""What is no name of a file."""

_asked: list[Path] = []
"""The file that the command writes its result to, if there is one."""


@contextmanager
def recorded(path: Path | None) -> Iterator[None]:
    """Write what is found within to the path."""
    _asked[:] = [] if path is None else [path]
    try:
        yield
    finally:
        _asked.clear()


def check_path(
    path: Path | None, values: Mapping[str, Any], names: Mapping[str, str], written: Sequence[str]
) -> None:
    """Refuse to write to a file that the command reads, or writes itself."""
    if path is None or is_stream(path):
        return
    for name, value in values.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, (str, Path)) and Path(each).resolve() == path.resolve():
                if name in written:
                    raise InvalidInput(names[name], str(each), "another file than that of --json")
                expected = "a file that the command doesn't read"
                raise InvalidInput("--json", str(path), expected)


def found(result: Callable[[], Any]) -> None:
    """Write what is unrounded, where somebody asked for it."""
    for path in _asked:
        write_text(path, f"{json_text(jsonable(result(), 'json', strict=False), indent=1)}\n")


def tell(sentence: str, result: Any = None) -> None:
    """Print a sentence that is all that a command says."""
    typer.echo(sentence)
    found(lambda: result)


def found_in(result: Reportable) -> None:
    """Write the JSON of a result."""
    found(lambda: json.loads(result.to_json()))


def found_scores(systems: Sequence[Scores]) -> None:
    """Write every question's scores, by system."""
    from llama_index_rag_metrics.scores.scores_export import to_json

    found(lambda: json.loads(to_json(systems)))
