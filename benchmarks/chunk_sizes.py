"""Chunk sizes at equal k and at equal tokens, judged by the same passages.

    python benchmarks/chunk_sizes.py path/to/spans

The folder holds questions.csv (question, corpus_id, JSON references: start_index, end_index) and
corpora/<corpus_id>.md. Every text is split recursively, by LlamaIndex's SentenceSplitter without
overlap: at empty lines, then sentences, then words. BM25 and an embedding by latent semantic
analysis, which is fitted on the chunks, retrieve from the chunks of all texts. Nothing is
downloaded.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from llama_index.core import Document
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import BaseNode
from rich.console import Console
from rich.table import Table

from llama_index_rag_metrics import Comparison, RetrievalDataset, compare, evaluate
from llama_index_rag_metrics.demo.retrievers import bm25, lsa

SIZES = (200, 400, 800)
CUTOFFS = ("@5", "@1000tokens", "@2000tokens", "@4000tokens")
METRICS = ("span_recall", "span_iou")
_DEPTH = 40
"""Enough chunks of 200 tokens to fill 4,000, and a lot more."""

_SENTENCES = re.compile(r".+?(?:[.!?](?=\s)|\Z)", re.DOTALL)
"""Whole sentences, blanks included: a chunk has to stand in its text word by word."""

Build = Callable[[Sequence[BaseNode], int], BaseRetriever]


def collection(folder: Path) -> RetrievalDataset:
    """The questions, and the texts that they are about."""
    dataset = RetrievalDataset.load(folder / "questions.csv")
    for path in sorted((folder / "corpora").glob("*.md")):
        dataset.corpus[path.stem] = path.read_text(encoding="utf-8")
    return dataset


def chunks(dataset: RetrievalDataset, size: int) -> list[BaseNode]:
    """All texts in chunks of at most this many tokens."""
    splitter = SentenceSplitter(
        chunk_size=size,
        chunk_overlap=0,
        paragraph_separator="\n\n",
        chunking_tokenizer_fn=_SENTENCES.findall,
    )
    documents = [Document(doc_id=name, text=text) for name, text in dataset.corpus.items()]
    return splitter.get_nodes_from_documents(documents)


def compared(dataset: RetrievalDataset, build: Build) -> Comparison:
    """The chunk sizes by one retriever, the middle one as the baseline."""
    names = [metric + cutoff for cutoff in CUTOFFS for metric in METRICS]
    results = {}
    for size in SIZES:
        nodes = chunks(dataset, size)
        name = f"{size} tokens"
        results[name] = evaluate(
            build(nodes, _DEPTH), dataset, [*names, "tokens@5", "tokens@2000tokens"], name=name
        )
        unplaced = [note for note in results[name].scores.notes if "no place" in note]
        if unplaced:
            raise SystemExit(f"{name}: {unplaced[0]}")
    return compare(results, baseline=f"{SIZES[1]} tokens", primary="span_recall@2000tokens")


def shown(title: str, comparison: Comparison) -> Table:
    """A row a metric: the mean of every chunk size, and its interval."""
    table = Table(title=title)
    table.add_column("metric")
    for name in comparison.systems:
        table.add_column(name, justify="right")
    table.add_column("from best to worst")
    for metric in comparison.metric_names:
        means = {name: comparison.means[name, metric] for name in comparison.systems}
        order = sorted(means, key=lambda name: -means[name].mean)
        digits = 0 if metric.startswith("tokens") else 3
        cells = [
            f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
            for interval in means.values()
        ]
        table.add_row(metric, *cells, " > ".join(name.split()[0] for name in order))
    return table


def differences(title: str, comparison: Comparison) -> Table:
    """What the baseline lacks or has, with intervals and corrected p values."""
    table = Table(title=title)
    for column in ("metric", "chunks", "difference", "95 % interval", "p, corrected"):
        table.add_column(column)
    for difference in comparison:
        if not difference.metric.startswith("tokens"):
            interval = f"[{difference.low:+.3f}, {difference.high:+.3f}]"
            table.add_row(
                difference.metric,
                difference.system,
                f"{difference.difference:+.3f}",
                interval,
                f"{difference.p_corrected:.4f}",
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="with questions.csv and corpora/")
    folder = parser.parse_args().folder
    start = time.perf_counter()
    dataset, console = collection(folder), Console(width=140)
    console.print(f"{len(dataset)} questions, {len(dataset.corpus)} texts")
    builds: dict[str, Build] = {"BM25": bm25, "LSA": lsa}
    for name, build in builds.items():
        comparison = compared(dataset, build)
        console.print(shown(name, comparison))
        console.print(differences(f"{name}: against {SIZES[1]} tokens", comparison))
        console.print(comparison.decision)
    console.print(f"{time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
