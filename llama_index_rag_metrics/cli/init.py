"""`rag-metrics init`: a folder with an evaluation that runs, for what one has."""

from __future__ import annotations

import shlex
import shutil
from importlib.resources import as_file, files
from pathlib import Path

import typer

from llama_index_rag_metrics.cli.commands import app, command
from llama_index_rag_metrics.cli.outcome import tell
from llama_index_rag_metrics.runtime.errors import InvalidInput

KINDS = {
    "index": ("an index, a retriever or a function", "ndcg@10"),
    "documents": ("documents, and no questions yet", "mrr@10"),
}
"""What a user has, and the metric that the rules of its gate are about."""


@command(app, "init", needs_llama_index=False)
def run_init(kind: str | None = None, folder: Path = Path("eval")) -> None:
    """Make a folder with an evaluation that runs, to fill with your own.

    It has a script, a dataset, a test for pytest, a workflow for GitHub, and a README that says
    what to edit. All of it runs at once, without a key and without network.

    Args:
        kind (KIND): What you have: index or documents. Without it, each is explained.
        folder: The folder to make. Files that are there already are never overwritten.

    Examples:
        rag-metrics init index
        rag-metrics init documents quality
    """
    if kind is None:
        for name, (meaning, _) in KINDS.items():
            typer.echo(f"  {name:<10} {meaning}", err=True)
        sentence = "KIND is missing: say which of these you have."
        raise InvalidInput("kind", kind, sentence=sentence)
    if kind not in KINDS:
        raise InvalidInput("kind", kind, f"one of {', '.join(KINDS)}")
    with as_file(files(__package__) / "starters") as starters:
        sources = {
            folder / path.relative_to(starters / part).with_suffix(""): path
            for part in ("any", kind)
            for path in sorted((starters / part).rglob("*.txt"))
        }
        if there := [str(path.relative_to(folder)) for path in sources if path.exists()]:
            remedy = "Nothing was written. Name another folder: `rag-metrics init KIND FOLDER`."
            raise InvalidInput("folder", str(folder), f"a folder without {there[0]}", remedy)
        for path, source in sources.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
    gate = folder / "test_retrieval.py"
    gate.write_text(gate.read_text("utf-8").replace("METRIC", KINDS[kind][1]), encoding="utf-8")
    first = "python ask.py && " if kind == "documents" else ""
    tell(
        f"{folder} has {len(sources)} files. Next:\n\n"
        f"    cd {shlex.quote(str(folder))} && {first}python evaluate.py\n\n"
        "README.md there says what to put your own in.",
        [str(path) for path in sources],
    )
