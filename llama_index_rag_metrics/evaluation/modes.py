"""Modes: whether an evaluation is of texts or of images, where a retriever returns both."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.schema import ImageNode, NodeWithScore


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
