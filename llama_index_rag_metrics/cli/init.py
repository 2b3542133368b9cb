"""`rag-metrics init`: a folder with an evaluation that runs, for what one has."""

from __future__ import annotations

import shlex
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

from llama_index_rag_metrics.runtime.errors import InvalidInput

from . import options
from .commands import app, command, tell

_METRICS = {"index": "ndcg@10", "documents": "mrr@10"}  # what the rules of the gate are about
_KINDS = "What you have: index (or a retriever, or a function), or documents, and no questions yet."
_FOLDER = "The folder to make. Files that are there already are never overwritten."


@command(app, "init", "rag-metrics init documents quality")
def run_init(
    kind: Annotated[str, options.argument("index|documents", _KINDS)],
    name: Annotated[str, options.argument("FOLDER", _FOLDER)] = "eval",
) -> None:
    """Make a folder with an evaluation that runs, to fill with your own.

    It has a script, a dataset, a test for pytest, a workflow for GitHub, and a README that says
    what to edit. All of it runs at once, without a key and without network.
    """
    if kind not in _METRICS:
        raise InvalidInput("KIND", kind, f"one of {', '.join(_METRICS)}")
    if not name:
        raise InvalidInput("FOLDER", name, "the name of a folder")
    folder = Path(name)
    with as_file(files(__package__) / "starters") as starters:
        sources = {}
        for part in ("any", kind):
            for path in sorted((starters / part).rglob("*.txt")):
                sources[folder / path.relative_to(starters / part).with_suffix("")] = path
        there = [str(path.relative_to(folder)) for path in sources if path.exists()]
        if there:
            remedy = "Nothing was written. Name another folder: `rag-metrics init KIND FOLDER`."
            raise InvalidInput("FOLDER", str(folder), f"a folder without {there[0]}", remedy)
        for path, source in sources.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
    gate = folder / "test_retrieval.py"
    gate.write_text(gate.read_text("utf-8").replace("METRIC", _METRICS[kind]), encoding="utf-8")
    beforehand = "python ask.py && " if kind == "documents" else ""
    tell(
        f"{folder} has {len(sources)} files. Next:\n\n"
        f"    cd {shlex.quote(str(folder))} && {beforehand}python evaluate.py\n\n"
        "README.md there says what to put your own in."
    )
