"""The options that several commands share, and the kinds of options that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from llama_index_rag_metrics.cli.showing import Format
from llama_index_rag_metrics.files.lines import OnError


def file(*names: str, **further: Any) -> Any:
    """An option for a file, with the further arguments of `typer.Option`."""
    return typer.Option(*names, dir_okay=False, **further)


def output(about: str) -> Any:
    """The option for the file that holds a command's result."""
    return file("--output", "-o", help=about)


def count(*names: str, **further: Any) -> Any:
    """An option for a number from 1 on, with the further arguments of `typer.Option`."""
    return typer.Option(*names, min=1, metavar="N", **further)


def argument(metavar: str, about: str, **further: Any) -> Any:
    """An argument, by the name that help and errors call it."""
    return typer.Argument(metavar=metavar, help=about, **further)


Metrics: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        metavar="METRIC",
        help="A metric, such as ndcg@10. Repeat the option, or use commas. `rag-metrics metrics` "
        "lists all.",
    ),
]
TopK: TypeAlias = Annotated[
    int | None,
    count(
        "--top-k",
        help="How many nodes to retrieve.",
        show_default="the largest cutoff; at least 10 if a metric has none",
    ),
]
Workers: TypeAlias = Annotated[int, count("--workers", help="How many queries to run at once.")]
Worst: TypeAlias = Annotated[
    int,
    typer.Option("--worst", min=0, metavar="N", help="How many of the hardest queries to show."),
]
Depth: TypeAlias = Annotated[
    int, count("--depth", help="How many of each ranking are read, best first.")
]
Tokenizer: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="What tokens are counted by: an encoding of tiktoken, such as cl100k_base, or "
        "package.module:function.",
        show_default="LlamaIndex's",
    ),
]
Json: TypeAlias = Annotated[
    Path | None, file("--json", help="Write every score, unrounded, as JSON.")
]
Html: TypeAlias = Annotated[Path | None, file("--html", help="Write the report as one HTML file.")]
IgnoreIdenticalIds: TypeAlias = Annotated[
    bool,
    typer.Option("--ignore-identical-ids", help="Leave out documents whose id is the query's own."),
]
Split: TypeAlias = Annotated[
    str | None,
    typer.Option("--split", help="Which qrels of a BEIR folder.", show_default="test"),
]
MatchOn: TypeAlias = Annotated[
    str,
    typer.Option(
        "--match-on",
        help="Which id of a node the labels use: node_id, ref_doc_id or a metadata key.",
    ),
]
Matcher: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--matcher",
        help="Recognise expected items by this instead of ids: text, exact, tokens, edit or "
        "embedding, with a threshold if you like: 'text>=0.6'; or group: each group of "
        "alternatives counts once.",
    ),
]
TracesMatchOn: TypeAlias = Annotated[
    str,
    typer.Option(
        "--match-on",
        help="If RUN is a file of traces: which id of a document the labels use: node_id, "
        "ref_doc_id or a metadata key.",
    ),
]
RunMatcher: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--matcher",
        help="Recognise the labelled passages of --questions in RUN by this instead of ids, as "
        "where traces hold no ids: text, exact, tokens, edit or embedding, with a threshold if "
        "you like: 'text>=0.6'.",
    ),
]
Form: TypeAlias = Annotated[Format, typer.Option("--format", help="How the result is printed.")]
QuestionId: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--question-id",
        help="If RUN is a file of traces: the attribute of the spans that holds the id of the "
        "question, such as question_id.",
        show_default="every trace is a question",
    ),
]
Dataset: TypeAlias = Annotated[
    Path,
    argument("DATASET", "The labels: a BEIR folder, or a file that RetrievalDataset.load reads."),
]
NewDataset: TypeAlias = Annotated[Path, output("The new dataset: .json or .jsonl.")]
PASSAGES = (
    "a folder that LlamaIndex persisted, a dataset, a file like BEIR's corpus.jsonl, or "
    "package.module:factory that makes an index, a vector store or nodes."
)
"""What `passages_of` reads."""

Corpus: TypeAlias = Annotated[
    str | None,
    argument(
        "CORPUS",
        f"What can be retrieved today: {PASSAGES}",
        show_default="the dataset's own corpus",
    ),
]
LLM = typer.Option(
    "--llm", help="package.module:factory, which makes an LLM of LlamaIndex, or the LLM."
)
"""Required by one command, not by another."""


SkipLines: TypeAlias = Annotated[
    OnError,
    typer.Option("--on-error", help="Stop at a line that can't be read (raise), or skip it."),
]
Progress: TypeAlias = Annotated[
    bool, typer.Option("--progress/--no-progress", help="Show a progress bar.")
]
