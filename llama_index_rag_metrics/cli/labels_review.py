"""`rag-metrics labels review` and `agree`: what people judge, and how far they agree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import check_files, exit_codes
from llama_index_rag_metrics.cli.showing import show


def run_review(
    pool: Annotated[
        Path,
        options.argument(
            "POOL",
            "What to judge: JSON lines of query_id, query, doc_id and text, as `labels pool` "
            "writes them.",
        ),
    ],
    output: Annotated[
        Path,
        options.output(
            "The judgements, which the page exports. If the file exists, the page shows what is in "
            "it."
        ),
    ],
    page: Annotated[
        Path | None,
        options.file(
            "--page", help="The page.", show_default="beside the judgements, ending in .html"
        ),
    ] = None,
    rubric: Annotated[
        Path | None,
        typer.Option(
            "--rubric",
            help="A rubric of your own: a line such as '2: It answers in part.' for each grade, "
            "and before these what is asked.",
            show_default="that of llm_relevancy, grades 0 to 3",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", help="The random order of questions and passages.")
    ] = 0,
    title: Annotated[str, typer.Option("--title", help="The title of the page.")] = "Review",
) -> None:
    """Write a page in which somebody judges a pool.

    It shows neither systems nor ranks. It is one HTML file that works offline: open it, grade by
    keyboard, export. The browser keeps every grade at once.
    """
    with exit_codes("nothing was written", run_review):
        from llama_index_rag_metrics.labels.review.review_items import ReviewPool
        from llama_index_rag_metrics.labels.review.review_page import write_review_page

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
        typer.echo(f"{target}: {ReviewPool.of(pool).extent} to judge. Open it in a browser.")
        typer.echo(f"What it exports goes to {output}.")


def run_agree(
    first: Annotated[Path, options.argument("FIRST", "Judgements of one reviewer.")],
    second: Annotated[Path, options.argument("SECOND", "Those of another.")],
    output: Annotated[
        Path | None,
        options.output(
            "Write a pool of the items on which they differ, for a third reviewer: needs --pool."
        ),
    ] = None,
    pool: Annotated[
        Path | None, typer.Option("--pool", help="The pool that both reviewed.")
    ] = None,
    form: options.Form = "table",
    json: Annotated[Path | None, options.file("--json", help="Write every disagreement.")] = None,
    html: options.Html = None,
) -> None:
    """Say how far two reviewers agree, and list where they don't."""
    with exit_codes("nothing was written", run_agree):
        from llama_index_rag_metrics.labels.review.reviewers import compare_reviewers
        from llama_index_rag_metrics.runtime.errors import InvalidInput

        check_files({"--output": output, "--json": json, "--html": html}, [first, second, pool])
        if output is not None and pool is None:
            raise InvalidInput("--pool", None, "the pool that both reviewed, for --output")
        agreement = compare_reviewers(first, second)
        if output is not None and pool is not None:
            agreement.to_jsonl(output, pool)
        show(agreement, form, json=json, html=html)
