"""`rag-metrics demo`."""

from __future__ import annotations

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import check_files, exit_codes, exit_for
from llama_index_rag_metrics.runtime.amounts import WORKERS

_ABOUT = (
    "bm25 matches words. lsa is a vector index in memory; its embedding (latent semantic analysis) "
    "is fitted on these passages, a stand-in for a neural one that needs no download. The "
    "questions were written so that the two differ. This illustrates a comparison; it doesn't show "
    "that one kind of retriever is better."
)
_NEXT = """
Your own data, your own retrievers:
    rag-metrics evaluate --dataset FOLDER \\
        --retriever bm25 \\
        --retriever package.module:factory"""


def run_demo(
    metric: options.Metrics = None,
    top_k: options.TopK = None,
    workers: options.Workers = WORKERS,
    worst: options.Worst = 3,
    json: options.Json = None,
    html: options.Html = None,
    progress: options.Progress = True,
) -> None:
    """Compare two retrievers on a small collection, offline.

    One matches keywords, the other is a vector index.
    """
    with exit_codes(command=run_demo):
        from llama_index_rag_metrics.cli.opening import depth
        from llama_index_rag_metrics.cli.several_retrievers import (
            chosen_metrics,
            evaluate_all,
            print_dataset,
            show_all,
        )
        from llama_index_rag_metrics.demo.collection import load_collection
        from llama_index_rag_metrics.demo.retrievers import bm25, lsa
        from llama_index_rag_metrics.report.terminal import print_text

        check_files({"--json": json, "--html": html})
        metrics = chosen_metrics(metric)
        k = depth(metrics, top_k)
        dataset = load_collection()
        print_dataset(dataset)
        print_text(_ABOUT)
        nodes = dataset.to_nodes()
        results = evaluate_all(
            {"bm25": bm25(nodes, k), "lsa": lsa(nodes, k)},
            dataset,
            metrics,
            workers=workers,
            show_progress=progress,
        )
        show_all(results, worst=worst, slice_by=["type", "language"], json=json, html=html)
        print_text(_NEXT)
    exit_for(result.scores for result in results)
