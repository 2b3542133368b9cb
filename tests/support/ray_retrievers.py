"""Retrievers and models for the workers of a cluster: what they do, they note in a file."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


def note(path: Path, *words: Any) -> None:
    """Add a line to a file that several processes write."""
    line = " ".join(map(str, words)) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def notes(path: Path) -> list[list[str]]:
    """The lines of such a file, in words."""
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


class Noting(BaseRetriever):
    """Retrieves documents by the digits of the query `n`, and notes what it is asked."""

    def __init__(self, factory: "Factory") -> None:
        super().__init__()
        self.factory = factory

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        factory = self.factory
        number = int(query_bundle.query_str.split()[-1])
        note(factory.log, number, os.getpid())
        if (
            number in factory.kills_once
            and not (marker := factory.log.with_name(f"k{number}")).exists()
        ):
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number in factory.kills_always:
            os.kill(os.getpid(), signal.SIGKILL)
        if number in factory.fails:
            raise ConnectionError(f"no answer to {number}")
        documents = dict.fromkeys((number * step) % 11 for step in (3, 5, 7, 1, 2))
        return [
            NodeWithScore(
                node=TextNode(
                    id_=f"d{document}",
                    text=f"text of document {document}",
                    metadata={"doc": document},
                ),
                score=1 / (rank + number / 7),
            )
            for rank, document in enumerate(documents, 1)
        ]


def tenants_index() -> VectorStoreIndex:
    """Three passages of each tenant, all of them as near to any question."""
    nodes = [
        TextNode(
            id_=f"{tenant} {number}", text=f"pay {number} of {tenant}", metadata={"tenant": tenant}
        )
        for number in range(3)
        for tenant in ("acme", "blue")
    ]
    return VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=2))


def told() -> Callable[..., list[str]]:
    """A function that is told who asks."""
    return _of_tenant


def _of_tenant(question: str, metadata: Mapping[str, Any]) -> list[str]:
    return [f"{metadata['tenant']} {number}" for number in range(3)]


@dataclass(frozen=True)
class Factory:
    """Builds a retriever, and notes that in another file.

    Attributes:
        log: the file of what is retrieved; that of what is built has another suffix.
        kills_once: queries that kill the process, the first time.
        kills_always: queries that kill the process.
        fails: queries on which the retriever fails.
        broken: whether building the retriever fails.
    """

    log: Path
    kills_once: frozenset[int] = frozenset()
    kills_always: frozenset[int] = frozenset()
    fails: frozenset[int] = frozenset()
    broken: bool = False

    def __call__(self) -> Noting:
        built = self.log.with_suffix(".built")
        note(built, os.getpid())
        if self.broken:
            raise FileNotFoundError("the index isn't here")
        return Noting(self)

    @property
    def asked(self) -> list[int]:
        """The queries that were asked, again and again if so."""
        return [int(words[0]) for words in notes(self.log)]


class NotingEmbedding(BaseEmbedding):
    """Embeds a text by its length and letters, and notes it; perhaps one kills it, once."""

    log: Path

    def _get_text_embedding(self, text: str) -> list[float]:
        note(self.log, text.replace(" ", "_"))
        return [len(text) / 7, sum(map(ord, text)) / 1e3, 1 / 3]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)
