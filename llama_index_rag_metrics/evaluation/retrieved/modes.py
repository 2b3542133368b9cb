"""Modes: whether an evaluation is of texts or of images, where a retriever returns both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
from llama_index.core.schema import BaseNode, ImageNode, NodeWithScore

from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer


def check_mode(mode: str) -> None:
    """Refuse a dataset's mode that LlamaIndex's results don't know."""
    known = [mode.value for mode in RetrievalEvalMode]
    if mode not in known:
        raise InvalidInput("mode of the dataset", mode, " or ".join(map(repr, known)))


def of_mode(nodes: Sequence[NodeWithScore], mode: str) -> list[NodeWithScore]:
    """The retrieved nodes that count: in mode "image" the images, in mode "text" all others."""
    return [node for node in nodes if is_image(node) == (mode == "image")]


def is_image(node: NodeWithScore) -> bool:
    """Whether a node is an image, with or without a text."""
    kind, inner = type(node.node), cast(Any, node.node)
    return _is_image(kind) or (_may_hold_image(kind) and inner.image_resource is not None)


# asking each node takes pydantic longer than everything else that is done with it
@cache
def _is_image(kind: type[BaseNode]) -> bool:
    return issubclass(kind, ImageNode)


@cache
def _may_hold_image(kind: type[BaseNode]) -> bool:
    return "image_resource" in kind.model_fields or hasattr(kind, "image_resource")


def mode_note(nodes: Sequence[NodeWithScore], mode: str) -> list[str]:
    """A note that retrieved nodes of the other mode were ignored."""
    if len(of_mode(nodes, mode)) == len(nodes):
        return []
    other = "texts" if mode == "image" else "images"
    return [f"the mode is {mode!r}: {other} that were retrieved are left out"]


def node_texts(nodes: Sequence[NodeWithScore]) -> list[str]:
    """The texts of nodes; what isn't a text is refused, since metrics and journals need texts."""
    texts = [node.node.get_content() for node in nodes]
    for node, text in zip(nodes, texts, strict=True):
        if not isinstance(text, str):
            expected = f"a text from get_content() of node {node.node.node_id!r}"
            raise UnusableAnswer("retriever", text, expected, "Decode it, as text.decode().")
    return texts
