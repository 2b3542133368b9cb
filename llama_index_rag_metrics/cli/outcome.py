"""What a command found, for other programs: one shape of JSON for all commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from llama_index_rag_metrics.runtime.atomic_files import is_stream, json_text, jsonable, write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.reportable import Reportable
    from llama_index_rag_metrics.scores import Scores

FORMAT = "rag-metrics result, version 1"

STDOUT = Path("-")
"""As a path: the standard output, which then has nothing else."""

_found: dict[str, Any] = {}
"""What the command that runs has found; empty where nobody asked for it."""


@contextmanager
def recorded(command: str, path: Path | None) -> Iterator[None]:
    """Write what happens within to the path, whichever way it ends."""
    _found.clear()
    if path is None:
        yield
        return
    _found.update(format=FORMAT, command=command, exit_code=0, error=None, decision=[], result=None)
    try:
        with redirect_stdout(sys.stderr if path == STDOUT else sys.stdout):
            yield
    except typer.Exit as end:
        _found["exit_code"] = end.exit_code
        raise
    except BaseException as error:
        _found.update(exit_code=1, error=describe_error(error))
        raise
    finally:
        text = json_text(jsonable(_found, "json", strict=False), indent=1)
        if path == STDOUT:
            typer.echo(text)
        else:
            write_text(path, f"{text}\n")
        _found.clear()


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


def failed(error: str) -> None:
    """Record why the command ends."""
    if _found:
        _found["error"] = error


def found(sentences: Sequence[str], result: Callable[[], Any]) -> None:
    """Record the sentences that come first, and what is unrounded below them."""
    if _found:
        _found.update(decision=[*_found["decision"], *sentences], result=result())


def tell(sentence: str, result: Any = None) -> None:
    """Print and record a sentence that is all that a command says."""
    typer.echo(sentence)
    found([sentence], lambda: result)


def found_in(result: Reportable) -> None:
    """Record the decision and the numbers of a result."""
    if _found:
        decision = [statement.text for statement in result.report().decision]
        found(decision, lambda: json.loads(result.to_json()))


def found_scores(systems: Sequence[Scores]) -> None:
    """Record every question's scores, by system, and what is decided between the systems."""
    if _found:
        from llama_index_rag_metrics.decisions.side_by_side import decision_of
        from llama_index_rag_metrics.scores.scores_export import to_json

        found(decision_of(systems), lambda: json.loads(to_json(systems)))
