"""What follows from a dataset: the fields of its nodes, and a hash of its texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from llama_index_rag_metrics.formats.content import DatasetContent


def node_fields(content: DatasetContent) -> Iterator[dict[str, Any]]:
    """The fields of a LlamaIndex node for each document; metadata is carried, not embedded."""
    for document_id in content.corpus:
        metadata = content.document_metadata.get(document_id, {})
        yield {
            "id_": document_id,
            "text": content.indexed_text(document_id),
            "metadata": dict(metadata),
            "excluded_embed_metadata_keys": list(metadata),
            "excluded_llm_metadata_keys": list(metadata),
        }


def digest(*parts: Mapping[str, str]) -> str:
    """A hash of texts by id, whatever their order."""
    combined = sha256()
    for part in parts:
        combined.update(b"%d;" % len(part))
        for key in sorted(part):
            for text in (key, part[key]):
                raw = text.encode("utf-8", "surrogatepass")
                combined.update(b"%d:%b" % (len(raw), raw))
    return combined.hexdigest()
