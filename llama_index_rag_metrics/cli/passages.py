"""What can be retrieved, as the command line takes it: a path, or the user's module:factory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from llama_index_rag_metrics.cli.retriever_factories import imported, made
from llama_index_rag_metrics.labels.corpus import Passages

if TYPE_CHECKING:
    from llama_index_rag_metrics.dataset import RetrievalDataset

_KINDS = "a path that is there, or package.module:factory"
_TOP_K = 10


def passages_of(
    argument: str, spec: str, dataset: RetrievalDataset, match_on: str = "node_id"
) -> Passages:
    """The passages of a path, or of what a factory makes.

    Args:
        argument: the name of the argument, for messages.
        spec: a path as `Passages.of` takes it, or "package.module:factory" that makes an index, a
            vector store or nodes; the current folder is importable.
        dataset: the labels; factories that take a dataset get it.
        match_on: which id of a node the labels use.

    Raises:
        InvalidInput: the factory can't be imported, fails, or makes nothing of that kind.
        FileNotFoundError: there is no such path.
    """
    if ":" not in spec or Path(spec).exists():
        return Passages.of(spec, match_on)
    factory = imported(spec, argument, _KINDS)
    return made(
        argument, spec, factory, dataset, _TOP_K, lambda source: Passages.of(source, match_on)
    )
