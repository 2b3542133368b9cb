"""JSON lines: a question or a document a line, all of a dataset in one file.

A line with a `document_id` is a document: document_id, title, text, metadata; or, where the text of
a labelled passage isn't kept, document_id and text_hash. Every other line is a question: query_id,
query, relevance, expected_texts, metadata, or what other tools call them.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from llama_index_rag_metrics.files.dataset_content import DatasetContent, check_fits
from llama_index_rag_metrics.files.fields import EXAMPLE, TEXT_HASH
from llama_index_rag_metrics.files.lines import (
    Faults,
    Place,
    from_json,
    name_of,
    read_lines,
    to_json,
    write_lines,
)
from llama_index_rag_metrics.files.records import (
    document_record,
    question_record,
    read_document,
    read_question,
    read_text_hash,
)


def read_jsonl(path: Path, faults: Faults | None = None) -> DatasetContent:
    """Read questions and documents, in any order."""
    content = DatasetContent(name=name_of(path))
    faults = faults or Faults()

    def read(line: str, place: Place) -> None:
        record = from_json(line, place)
        if isinstance(record, dict) and {"document_id", TEXT_HASH} == record.keys():
            read_text_hash(content, record, place)
        elif isinstance(record, dict) and "document_id" in record:
            read_document(content, record, place, ["document_id"])
        else:
            read_question(content, record, place)

    faults.each(read_lines(path, faults), read)
    if not (content.queries or content.corpus or content.text_hashes or faults.skipped):
        raise Place(str(path)).wrong(f"lines such as {EXAMPLE}")
    return content


def write_jsonl(content: DatasetContent, path: Path, *, lossy: bool = False) -> None:
    """Write the questions, the documents, then the hashes of texts.

    Raises:
        FormatTooNarrow: the dataset's mode isn't text, which the lines can't say.
    """
    check_fits(content, "JSONL", ["mode"], lossy=lossy)
    questions = (question_record(content, query_id) for query_id in content.queries)
    documents = (document_record(content, document_id) for document_id in content.corpus)
    hashes = (
        {"document_id": passage_id, TEXT_HASH: text_hash}
        for passage_id, text_hash in content.text_hashes.items()
    )
    write_lines(path, map(to_json, chain(questions, documents, hashes)))
