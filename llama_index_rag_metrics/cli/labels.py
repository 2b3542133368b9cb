"""`rag-metrics labels`: labels checked, moved, pooled and reviewed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from llama_index_rag_metrics.cli.commands import (
    Count,
    Form,
    NewFile,
    check_files,
    command,
    fail_if,
    labels,
    show,
)
from llama_index_rag_metrics.cli.outcome import tell
from llama_index_rag_metrics.runtime.amounts import check_share
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index_rag_metrics.rankings.run import Run


@command(labels, "check", ok="no label is wrong", failed="some labels are wrong")
def run_check(
    dataset: Path,
    corpus: str | None = None,
    *,
    match_on: str = "node_id",
    strict: bool = False,
    form: Form = "table",
    html: NewFile[Path | None] = None,
) -> None:
    """Check labels against what can be retrieved today.

    Lists passages that are gone, moved, split or changed, and questions that are there twice.

    Args:
        strict: Exit with 1 if there are warnings, too.

    Examples:
        rag-metrics labels check eval/dataset.jsonl storage/
        rag-metrics labels check eval/dataset.jsonl mine:index --html labels.html
    """
    from llama_index_rag_metrics import RetrievalDataset, check_labels
    from llama_index_rag_metrics.cli.retriever_factories import passages_of

    check_files({"--html": html}, [dataset, Path(corpus) if corpus else None])
    questions = RetrievalDataset.load(dataset)
    passages = passages_of("CORPUS", corpus, questions, match_on)
    findings = check_labels(questions, passages, match_on=match_on)
    show(findings, form, html=html)
    fail_if(findings.errors or (strict and len(findings)))


@command(labels, "move", ok="every label has a new place", failed="some labels are lost")
def run_move(
    dataset: Path,
    new_nodes: str,
    *,
    output: NewFile[Path],
    threshold: float = 0.5,
    form: Form = "table",
    html: NewFile[Path | None] = None,
) -> None:
    """Move labels to new nodes.

    For documents that were split or ingested again.

    Args:
        new_nodes (NEW): What can be retrieved now: a folder that LlamaIndex persisted, a dataset, a
            file like BEIR's corpus.jsonl, or package.module:factory that makes an index, a vector
            store or nodes.
        output (-o): The new dataset: .json or .jsonl.
        threshold: Share of a label's text that a passage must hold, 0 to 1.

    Examples:
        rag-metrics labels move eval/dataset.jsonl storage/ -o eval/moved.jsonl
    """
    from llama_index_rag_metrics import RetrievalDataset, move_labels
    from llama_index_rag_metrics.cli.retriever_factories import passages_of
    from llama_index_rag_metrics.files.dataset_objects import check_ending

    check_share("threshold", threshold)
    check_files({"--output": output, "--html": html}, [Path(new_nodes)])
    check_ending(output)
    questions = RetrievalDataset.load(dataset)
    moved = move_labels(questions, passages_of("NEW", new_nodes, questions), threshold=threshold)
    moved.dataset.save(output)
    show(moved, form, html=html)
    fail_if(moved.of("lost"))


@command(
    labels, "pool", ok="passages to label were written, if there are any", needs_llama_index=False
)
def run_pool(
    runs: list[Path],
    *,
    output: NewFile[Path],
    qrels: Path | None = None,
    dataset: Path | None = None,
    depth: Count[int] = 10,
    n: Count[int | None] = None,
    form: Form = "table",
    html: NewFile[Path | None] = None,
) -> None:
    """Choose what to label next: what the runs rank differently first.

    Args:
        runs (RUN): Stored rankings, as `score` takes them.
        output (-o): Where to write the passages to label: JSON lines of query_id, query, doc_id and
            text; systems and ranks are hidden.
        qrels: The labels so far. Default: those of the dataset.
        dataset (-d, DATASET): The dataset that holds the questions and the texts.
        n (-n, --n): How many passages to write. Default: all.

    Examples:
        rag-metrics labels pool a.run b.run -d data.jsonl -n 50 -o pool.jsonl
    """
    from llama_index_rag_metrics import RetrievalDataset, pool

    check_files({"--output": output, "--html": html}, [*runs, qrels, dataset])
    loaded = _runs_of(runs)
    chosen = pool(
        loaded,
        qrels,
        depth=depth,
        n=n,
        dataset=None if dataset is None else RetrievalDataset.load(dataset),
    )
    chosen.to_jsonl(output)
    show(replace(chosen, file=str(output)), form, html=html)


def _runs_of(paths: Sequence[Path]) -> dict[str, Run]:
    """Stored rankings by names that tell them apart."""
    from llama_index_rag_metrics import read_run
    from llama_index_rag_metrics.cli.run_files import named_apart

    loaded = [read_run(path) for path in paths]
    for path, run in zip(paths, loaded, strict=True):
        if not run:
            raise InvalidInput("runs", str(path), "files with at least one ranking")
    return dict(zip(named_apart([run.name for run in loaded], paths), loaded, strict=True))


@command(labels, "review", needs_llama_index=False)
def run_review(
    pool: Path,
    *,
    output: NewFile[Path],
    page: NewFile[Path | None] = None,
    rubric: Path | None = None,
    seed: int = 0,
    title: str = "Review",
) -> None:
    """Write a page in which somebody judges a pool.

    It shows neither systems nor ranks. It is one HTML file that works offline: open it, grade by
    keyboard, export. The browser keeps every grade at once.

    Args:
        pool: What to judge: JSON lines of query_id, query, doc_id and text, as `labels pool` writes
            them.
        output (-o): The judgements, which the page exports. If the file exists, the page shows what
            is in it.
        page: The page. Default: beside the judgements, ending in .html.
        rubric: A rubric of your own: a line such as '2: It answers in part.' for each grade, and
            before these what is asked. Default: that of llm_relevancy, grades 0 to 3.
        seed: The random order of questions and passages.
        title (TEXT): The title of the page.

    Examples:
        rag-metrics labels review pool.jsonl -o judged.jsonl
    """
    from llama_index_rag_metrics import write_review_page
    from llama_index_rag_metrics.labels.review.reviews import ReviewPool

    target = output.with_suffix(".html") if page is None else page
    check_files({"--output": output, "--page": target}, [pool, rubric])
    write_review_page(
        pool,
        target,
        judgements=output if output.exists() else None,
        output=output.name,
        rubric=rubric,
        seed=seed,
        title=title,
    )
    tell(f"{target}: {ReviewPool.of(pool).extent} to judge. Open it in a browser.")
    tell(f"Save the page's export as {output}.")


@command(labels, "agree", needs_llama_index=False)
def run_agree(
    first: Path, second: Path, *, form: Form = "table", html: NewFile[Path | None] = None
) -> None:
    """Say how far two reviewers agree, and list where they don't.

    Args:
        first: Judgements of one reviewer.
        second: Judgements of another.

    Examples:
        rag-metrics labels agree anna.jsonl ben.jsonl
    """
    from llama_index_rag_metrics import agreement

    check_files({"--html": html}, [first, second])
    show(agreement(first, second), form, html=html)
