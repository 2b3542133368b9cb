"""The JSON of LlamaIndex's removed `EmbeddingQAFinetuneDataset`, byte for byte as it wrote it.

`mapping.read_mapping` reads it.
"""

from __future__ import annotations

from pathlib import Path

from llama_index_rag_metrics.files.dataset_content import DatasetContent, Part, check_fits
from llama_index_rag_metrics.files.lines import to_json, write_lines


def write_embedding_qa(content: DatasetContent, path: Path, *, lossy: bool = False) -> None:
    """Write the old JSON; a document's title becomes the first line of its text.

    The text is ASCII, since the old reader opens the file in the platform's own encoding.

    Raises:
        FormatTooNarrow: it can't hold grades, groups, places, metadata or expected texts.
    """
    lacks: tuple[Part, ...] = (
        "grades",
        "groups",
        "spans",
        "metadata",
        "expected texts",
        "document metadata",
        "forbidden ids",
        "hashes of texts",
    )
    check_fits(content, "the JSON of EmbeddingQAFinetuneDataset", lacks, lossy=lossy)
    data = {
        "queries": content.queries,
        "corpus": {
            document_id: content.indexed_text(document_id) for document_id in content.corpus
        },
        "relevant_docs": {
            query_id: list(relevance) for query_id, relevance in content.relevance.items()
        },
        "mode": content.mode,
    }
    write_lines(path, [to_json(data, ascii_only=True, indent=4)])
