"""Retrievers for tests: real subclasses of LlamaIndex's BaseRetriever, each with one trait."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)


def node(
    node_id: str, *, document: str | None = None, score: float = 1.0, **metadata: Any
) -> NodeWithScore:
    """A retrieved node, perhaps cut from a document."""
    made = TextNode(id_=node_id, text=f"text of {node_id}", metadata=metadata)
    if document is not None:
        made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document)
    return NodeWithScore(node=made, score=score)


class Scripted(BaseRetriever):
    """Returns what the script says for each query text, and counts how often it was asked."""

    def __init__(self, script: Mapping[str, Sequence[NodeWithScore | str] | Exception]) -> None:
        super().__init__()
        self.script = script
        self.asked: list[str] = []

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.asked.append(query_bundle.query_str)
        answer = self.script[query_bundle.query_str]
        if isinstance(answer, Exception):
            raise answer
        return [node(item) if isinstance(item, str) else item for item in answer]


class Asynchronous(Scripted):
    """Has a native asynchronous method, and no other."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise AssertionError("the asynchronous method exists")

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return super()._retrieve(query_bundle)


class WithoutPrompts:
    """What LlamaIndex's parts that could have prompts must say."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass


class ByQuestion(BaseNodePostprocessor):
    """Applies a function to the list of nodes and the question."""

    function: Callable[[list[NodeWithScore], str], list[NodeWithScore]]

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        return self.function(nodes, query_bundle.query_str if query_bundle else "")


class Postprocessor(BaseNodePostprocessor):
    """Applies a function to the list of nodes."""

    function: Callable[[list[NodeWithScore]], list[NodeWithScore]]

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        return self.function(nodes)
