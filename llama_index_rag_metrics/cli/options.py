"""Every option and argument of the commands, with its type and what its help says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from llama_index_rag_metrics.runtime.errors import InvalidInput

_DATASET = "Questions with labels: a BEIR folder, or a file that RetrievalDataset.load reads."
HELP = {
    "DATASET": _DATASET,
    "--dataset -d": _DATASET,
    "CORPUS": "What can be retrieved today: a folder that LlamaIndex persisted, a dataset, "
    "corpus.jsonl, or package.module:factory of an index or nodes. By default the dataset's own.",
    "NEW": "What can be retrieved now, as for `check`.",
    "RUN": "Rankings: a TREC run, JSONL, JSON, CSV, TSV, Parquet; traces of OpenTelemetry, MLflow.",
    "--retriever -r": "bm25, lsa, or package.module:factory; the factory may take dataset, nodes "
    "and similarity_top_k. Repeat it to compare several.",
    "--qrels": "The labels: TREC's or BEIR's qrels, JSONL, JSON, CSV or Parquet. By default those "
    "of --dataset, or the expected_ids beside the rankings of each RUN.",
    "--columns": "What fields are called in all your files: question=input,labels=gold_ids.",
    "--question-id": "Of traces: the spans' attribute with a question's id; else its text counts.",
    "--match-on": "Which id of a passage the labels use: node_id, ref_doc_id or a metadata key.",
    "--matcher": "Recognise labelled passages by text, or span: their place in a document.",
    "--metric -m": "A metric, such as ndcg@10; the first one decides. Repeat it, or use commas. "
    "`rag-metrics metrics` lists all.",
    "--top-k": "How many passages to retrieve. By default the largest cutoff, or 10.",
    "--min-score": "Leave out passages with a lower score of the retriever.",
    "--slice": "A metadata key of the questions to split by. Repeatable.",
    "--workers": "How many questions to ask at once.",
    "--timeout": "Seconds that retrieval, or a metric, may take per question.",
    "--repeats": "How often to ask every question, of agents that answer differently each time.",
    "--journal": "A folder that keeps finished questions. A second call continues from there.",
    "--progress/--no-progress": "Show a progress bar.",
    "--html": "Write the report as one HTML file.",
    "--json": "Write the unrounded numbers as JSON; - prints them, and no report.",
    "--rule": "'ndcg@10 >= baseline - 0.02', or with 'at 99%' or 'as observed', 'recall@5 >= 0.8' "
    "or 'failed <= 0'. Repeatable. By default, with a baseline, the first metric may lose what "
    "compare takes as alike.",
    "--baseline -b": "The scores of before, a file in your repository.",
    "--system": "Which retriever to judge, where the file has several.",
    "--accept": "Copy SCORES to the baseline instead of judging them.",
    "--strict": "Exit with 1 also for warnings, or where the questions are too few to decide.",
    "--output -o": "The file to write.",
    "RUN OUTPUT": "Write what was retrieved, as .jsonl or .parquet. Several retrievers get a file "
    "each: RUN.NAME.jsonl.",
    "--threshold": "Share of a label's text that a passage must hold, above 0, to 1.",
    "--depth": "How many of each ranking are read, best first.",
    "-n": "How many to write.",
    "--rubric": "What is asked, and a line such as '2: It answers in part.' for each grade. By "
    "default that of llm_relevancy, grades 0 to 3.",
    "--llm": "package.module:factory, which makes an LLM of LlamaIndex, or the LLM.",
    "--cache": "A file that keeps every answer, so that nothing is paid for twice.",
}
QUESTIONS, METRICS, RUNNING, OUTPUT = "Questions and labels", "Metrics", "Running", "Output"


def option(flags: str, metavar: str | None, panel: str, **rules: Any) -> Any:
    """An option of Typer: its flags, as `HELP` has them, what its value is called, its group."""
    about = {"metavar": metavar, "rich_help_panel": panel, "help": HELP[flags]}
    return typer.Option(*flags.split(), **{**about, **rules})


def argument(metavar: str, sentence: str = "") -> Any:
    return typer.Argument(metavar=metavar, help=sentence or HELP[metavar])


_dataset = option("--dataset -d", "DATASET", QUESTIONS)
_file = {"dir_okay": False}
_run_output = option("--output -o", "FILE", OUTPUT, help=HELP["RUN OUTPUT"], **_file)
_count = {"min": 1}

DatasetArgument: TypeAlias = Annotated[Path, argument("DATASET")]
Corpus: TypeAlias = Annotated[str | None, argument("CORPUS")]
Runs: TypeAlias = Annotated[list[Path], argument("RUN...", HELP["RUN"])]
Dataset: TypeAlias = Annotated[Path, _dataset]
MaybeDataset: TypeAlias = Annotated[Path | None, _dataset]
Retrievers: TypeAlias = Annotated[list[str], option("--retriever -r", "RETRIEVER", QUESTIONS)]
Qrels: TypeAlias = Annotated[Path | None, option("--qrels", "FILE", QUESTIONS)]
Columns: TypeAlias = Annotated[list[str] | None, option("--columns", "FIELD=NAME", QUESTIONS)]
QuestionId: TypeAlias = Annotated[str | None, option("--question-id", "ATTRIBUTE", QUESTIONS)]
MatchOn: TypeAlias = Annotated[str, option("--match-on", "KEY", QUESTIONS)]
Matcher: TypeAlias = Annotated[str | None, option("--matcher", "text|span", QUESTIONS)]
Metrics: TypeAlias = Annotated[list[str] | None, option("--metric -m", "METRIC", METRICS)]
TopK: TypeAlias = Annotated[int | None, option("--top-k", "N", METRICS, **_count)]
MinScore: TypeAlias = Annotated[float | None, option("--min-score", "NUMBER", METRICS)]
Slices: TypeAlias = Annotated[list[str] | None, option("--slice", "KEY", METRICS)]
Workers: TypeAlias = Annotated[int, option("--workers", "N", RUNNING, **_count)]
Timeout: TypeAlias = Annotated[float | None, option("--timeout", "SECONDS", RUNNING)]
Repeats: TypeAlias = Annotated[int, option("--repeats", "N", RUNNING, **_count)]
Journal: TypeAlias = Annotated[Path | None, option("--journal", "FOLDER", RUNNING, file_okay=False)]
Progress: TypeAlias = Annotated[bool, option("--progress/--no-progress", None, RUNNING)]
Cache: TypeAlias = Annotated[Path | None, option("--cache", "FILE", RUNNING, **_file)]
Llm: TypeAlias = Annotated[str | None, option("--llm", "FACTORY", RUNNING)]
Threshold: TypeAlias = Annotated[float, option("--threshold", "SHARE", RUNNING)]
Depth: TypeAlias = Annotated[int, option("--depth", "N", RUNNING, **_count)]
MaybeNumber: TypeAlias = Annotated[int | None, option("-n", "N", RUNNING, **_count)]
Number: TypeAlias = Annotated[int, option("-n", "N", RUNNING, **_count)]
Strict: TypeAlias = Annotated[bool, option("--strict", None, RUNNING)]
Rubric: TypeAlias = Annotated[Path | None, option("--rubric", "FILE", RUNNING, **_file)]
Output: TypeAlias = Annotated[Path, option("--output -o", "FILE", OUTPUT, **_file)]
RunOutput: TypeAlias = Annotated[Path | None, _run_output]
Rules: TypeAlias = Annotated[list[str] | None, option("--rule", "RULE", METRICS)]
Baseline: TypeAlias = Annotated[Path | None, option("--baseline -b", "FILE", QUESTIONS, **_file)]
SystemName: TypeAlias = Annotated[str | None, option("--system", "NAME", QUESTIONS)]
Accept: TypeAlias = Annotated[bool, option("--accept", None, OUTPUT)]
Html: TypeAlias = Annotated[Path | None, option("--html", "FILE", OUTPUT, **_file)]
Json: TypeAlias = Annotated[Path | None, option("--json", "FILE", OUTPUT, **_file)]


def columns_of(pairs: list[str] | None) -> dict[str, str] | None:
    """What fields are called, of FIELD=NAME pairs, which may be joined by commas."""
    columns = {}
    for pair in ",".join(pairs or ()).split(","):
        field, _, name = pair.partition("=")
        if field.strip() and name.strip():
            columns[field.strip()] = name.strip()
        elif pairs:
            raise InvalidInput("--columns", pair, "FIELD=NAME, such as question=input")
    return columns or None
