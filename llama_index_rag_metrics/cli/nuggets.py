"""`rag-metrics labels nuggets`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import FAILED_QUERIES, check_files, exit_codes, say
from llama_index_rag_metrics.cli.showing import show
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.labels.nuggets import Nuggets

_MOST_SAID = 5


def run_nuggets(
    dataset: options.Dataset,
    output: Annotated[
        Path,
        options.output("The nuggets, JSON lines that `score --qrels` reads as facets."),
    ],
    runs: Annotated[
        list[Path] | None,
        options.argument("RUN", "What was retrieved: its passages are compared with the nuggets."),
    ] = None,
    llm: Annotated[str | None, options.LLM] = None,
    nuggets: Annotated[
        Path | None,
        typer.Option("--nuggets", help="Take these nuggets, and don't create any."),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            "--answers",
            help="Create them from reference answers, under this key of the questions' metadata.",
            show_default="from the labelled passages, else from RUN",
        ),
    ] = None,
    reviewed: Annotated[
        list[Path] | None,
        typer.Option(
            "--reviewed",
            metavar="FILE",
            help="What people said, as `labels review` exports it. Repeatable.",
        ),
    ] = None,
    to_review: Annotated[
        Path | None,
        options.file(
            "--to-review",
            help="Write what people should judge by `labels review`: how important each nugget is, "
            "or with RUN, which passages support it.",
        ),
    ] = None,
    depth: options.Depth = 10,
    most: Annotated[
        int, options.count("--most", help="How many nuggets of a question are kept.")
    ] = 20,
    cache: Annotated[
        Path | None,
        options.file(
            "--cache",
            help="A file that keeps what the LLM answered, so that nothing is paid for twice.",
            show_default="OUTPUT.cache",
        ),
    ] = None,
    workers: options.Workers = WORKERS,
    split: options.Split = None,
    progress: options.Progress = True,
    form: options.Form = "table",
    html: options.Html = None,
) -> None:
    """List what good answers state, and which passages state it."""
    kept = cache or output.with_name(f"{output.name}.cache")
    with exit_codes(f"what the LLM answered is kept in {kept}", run_nuggets, kept):
        from llama_index_rag_metrics.cli.judge_run import llm_of
        from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
        from llama_index_rag_metrics.files.runs.read_runs import read_run
        from llama_index_rag_metrics.labels.nugget_creation import assign_nuggets, create_nuggets
        from llama_index_rag_metrics.labels.nugget_passages import (
            corpus_of,
            labelled_texts,
            texts_of,
        )
        from llama_index_rag_metrics.labels.nuggets import Nuggets, reviews_of_nuggets
        from llama_index_rag_metrics.runtime.cache import Cache

        used = None if llm is None else kept
        outputs = {"--output": output, "--to-review": to_review, "--cache": used, "--html": html}
        check_files(outputs, [dataset, *(runs or ()), *(reviewed or ())])
        if llm is None and (nuggets is None or (runs and to_review is None)):
            remedy = "No LLM is needed to review nuggets that are there: --nuggets FILE."
            raise InvalidInput("--llm", llm, "package.module:factory", remedy)
        labelled = RetrievalDataset.load(dataset, split=split)
        retrieved = [read_run(path) for path in runs or []]
        asked = None if llm is None else llm_of(llm)
        corpus = corpus_of(labelled)
        stored = None if nuggets is None else Nuggets.load(nuggets)
        # what can't be read is refused before anything is paid for
        texts_of(retrieved, _with_nuggets(labelled, stored, answers), depth, corpus)
        for path in reviewed or ():
            reviews_of_nuggets(path)
        conduct: dict[str, Any] = {
            "depth": depth,
            "cache": None if asked is None else Cache(kept),
            "workers": workers,
            "show_progress": progress,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelWarning)  # every error is said below
            if stored is not None:
                listed = stored
            else:
                is_known = answers is not None or bool(labelled_texts(labelled))
                passages = None if is_known else retrieved
                listed = create_nuggets(
                    labelled, asked, passages=passages, answers=answers, most=most, **conduct
                )
            if reviewed:
                listed = listed.reviewed(*reviewed)
            if asked is not None and retrieved:
                listed = assign_nuggets(listed, retrieved, asked, corpus=corpus, **conduct)
        listed.save(output)
        if to_review is not None:
            listed.to_review(to_review, retrieved or None, corpus=corpus, depth=depth)
        if html is not None:
            listed.to_html(html)
        show(listed, form)
        for query_id in list(listed.errors)[:_MOST_SAID]:
            say(f"{query_id}: {listed.errors[query_id]}")
    if listed.errors:
        raise typer.Exit(FAILED_QUERIES)


def _with_nuggets(
    labelled: RetrievalDataset, stored: Nuggets | None, answers: str | None
) -> list[str]:
    """The questions that have nuggets, or may get some."""
    from llama_index_rag_metrics.labels.nugget_passages import labelled_texts

    if stored is not None:
        return [query_id for query_id, nuggets in stored.items() if nuggets]
    if answers is not None:
        return [query_id for query_id, about in labelled.metadata.items() if answers in about]
    return list(labelled_texts(labelled) or labelled.queries)
