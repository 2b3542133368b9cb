"""The command line in this process, and what it says when it refuses."""

import re

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


def columns_of(text: str) -> dict[str, list[str]]:
    """The columns of the tables that were printed, by their heads; means without intervals."""
    lines = text.splitlines()
    columns: dict[str, list[str]] = {}
    for number, line in enumerate(lines):
        if {*line.strip()} != {"─"}:
            continue
        heads = re.split(r" {2,}", lines[number - 1].strip())
        for row in lines[number + 1 :]:
            cells = re.split(r" {2,}", row.strip())
            if len(cells) != len(heads):
                break
            for head, cell in zip(heads, cells, strict=True):
                columns.setdefault(head, []).append(cell.partition(" (")[0])
    return columns
