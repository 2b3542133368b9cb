"""What code may return for a query: nodes, of texts or of images, or bare ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, TypeAlias

from llama_index.core.schema import BaseNode, NodeWithScore, TextNode

from llama_index_rag_metrics.rankings.run import has_order
from llama_index_rag_metrics.runtime.errors import UnusableAnswer

RetrieverOutput: TypeAlias = "Iterable[NodeWithScore | BaseNode | str]"

_RETURNED = "what the retriever returned"
_REMEDY = (
    "Return ids as strings, or NodeWithScore(node=TextNode(id_=..., text=...), score=...), best "
    "first."
)


def as_nodes(retrieved: Any, hint: str = "") -> list[NodeWithScore]:
    if not has_order(retrieved):
        remedy = f"{_REMEDY} {hint}".rstrip()
        raise UnusableAnswer(_RETURNED, retrieved, "a list of nodes or ids", remedy)
    return [_node(node) for node in retrieved]


def copied(node: NodeWithScore) -> NodeWithScore:
    own: dict[str, Any] = {}
    for name, value in vars(node.node).items():
        if isinstance(value, dict):  # metadata, relationships
            own[name] = {
                key: copy(item) if isinstance(item, (dict, list, set)) else item
                for key, item in value.items()
            }
        elif name.endswith("_resource"):
            own[name] = copy(value)
    return node.model_copy(update={"node": node.node.model_copy(update=own)})


def _node(node: Any) -> NodeWithScore:
    if isinstance(node, NodeWithScore):
        return node
    if isinstance(node, BaseNode):
        return NodeWithScore(node=node)
    if isinstance(node, str):
        # metadata of its own: LlamaIndex before 0.14.20 drops nodes of the same text and metadata
        return NodeWithScore(node=TextNode(id_=node, text="", metadata={"id": node}))
    raise UnusableAnswer(_RETURNED, node, "nodes or ids", _REMEDY)


def node_texts(nodes: Sequence[NodeWithScore]) -> list[str]:
    """The texts of nodes; what isn't a text is refused, since metrics and journals need texts."""
    texts = [node.node.get_content() for node in nodes]
    for node, text in zip(nodes, texts, strict=True):
        if not isinstance(text, str):
            expected = f"a text from get_content() of node {node.node.node_id!r}"
            raise UnusableAnswer("retriever", text, expected, "Decode it, as text.decode().")
    return texts
