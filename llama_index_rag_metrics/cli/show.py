"""`rag-metrics show`: one question's story, from stored rankings or stored scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import typer

from llama_index_rag_metrics.cli import outcome
from llama_index_rag_metrics.cli.commands import Count, app, command
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.rankings.relevance import Relevance
    from llama_index_rag_metrics.stories.label_view import System

Output: TypeAlias = Literal["table", "markdown"]


@command(app, "show", needs_llama_index=False)
def run_show(
    question: str,
    runs: list[Path],
    *,
    dataset: Path | None = None,
    qrels: Path | None = None,
    metric: str | None = None,
    matcher: str | None = None,
    depth: Count[int] = 10,
    question_id: str | None = None,
    form: Output = "table",
) -> None:
    """Show one question: what each RUN found, what it missed, and where.

    Args:
        question: Its id, or a part of its text that no other question has.
        runs (RUN): Stored rankings, of any kind that `rag-metrics score` reads; or scores, as
            `rag-metrics evaluate --json` writes them, which hold the first passages of each
            ranking. Several are shown side by side.
        dataset: The questions, the labels and the passages' texts: a BEIR folder, or a file that
            RetrievalDataset.load reads. Default: what each RUN holds.
        qrels: What is relevant: TREC or BEIR qrels, JSONL, CSV, JSON, Parquet or Arrow. Default:
            the labels of --dataset, or else the expected_ids beside the rankings of each RUN.
        metric (-m, METRIC): The metric to show; its cutoff decides what counts as lost. Default:
            ndcg@10, or the first one of stored scores.
        matcher: Recognise the labelled passages of --dataset in RUN by this instead of ids, as
            after a change of chunks: text or span. Default: ids, or text where --dataset has
            labels by text alone.
        depth: How many passages of each ranking are shown.

    Examples:
        rag-metrics show q23 bm25.jsonl hybrid.jsonl --dataset my-dataset
        rag-metrics show "soup out of the pot" scores.json
    """
    from llama_index_rag_metrics.cli.run_files import named_apart
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.report.markup import to_markdown
    from llama_index_rag_metrics.report.terminal import print_report
    from llama_index_rag_metrics.stories.worst import story_report

    if matcher is not None and dataset is None:
        expected = "--dataset DATASET beside it, which has the labels' texts"
        raise InvalidInput("--matcher", matcher, expected)
    known = None
    if dataset is not None:
        known = RetrievalDataset.load(dataset)
    stored = [system for path in runs for system in _systems(path, known, qrels, question_id)]
    asked = {} if known is None else dict(known.queries)
    for system in stored:
        ids = dict.fromkeys([*system.run, *system.scores.query_ids], "")
        asked = {**ids, **system.scores.queries, **asked}
    query_id = _found(question, asked)
    names = named_apart([system.name for system in stored], runs)
    chosen = metric or next((name for system in stored for name in system.scores), "ndcg@10")
    systems = [
        _scored(system._replace(name=name), query_id, chosen, known, matcher)
        for system, name in zip(stored, names, strict=True)
    ]
    report = story_report(query_id, systems, chosen, depth)
    records = report.records
    rows = zip(*records.columns.values(), strict=True)
    outcome.found(lambda: [dict(zip(records.columns, row, strict=True)) for row in rows])
    if form == "markdown":
        typer.echo(to_markdown(report).rstrip("\n"))
    else:
        print_report(report)


def _systems(
    path: Path, dataset: RetrievalDataset | None, qrels: Path | None, question_id: str | None
) -> Iterator[System]:
    """The systems of one file: of scores, or the one whose rankings it holds."""
    from llama_index_rag_metrics.cli import run_files
    from llama_index_rag_metrics.files.dataset_content import PassageTexts
    from llama_index_rag_metrics.scores import Scores
    from llama_index_rag_metrics.scores.retrieval import Retrieval
    from llama_index_rag_metrics.scores.scores_export import read_json
    from llama_index_rag_metrics.stories.label_view import System

    text_of = None if dataset is None else PassageTexts(dataset)
    if path.suffix.lower() == ".json":
        with suppress(FileFormatError):
            for name, scores in read_json(path).items():
                system = System.of(scores, name)
                if text_of is not None:
                    system = system._replace(retrieval=replace(system.retrieval, text_of=text_of))
                yield system
            return
    asked = run_files.TraceQuestions(question_id, dataset)
    run = run_files.read_stored(path, asked)
    relevance: Mapping[str, Relevance]
    if qrels is not None:
        relevance = run_files.read_relevance(qrels)
    elif dataset is not None and (dataset.relevance or dataset.expected_texts):
        relevance = dataset.relevance
    else:
        relevance = run_files.relevance_beside(path)
    scores = Scores([], {}, queries=run.queries)
    retrieval = Retrieval(run, relevance, text_of=text_of)
    yield System(run.name or path.stem, scores, {}, retrieval)


def _scored(
    system: System,
    query_id: str,
    metric: str,
    dataset: RetrievalDataset | None,
    matcher: str | None,
) -> System:
    """The system with the score of one question, by ids or as the matcher recognises passages."""
    from llama_index_rag_metrics.scores.scoring.score_rankings import score_rankings
    from llama_index_rag_metrics.stories.label_view import with_retrieval

    is_stored = matcher is None and metric in system.scores
    if query_id not in system.run or is_stored:
        return system
    known = system.retrieval.select([query_id])
    run, relevance = known.run, known.relevance
    if dataset is not None and query_id in dataset.expected_texts and not relevance.get(query_id):
        matcher = matcher or "text"
    if dataset is not None and matcher is not None:
        from llama_index_rag_metrics.rankings.matching.matched import match_run

        seen = match_run(run, dataset.select([query_id]), matcher)
        run, relevance, known = seen.run, seen.relevance, replace(known, matched={metric: seen})
    scores = system.scores.replace(repeats=[system.scores] * len(run.repeats))
    if query_id in relevance:
        judged = {query_id: relevance[query_id]}
        scores = score_rankings(judged, run, [metric], no_relevant="zero")
    queries = system.scores.queries if dataset is None else dataset.queries
    scores = with_retrieval(scores.replace(queries=queries), known)
    return system._replace(scores=scores, retrieval=known)


def _found(question: str, asked: Mapping[str, str]) -> str:
    """The id of the question that is named by its id or by a part of its text."""
    from difflib import get_close_matches

    if question in asked:
        return question
    part = " ".join(question.casefold().split())
    texts = {query_id: " ".join(text.casefold().split()) for query_id, text in asked.items()}
    having = [query_id for query_id, text in texts.items() if part and part in text]
    if len(having) == 1:
        return having[0]
    if having:
        expected = f"a part of one question's text; {join_first(having)} have it"
        raise InvalidInput("QUESTION", question, expected)
    by_text = {text: query_id for query_id, text in texts.items()}
    near = get_close_matches(question, list(asked), n=3, cutoff=0.5)
    near += [by_text[text] for text in get_close_matches(part, by_text, n=3, cutoff=0.4)]
    remedy = f"Did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else ""
    raise InvalidInput("QUESTION", question, "the id of a question, or a part of its text", remedy)
