"""The chunkers of Chroma's study, written anew: windows of tokens, and recursive splitting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.utils import get_tokenizer

ENCODING: Any = get_tokenizer().func.__self__  # type: ignore[attr-defined]
"""cl100k_base, which LlamaIndex brings along."""

_SEPARATORS = ("\n\n", "\n", ".", "?", "!", " ")


@cache
def _length(text: str) -> int:
    return len(ENCODING.encode(text))


def token_windows(text: str, size: int, overlap: int) -> list[str]:
    """Windows of so many tokens, each of which begins with the last ones of the one before."""
    tokens, step = ENCODING.encode(text), size - overlap
    n_windows = 1 + max(0, -(-(len(tokens) - size) // step))
    return [ENCODING.decode(tokens[n * step : n * step + size]) for n in range(n_windows)]


def recursive(
    text: str, size: int, overlap: int, separators: Sequence[str] = _SEPARATORS
) -> list[str]:
    """Parts between separators, joined as long as they fit; too long ones at the next separator."""
    known = [place for place, each in enumerate(separators) if each in text]
    left = separators[known[0] + 1 :] if known else ()
    chunks: list[str] = []
    short: list[str] = []
    for part in _parts(text, separators[known[0]]) if known else text:
        if _length(part) < size:
            short.append(part)
            continue
        chunks += _joined(short, size, overlap)
        short = []
        chunks += recursive(part, size, overlap, left) if known else [part]
    return chunks + list(_joined(short, size, overlap))


def _parts(text: str, separator: str) -> list[str]:
    """The text parted before every separator."""
    first, *others = text.split(separator)
    return [part for part in (first, *(separator + other for other in others)) if part]


def _joined(parts: Sequence[str], size: int, overlap: int) -> Iterator[str]:
    """Parts together as long as they fit; the last ones begin the next chunk, too."""
    window: list[str] = []
    for part in parts:
        if window and sum(map(_length, window)) + _length(part) > size:
            yield from filter(None, ["".join(window).strip()])
            while window and (
                sum(map(_length, window)) > overlap
                or sum(map(_length, window)) + _length(part) > size
            ):
                window.pop(0)
        window.append(part)
    yield from filter(None, ["".join(window).strip()])


CHUNKERS = {"Recursive": recursive, "Token": token_windows}


def placed_as_chroma_does(document: str, text: str, chunks: Sequence[str]) -> Iterator[TextNode]:
    """Nodes where their texts are first in the document, a final full stop cut off."""
    for number, chunk in enumerate(chunks):
        start = text.find(chunk.removesuffix("."))
        assert start >= 0
        end = start + len(chunk.removesuffix("."))
        yield node_of(document, text[start:end], f"{document} {number}", start)


def node_of(document: str, text: str, node_id: str = "", start: int | None = None) -> TextNode:
    """A node of a document, with its place if that is given."""
    node = TextNode(text=text, id_=node_id or f"{document}: {text}")
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document)
    if start is not None:
        node.start_char_idx, node.end_char_idx = start, start + len(text)
    return node
