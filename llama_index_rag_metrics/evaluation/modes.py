"""Modes: whether an evaluation is of texts or of images, where a retriever returns both."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.schema import ImageNode, NodeWithScore

from llama_index_rag_metrics.errors import UnusableAnswer


def of_mode(nodes: Sequence[NodeWithScore], mode: str) -> list[NodeWithScore]:
    """The retrieved nodes that count: in mode "image" the images, in mode "text" all others."""
    return [node for node in nodes if is_image(node) == (mode == "image")]


def is_image(node: NodeWithScore) -> bool:
    """Whether a node is an image, with or without a text."""
    inner = node.node
    return isinstance(inner, ImageNode) or getattr(inner, "image_resource", None) is not None


def mode_note(nodes: Sequence[NodeWithScore], mode: str) -> list[str]:
    """That something retrieved is of the other mode and so left out."""
    if len(of_mode(nodes, mode)) == len(nodes):
        return []
    other = "texts" if mode == "image" else "images"
    return [f"the mode is {mode!r}: {other} that were retrieved are left out"]


def node_texts(nodes: Sequence[NodeWithScore]) -> list[str]:
    """The texts of nodes.

    Raises:
        UnusableAnswer: one isn't a text; metrics of texts and journals couldn't use it.
    """
    texts = [node.node.get_content() for node in nodes]
    for node, text in zip(nodes, texts, strict=True):
        if not isinstance(text, str):
            expected = f"a text from get_content() of node {node.node.node_id!r}"
            raise UnusableAnswer("retriever", text, expected, "Decode it, as text.decode().")
    return texts
