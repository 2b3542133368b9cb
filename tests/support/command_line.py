"""The command line in this process, and what it says when it refuses."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from llama_index_rag_metrics.cli import app


def run(*arguments: str) -> Result:
    """Call a command; an exception that isn't an exit comes out as it is."""
    ended = CliRunner().invoke(app, [*arguments])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return ended


def refusal(result: Result) -> str:
    """The one line that a refused command says: exit code 2, and nothing printed."""
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("rag-metrics: ")
    return line.removeprefix("rag-metrics: ")


def tables_of(result: Result) -> list[str]:
    """The lines of what was printed, from the head of the first table on: no sentence above it."""
    above, rule, below = result.stdout.partition(" ───")
    return [*above.splitlines()[-1:], *f"{rule}{below}".splitlines()]
