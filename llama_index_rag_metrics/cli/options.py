"""The options that several commands share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from llama_index_rag_metrics.cli.showing import Format

Metrics: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        help="A metric, such as ndcg@10. Repeat the option, or use commas. `rag-metrics metrics` "
        "lists all.",
    ),
]
TopK: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        min=1,
        help="How many nodes to retrieve. \\[default: the largest cutoff; at least 10 if a metric "
        "has none]",
    ),
]
Workers: TypeAlias = Annotated[
    int, typer.Option("--workers", min=1, help="How many queries to run at once.")
]
Worst: TypeAlias = Annotated[
    int, typer.Option("--worst", min=0, help="How many of the hardest queries to show.")
]
Tokenizer: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="What tokens are counted by: an encoding of tiktoken, such as cl100k_base, or "
        "package.module:function. \\[default: LlamaIndex's]",
    ),
]
Json: TypeAlias = Annotated[
    Path | None,
    typer.Option("--json", dir_okay=False, help="Write every score, unrounded, as JSON."),
]
Html: TypeAlias = Annotated[
    Path | None,
    typer.Option("--html", dir_okay=False, help="Write the report as one HTML file."),
]
IgnoreIdenticalIds: TypeAlias = Annotated[
    bool,
    typer.Option("--ignore-identical-ids", help="Leave out documents whose id is the query's own."),
]
Split: TypeAlias = Annotated[
    str | None, typer.Option("--split", help="Which qrels of a BEIR folder. \\[default: test]")
]
MatchOn: TypeAlias = Annotated[
    str,
    typer.Option(
        "--match-on",
        help="Which id of a node the labels use: node_id, ref_doc_id or a metadata key.",
    ),
]
Form: TypeAlias = Annotated[Format, typer.Option("--format", help="How the result is printed.")]
QuestionId: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--question-id",
        help="If RUN is a file of traces: the attribute of the spans that holds the id of the "
        "question, such as question_id. \\[default: every trace is a question]",
    ),
]
Questions: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--questions",
        help="If RUN is a file of traces: a dataset, to find the traces' questions by their text.",
    ),
]


Dataset: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="The labels: a BEIR folder, or a file that RetrievalDataset.load reads.",
        show_default=False,
    ),
]
NewDataset: TypeAlias = Annotated[
    Path,
    typer.Option("--output", "-o", dir_okay=False, help="The new dataset: .json or .jsonl."),
]
LLM = typer.Option(
    "--llm", help="package.module:factory, which makes an LLM of LlamaIndex, or the LLM."
)
"""Required by one command, not by another."""


class OnError(str, Enum):
    """What to do with a line that can't be read."""

    RAISE = "raise"
    SKIP = "skip"


SkipLines: TypeAlias = Annotated[
    OnError,
    typer.Option("--on-error", help="Stop at a line that can't be read (raise), or skip it."),
]

Progress: TypeAlias = Annotated[
    bool, typer.Option("--progress/--no-progress", help="Show a progress bar.")
]
