"""`rag-metrics show`: one question's story, from stored rankings or stored scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first

from . import options as o
from .commands import app, command, show_report
from .score import StoredFiles, named_apart

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.stories.label_view import System

_DEPTH = 10  # how many passages of each ranking are shown
_ABOUT = "Its id, or a part of its text that no other question has."


@command(app, "show", "rag-metrics show 'soup out of the pot' bm25.jsonl scores.json -d my-dataset")
def run_show(
    question: Annotated[str, o.argument("QUESTION", _ABOUT)],
    runs: o.Runs,
    dataset: o.MaybeDataset = None,
    qrels: o.Qrels = None,
    columns: o.Columns = None,
    question_id: o.QuestionId = None,
    matcher: o.Matcher = None,
    metric: Annotated[str | None, o.option("--metric -m", "METRIC", o.METRICS)] = None,
    json: o.Json = None,
) -> None:
    """Show one question: what each RUN found, what it missed, and where.

    A RUN may also be scores that `evaluate --json` or `score --json` wrote.
    """
    from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
    from llama_index_rag_metrics.stories.worst import story_report

    if matcher is not None and dataset is None:
        expected = "--dataset DATASET beside it, which has the labels' texts"
        raise InvalidInput("--matcher", matcher, expected)
    stored = StoredFiles(qrels, dataset, o.columns_of(columns), question_id)
    systems = [system for path in runs for system in _systems(path, stored)]
    questions: dict[str, str] = {}
    for system in systems:
        questions |= dict.fromkeys([*system.run, *system.scores.query_ids], "") | questions
        questions |= system.scores.queries
    if stored.dataset is not None:
        questions |= stored.dataset.queries
    query_id = _question_id(question, questions)
    names = named_apart([system.name for system in systems], runs)
    stored_metrics = [name for system in systems for name in system.scores]
    metric_name = metric or next(iter(stored_metrics), "ndcg@10")
    scored = []
    for system, name in zip(systems, names, strict=True):
        named = system._replace(name=name)
        scored.append(_scored(named, query_id, metric_name, stored.dataset, matcher))
    report = story_report(query_id, scored, metric_name, _DEPTH)
    columns_of_report = report.records.columns
    rows = zip(*columns_of_report.values(), strict=True)
    records = [dict(zip(columns_of_report, row, strict=True)) for row in rows]
    show_report(report, json_text(jsonable(records, "json", strict=False), indent=1), json)


def _systems(path: Path, stored: StoredFiles) -> Iterator[System]:
    """The systems of one file: of scores, or the one whose rankings it holds."""
    from llama_index_rag_metrics.scores import Scores
    from llama_index_rag_metrics.scores.retrieval import Retrieval
    from llama_index_rag_metrics.scores.scores_export import read_json
    from llama_index_rag_metrics.stories.label_view import System

    text_of = None if stored.dataset is None else stored.dataset.text_of
    if path.suffix.lower() == ".json":
        with suppress(FileFormatError):
            for name, scores in read_json(path).items():
                system = System.of(scores, name)
                if text_of is not None:
                    system = system._replace(retrieval=replace(system.retrieval, text_of=text_of))
                yield system
            return
    run = stored.run(path)
    relevance = stored.relevance
    if relevance is None and stored.dataset is not None and stored.dataset.expected_texts:
        relevance = {}
    if relevance is None:
        relevance = stored.relevance_beside(path)
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
    from llama_index_rag_metrics.scores.score_rankings import score_rankings
    from llama_index_rag_metrics.stories.label_view import with_retrieval

    is_stored = matcher is None and metric in system.scores
    if query_id not in system.run or is_stored:
        return system
    retrieval = system.retrieval.select([query_id])
    run, relevance = retrieval.run, retrieval.relevance
    if dataset is not None and query_id in dataset.expected_texts and not relevance.get(query_id):
        matcher = matcher or "text"
    if dataset is not None and matcher is not None:
        from llama_index_rag_metrics.rankings.matching.matched import match_run

        match = match_run(run, dataset.select([query_id]), matcher)
        run, relevance = match.run, match.relevance
        retrieval = replace(retrieval, matched={metric: match})
    scores = system.scores.replace(repeats=[system.scores] * len(run.repeats))
    if query_id in relevance:
        judged = {query_id: relevance[query_id]}
        scores = score_rankings(judged, run, [metric], no_relevant="zero")
    queries = system.scores.queries if dataset is None else dataset.queries
    scores = with_retrieval(scores.replace(queries=queries), retrieval)
    return system._replace(scores=scores, retrieval=retrieval)


def _question_id(question: str, questions: Mapping[str, str]) -> str:
    """The id of the question that is named by its id or by a part of its text."""
    from difflib import get_close_matches

    if question in questions:
        return question
    part = " ".join(question.casefold().split())
    texts = {query_id: " ".join(text.casefold().split()) for query_id, text in questions.items()}
    having = [query_id for query_id, text in texts.items() if part and part in text]
    if len(having) == 1:
        return having[0]
    if having:
        expected = f"a part of one question's text; {join_first(having)} have it"
        raise InvalidInput("QUESTION", question, expected)
    by_text = {text: query_id for query_id, text in texts.items()}
    near = get_close_matches(question, list(questions), n=3, cutoff=0.5)
    near += [by_text[text] for text in get_close_matches(part, by_text, n=3, cutoff=0.4)]
    remedy = ""
    if near:
        remedy = f"Did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?"
    raise InvalidInput("QUESTION", question, "the id of a question, or a part of its text", remedy)
