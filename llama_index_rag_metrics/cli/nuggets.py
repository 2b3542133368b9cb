"""`rag-metrics labels nuggets`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.cli.commands import (
    Count,
    Form,
    NewFile,
    check_files,
    command,
    fail_if,
    interrupted,
    labels,
    say,
    show,
)
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning

if TYPE_CHECKING:
    from llama_index_rag_metrics import Nuggets, RetrievalDataset

_MOST_ERRORS_SHOWN = 5


@command(labels, "nuggets", failed="questions or passages failed")
def run_nuggets(
    dataset: Path,
    runs: list[Path] | None = None,
    *,
    output: NewFile[Path],
    llm: str | None = None,
    nuggets: Path | None = None,
    answers: str | None = None,
    reviewed: list[Path] | None = None,
    to_review: NewFile[Path | None] = None,
    depth: Count[int] = 10,
    most: Count[int] = 20,
    cache: NewFile[Path | None] = None,
    workers: Count[int] = WORKERS,
    split: str | None = None,
    progress: bool = True,
    form: Form = "table",
    html: NewFile[Path | None] = None,
) -> None:
    """List what good answers state, and which passages state it.

    Args:
        runs (RUN): What was retrieved: its passages are compared with the nuggets.
        output (-o): The nuggets, JSON lines that `score --qrels` reads as facets.
        nuggets: Take these nuggets, and don't create any.
        answers (KEY): Create them from reference answers, under this key of the questions'
            metadata. Default: from the labelled passages, else from RUN.
        reviewed (FILE): What people said, as `labels review` exports it. Repeatable.
        to_review: Write what people should judge by `labels review`: how important each nugget is,
            or with RUN, which passages support it.
        most: How many nuggets of a question are kept.
        cache: A file that keeps what the LLM answered, so that nothing is paid for twice. Default:
            OUTPUT.cache.

    Groups:
        Nuggets: llm, nuggets, answers, most, depth, split
        Review by people: to_review, reviewed
        Running: workers, cache, progress
        Output: output, form, html

    Examples:
        rag-metrics labels nuggets data.jsonl a.run --llm mine:llm -o nuggets.jsonl
    """
    from llama_index_rag_metrics import (
        Cache,
        Nuggets,
        RetrievalDataset,
        assign_nuggets,
        create_nuggets,
        read_run,
    )
    from llama_index_rag_metrics.cli.judge_run import llm_of
    from llama_index_rag_metrics.labels import nugget_passages
    from llama_index_rag_metrics.labels.nuggets import reviews_of_nuggets

    kept = cache or output.with_name(f"{output.name}.cache")
    used = None if llm is None else kept
    outputs = {"--output": output, "--to-review": to_review, "--cache": used, "--html": html}
    check_files(outputs, [dataset, *(runs or ()), *(reviewed or ())])
    if llm is None and (nuggets is None or (runs and to_review is None)):
        remedy = "No LLM is needed to review nuggets that are there: --nuggets FILE."
        raise InvalidInput("--llm", llm, "package.module:factory", remedy)
    with interrupted(f"what the LLM answered is kept in {kept}", kept):
        labelled = RetrievalDataset.load(dataset, split=split)
        retrieved = [read_run(path) for path in runs or []]
        asked = None if llm is None else llm_of(llm)
        corpus = nugget_passages.corpus_of(labelled)
        stored = None if nuggets is None else Nuggets.load(nuggets)
        # what can't be read is refused before anything is paid for
        questions = _with_nuggets(labelled, stored, answers)
        nugget_passages.texts_of(retrieved, questions, depth, corpus)
        for path in reviewed or ():
            reviews_of_nuggets(path)
        options: dict[str, Any] = {"depth": depth, "workers": workers, "show_progress": progress}
        options["cache"] = None if asked is None else Cache(kept)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelWarning)  # every error is said below
            listed = stored
            if listed is None:
                is_known = answers is not None or bool(nugget_passages.labelled_texts(labelled))
                listed = create_nuggets(
                    labelled,
                    asked,
                    passages=None if is_known else retrieved,
                    answers=answers,
                    most=most,
                    **options,
                )
            if reviewed:
                listed = listed.reviewed(*reviewed)
            if asked is not None and retrieved:
                listed = assign_nuggets(listed, retrieved, asked, corpus=corpus, **options)
        listed.save(output)
        if to_review is not None:
            listed.to_review(to_review, retrieved or None, corpus=corpus, depth=depth)
        show(listed, form, html=html)
    for query_id in list(listed.errors)[:_MOST_ERRORS_SHOWN]:
        say(f"{query_id}: {listed.errors[query_id]}")
    fail_if(listed.errors)


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
