"""`rag-metrics chunks`: how good any retriever could be with some chunks."""

from __future__ import annotations

from pathlib import Path

from llama_index_rag_metrics.cli.commands import Form, NewFile, app, check_files, command, show


@command(app, "chunks")
def run_chunks(
    dataset: Path,
    nodes: str,
    *,
    split: str | None = None,
    tokenizer: str | None = None,
    form: Form = "table",
    html: NewFile[Path | None] = None,
) -> None:
    """Say how good any retriever could be with these chunks.

    Nothing is retrieved. The labels are places in documents (Relevance.of_spans), whose texts are
    the dataset's corpus.

    Args:
        nodes (CHUNKS): The chunks: a folder that LlamaIndex persisted, a file like BEIR's
            corpus.jsonl, or package.module:factory that makes an index, a vector store or nodes.

    Examples:
        rag-metrics chunks eval/spans.jsonl storage/
        rag-metrics chunks eval/spans.jsonl mine:small_chunks --html chunks.html
    """
    from llama_index_rag_metrics import RetrievalDataset, chunk_ceiling
    from llama_index_rag_metrics.cli.retriever_factories import passages_of, tokenizer_named

    check_files({"--html": html}, [dataset, Path(nodes)])
    questions = RetrievalDataset.load(dataset, split=split)
    chunks = passages_of("CHUNKS", nodes, questions)
    ceiling = chunk_ceiling(
        questions, chunks, tokenizer=tokenizer_named(tokenizer), name=Path(nodes).name
    )
    show(ceiling, form, html=html)
