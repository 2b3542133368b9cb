"""`rag-metrics stages`: where a pipeline loses relevant passages."""

from __future__ import annotations

import json
from pathlib import Path

from llama_index_rag_metrics.cli import outcome
from llama_index_rag_metrics.cli.commands import (
    Count,
    NewFile,
    app,
    check_files,
    chosen_metrics,
    command,
    fail_if,
    show,
)
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.errors import InvalidInput


@command(app, "stages", failed="questions failed")
def run_stages(
    *,
    dataset: Path,
    retriever: str,
    postprocessor: list[str] | None = None,
    corpus: str | None = None,
    compare_exact: str | None = None,
    metric: list[str] | None = None,
    top_k: Count[int | None] = None,
    match_on: str = "node_id",
    matcher: str | None = None,
    tokenizer: str | None = None,
    filters: str | None = None,
    repeats: Count[int] = 1,
    workers: Count[int] = WORKERS,
    timeout: float | None = None,
    html: NewFile[Path | None] = None,
    progress: bool = True,
) -> None:
    """Show at which stage of a pipeline relevant passages are lost.

    Stages are the index, the retriever, what it does with its branches, each postprocessor, and
    the cutoff of the first metric. Each missing passage was lost at one of them. --json has the
    share that each stage lost, too, for `rag-metrics gate --rule 'lost at NAME <= 0.05'`.

    Args:
        dataset (-d, DATASET): A BEIR folder, or a file that RetrievalDataset.load reads.
        retriever (-r, RETRIEVER): bm25, lsa, or package.module:factory of a retriever, an index, a
            query engine or a function; the factory may take dataset, nodes and similarity_top_k.
        postprocessor (-p, FACTORY): package.module:factory of a postprocessor, in the order in
            which they are applied. Repeatable. Those of a query engine are seen inside it.
        corpus: What the retriever can find: a folder that LlamaIndex persisted, a dataset, a file
            like BEIR's corpus.jsonl, or package.module:factory that makes an index, a vector store
            or nodes. What it lacks is lost at the index.
        compare_exact (FACTORY): package.module:factory of the same search, but exact. What it finds
            and the retriever doesn't is lost at approximate search.
        matcher: Recognise labelled passages by this instead of ids: text, exact, tokens, edit or
            embedding, with a threshold if you like: 'text>=0.6'.
        filters (KEY): A metadata key: a question may retrieve only passages that share its value.
        repeats: How many times to ask every question.
        timeout: Seconds that retrieval, or a postprocessor, may take per question.

    Groups:
        What to evaluate: dataset, retriever, postprocessor, top_k, filters
        What to compare with: corpus, compare_exact
        Metrics: metric, tokenizer
        Recognising labelled passages: match_on, matcher
        Running: repeats, workers, timeout, progress
        Output: html, json

    Examples:
        rag-metrics stages -d eval/dataset.jsonl -r mine:hybrid -p mine:reranker
        rag-metrics stages -d eval/beir -r mine:engine --corpus storage/
    """
    from llama_index.core.postprocessor.types import BaseNodePostprocessor

    from llama_index_rag_metrics import evaluate_stages
    from llama_index_rag_metrics.cli import retriever_results as several
    from llama_index_rag_metrics.cli.retriever_factories import (
        built,
        imported,
        passages_of,
        tokenizer_named,
    )
    from llama_index_rag_metrics.evaluation.source import as_retriever
    from llama_index_rag_metrics.metrics.base import check_passes

    check_files({"--html": html})
    tokens_of = tokenizer_named(tokenizer)
    metrics = chosen_metrics(metric)
    check_passes(metrics, repeats)
    questions, retrievers, _ = several.open_retrievers([retriever], dataset, metrics, top_k, [])
    k = several.depth(metrics, top_k)

    option = "--postprocessor"

    def checked(made: object) -> BaseNodePostprocessor:
        if isinstance(made, BaseNodePostprocessor):
            return made
        expected = "a factory of one of LlamaIndex's node postprocessors"
        raise InvalidInput(option, type(made).__name__, expected)

    stages = {
        spec.rpartition(":")[2]: built(option, spec, imported(spec, option), questions, k, checked)
        for spec in postprocessor or ()
    }
    if len(stages) < len(postprocessor or ()):
        raise InvalidInput(option, postprocessor, "factories of different names")
    exact = None
    if compare_exact is not None:
        factory = imported(compare_exact, "--compare-exact")
        exact = built("--compare-exact", compare_exact, factory, questions, k, as_retriever)
    known = None
    if corpus is not None:
        known = list(passages_of("--corpus", corpus, questions, match_on).texts)
    several.print_dataset(questions)
    (source,) = retrievers.values()
    results = evaluate_stages(
        source,
        stages,
        questions,
        metrics,
        corpus=known,
        compare_exact=exact,
        match_on=match_on,
        matcher=matcher,
        tokenizer=tokens_of,
        filters=filters,
        repeats=repeats,
        workers=workers,
        timeout=timeout,
        show_progress=progress,
    )
    show(results, "table", html=html)
    outcome.found([], lambda: {results.scores.name: json.loads(results.scores.to_json())})
    fail_if(results.scores.failed)
