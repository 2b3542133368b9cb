"""File formats that users add: the endings of each, and how its files are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from llama_index_rag_metrics.files.file_kinds import ENDINGS
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownFormat
from llama_index_rag_metrics.runtime.open_table import OpenTable

Loader: TypeAlias = Callable[[Path], Any]
"""From a file to its content, in any form that can be read from memory."""


@dataclass(frozen=True)
class RegisteredFormat:
    """How the files of a format are loaded; None for what the format doesn't hold."""

    run: Loader | None = None
    qrels: Loader | None = None
    dataset: Loader | None = None

    def load(self, path: Path, what: str) -> Any:
        """The content of a file in memory.

        Raises:
            UnknownFormat: the format holds something else.
        """
        loader: Loader | None = getattr(self, what)
        if loader is None:
            held = [name for name, loader in vars(self).items() if loader is not None]
            raise UnknownFormat(str(path), f"register_format gave no {what} loader for it", held)
        return loader(path)


FORMATS: OpenTable[RegisteredFormat] = OpenTable(
    "name", "formats", taken={*ENDINGS.values(), "json", "trec", "beir", "traces", "empty"}
)
"""Name to format, of those that were registered."""


def register_format(
    name: str,
    endings: Iterable[str],
    *,
    run: Loader | None = None,
    qrels: Loader | None = None,
    dataset: Loader | None = None,
) -> None:
    """Let `read_run`, `read_qrels`, `RetrievalDataset.load` and their callers read a format.

    Args:
        name: what `format=` takes.
        endings: of the files, such as ".msm"; ".msm.gz" goes to the same loader.
        run: from a path to what `read_run` takes in memory, such as {query id: [ids]}.
        qrels: from a path to what `read_qrels` takes in memory, such as {query id: {id: grade}}.
        dataset: from a path to what `RetrievalDataset.of` takes in memory.

    Raises:
        InvalidInput: the name or an ending is taken, or there is no loader.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from llama_index_rag_metrics import read_run
        >>> def load(path):
        ...     lines = path.read_text(encoding="utf-8").splitlines()
        ...     return {query_id: ids.split() for query_id, ids in (s.split(":") for s in lines)}
        >>> register_format("colons", [".colons"], run=load)
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "bm25.colons")
        ...     _ = path.write_text("q1: d3 d1", encoding="utf-8")
        ...     read_run(path)["q1"].ids
        ['d3', 'd1']
        >>> unregister_format("colons")
    """
    added = [ending.lower() for ending in endings]
    for ending in added:
        if ending in ENDINGS or not ending.startswith(".") or "." in ending[1:]:
            raise InvalidInput("endings", ending, f"a new one, like '.msm'; taken: {[*ENDINGS]}")
    if run is qrels is dataset is None:
        raise InvalidInput("run, qrels, dataset", None, "at least one loader")
    FORMATS.add(name, RegisteredFormat(run, qrels, dataset))
    ENDINGS.update(dict.fromkeys(added, name))


def unregister_format(name: str) -> None:
    """Forget a format that `register_format` added.

    Raises:
        InvalidInput: none of that name was added.

    Examples:
        >>> from llama_index_rag_metrics import register_format, unregister_format
        >>> register_format("msm", [".msm"], run=lambda path: {"q1": path.read_text().split()})
        >>> unregister_format("msm")
    """
    FORMATS.remove(name)
    for ending in [ending for ending, kind in ENDINGS.items() if kind == name]:
        del ENDINGS[ending]
