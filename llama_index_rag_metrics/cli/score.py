"""`rag-metrics score`: stored rankings, one or several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.runtime.errors import InvalidInput

from . import options
from .commands import app, chosen_metrics, command, fail_if, show_report
from .evaluate import WORST, named_apart, report_of

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics import Relevance, RetrievalDataset, Run, Scores

_NO_LABELS = (
    "Give the labels with --qrels FILE; if you have none, let an LLM judge: in Python "
    "LLMRelevancy(llm=…).grade() and write_qrels() make such a file."
)
_TEXTS_ALONE = (
    "--dataset has expected_texts alone: in Python match_run(run, dataset, 'text') recognises "
    "passages by them, and score_rankings(matched.relevance, matched.run) scores that."
)
_OTHER_IDS = "They compare exactly; q-… lacks a query_id. Traces need --question-id or --dataset."


@command(
    app,
    "score",
    "rag-metrics score before.run after.run --qrels qrels.txt -m ndcg@10",
    failed="a RUN has failed questions",
)
def run_score(
    runs: options.Runs,
    qrels: options.Qrels = None,
    dataset: options.MaybeDataset = None,
    columns: options.Columns = None,
    question_id: options.QuestionId = None,
    metric: options.Metrics = None,
    min_score: options.MinScore = None,
    html: options.Html = None,
    json: options.Json = None,
) -> None:
    """Score stored rankings; several are compared with the first."""
    from llama_index_rag_metrics.report.html import write_page
    from llama_index_rag_metrics.scores.scores import json_of

    stored = StoredFiles(qrels, dataset, options.columns_of(columns), question_id)
    metrics, paths = chosen_metrics(metric), list(dict.fromkeys(runs))
    scored = [stored.scores(path, metrics, min_score) for path in paths]
    names = named_apart([scores.name for scores in scored], paths)
    systems = {name: scores.replace(name=name) for name, scores in zip(names, scored, strict=True)}
    report = report_of(systems, worst=WORST)
    if html is not None:
        write_page(report, html)
    show_report(report, json_of(list(systems.values())), json)
    fail_if(any(scores.failed for scores in scored))


class StoredFiles:
    """What a command reads: runs, and the labels that belong to them."""

    def __init__(
        self,
        qrels: Path | None,
        dataset: Path | None,
        columns: Mapping[str, str] | None,
        question_id: str | None,
    ) -> None:
        from llama_index_rag_metrics import RetrievalDataset, read_qrels

        self._columns, self._question_id = columns, question_id
        self.dataset: RetrievalDataset | None = None
        if dataset is not None:
            self.dataset = RetrievalDataset.load(dataset, columns=columns)
        self.relevance: Mapping[str, Relevance] | None = None
        if qrels is not None:
            self.relevance = read_qrels(qrels, columns=columns)
        elif self.dataset is not None and self.dataset.relevance:
            self.relevance = self.dataset.relevance

    def run(self, path: Path) -> Run:
        from llama_index_rag_metrics import read_run, read_traces
        from llama_index_rag_metrics.files.trace_spans import is_trace_file

        if is_trace_file(path):
            run = read_traces(path, question_id=self._question_id, questions=self.dataset)
            run.notes = tuple(note.replace("question_id=", "--question-id") for note in run.notes)
        elif self._question_id is not None:
            raise InvalidInput("--question-id", str(path), "a file of traces as RUN")
        else:
            run = read_run(path, columns=self._columns)
        if not run:
            raise InvalidInput("RUN", str(path), "a file with at least one ranking")
        return run

    def scores(
        self, path: Path, metrics: Sequence[BaseRetrievalMetric], min_score: float | None = None
    ) -> Scores:
        from llama_index_rag_metrics import score_rankings
        from llama_index_rag_metrics.scores.retrieval import Retrieval
        from llama_index_rag_metrics.stories.label_view import with_retrieval

        run = self.run(path)
        if min_score is not None:
            run = run.at_least(min_score)
        relevance = self._labels_for(path, run)
        labels: Any = relevance
        text_of = getattr(self.dataset, "text_of", None)
        if self.dataset is not None and relevance is self.dataset.relevance:
            labels = self.dataset
        scores = score_rankings(labels, run, metrics)
        return with_retrieval(scores, Retrieval(run, relevance, text_of=text_of))

    def _labels_for(self, path: Path, run: Run) -> Mapping[str, Relevance]:
        """The labels of a run, of which at least one belongs to a question of it."""
        from llama_index_rag_metrics.files.read_runs import labels_beside
        from llama_index_rag_metrics.files.trace_spans import is_trace_file

        relevance = self.relevance
        if relevance is None and not is_trace_file(path):
            relevance = labels_beside(path, self._columns)
        if not relevance:
            has_texts = self.dataset is not None and bool(self.dataset.expected_texts)
            remedy = _TEXTS_ALONE if has_texts else _NO_LABELS
            raise InvalidInput("RUN", str(path), "labels of its questions", remedy)
        if not run.keys() & relevance.keys():
            expected = f"some that the labels have, too, which are like {next(iter(relevance))!r}"
            raise InvalidInput(f"query ids of {path}", next(iter(run)), expected, _OTHER_IDS)
        return relevance
