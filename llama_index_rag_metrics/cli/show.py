"""`rag-metrics show`: one question's story, from stored rankings or stored scores."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first

from . import options
from .commands import app, chosen_metrics, command, show_report
from .evaluate import named_apart
from .score import StoredFiles

_DEPTH = 10  # how many passages of each ranking are shown
_ABOUT = "Its id, or a part of its text that no other question has."


@command(app, "show", "rag-metrics show 'soup out of the pot' bm25.jsonl scores.json -d my-dataset")
def run_show(
    question: Annotated[str, options.argument("QUESTION", _ABOUT)],
    runs: options.Runs,
    dataset: options.MaybeDataset = None,
    qrels: options.Qrels = None,
    columns: options.Columns = None,
    question_id: options.QuestionId = None,
    metric: Annotated[str | None, options.option("--metric -m", "METRIC", options.METRICS)] = None,
) -> None:
    """Show one question: what each RUN found, what it missed, and where.

    A RUN may also be scores that `evaluate --json` or `score --json` wrote.
    """
    from llama_index_rag_metrics.stories.label_view import System
    from llama_index_rag_metrics.stories.story import story_report

    stored = StoredFiles(qrels, dataset, options.columns_of(columns), question_id)
    scored = {path: _stored_scores(path) for path in runs}
    scored_metrics = chain.from_iterable(chain(*scores.values()) for scores in scored.values())
    metric_name = metric or next(scored_metrics, "ndcg@10")
    systems: list[System] = []
    for path in runs:
        scores = scored[path] or {"": stored.scores(path, chosen_metrics([metric_name]))}
        systems += [System.of(scores_of_run, name) for name, scores_of_run in scores.items()]
    names = named_apart([system.name for system in systems], runs)
    systems = [system._replace(name=name) for system, name in zip(systems, names, strict=True)]
    questions: dict[str, str] = {}
    for system in systems:
        questions |= {**dict.fromkeys(system.run, ""), **system.scores.queries}
    if stored.dataset is not None:
        questions |= stored.dataset.queries
    report = story_report(_question_id(question, questions), systems, metric_name, _DEPTH)
    show_report(report, "", None)


def _stored_scores(path: Path) -> Mapping[str, Any]:
    from llama_index_rag_metrics.scores.scores import read_json

    if path.suffix.lower() == ".json":
        with suppress(FileFormatError):
            return read_json(path)
    return {}


def _question_id(question: str, questions: Mapping[str, str]) -> str:
    if question in questions:
        return question
    part = " ".join(question.casefold().split())
    having = []
    for query_id, text in questions.items():
        if part and part in " ".join(text.casefold().split()):
            having.append(query_id)
    if len(having) == 1:
        return having[0]
    expected = "the id of a question, or a part of the text of one alone"
    remedy = f"There are {join_first(having or list(questions)) or 'none in these files'}."
    raise InvalidInput("QUESTION", question, expected, remedy)
