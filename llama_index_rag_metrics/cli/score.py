"""`rag-metrics score`: stored rankings, one or several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.runtime.errors import InvalidInput

from . import options as o
from .commands import app, chosen_metrics, command, fail_if, say_of_threshold, show_report

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.rankings.relevance import Relevance
    from llama_index_rag_metrics.rankings.run import Run

_WITH_RELEVANCE = ("jsonl", "csv", "parquet", "arrow")
_NO_LABELS = (
    "Give the labels with --qrels FILE; if you have none, let an LLM judge: in Python "
    "LLMRelevancy(llm=…).grade() and write_qrels() make such a file."
)


@command(
    app,
    "score",
    "rag-metrics score before.run after.run --qrels qrels.txt -m ndcg@10",
    failed="a RUN has failed questions",
)
def run_score(
    runs: o.Runs,
    qrels: o.Qrels = None,
    dataset: o.MaybeDataset = None,
    columns: o.Columns = None,
    question_id: o.QuestionId = None,
    metric: o.Metrics = None,
    min_score: o.MinScore = None,
    html: o.Html = None,
    json: o.Json = None,
) -> None:
    """Score stored rankings; several are compared with the first."""
    from llama_index_rag_metrics.report.html import write_page
    from llama_index_rag_metrics.scores import scores_export
    from llama_index_rag_metrics.scores.retrieval import Retrieval
    from llama_index_rag_metrics.scores.score_rankings import score_rankings
    from llama_index_rag_metrics.stories.label_view import with_retrieval

    from .evaluate import report_of

    for path in runs:
        if runs.count(path) > 1:
            raise InvalidInput("RUN", str(path), "each run once")
    metrics = chosen_metrics(metric)
    stored = StoredFiles(qrels, dataset, o.columns_of(columns), question_id)
    say_of_threshold(min_score, len(runs), "runs")
    scored = []
    for path in runs:
        stored.check_labelled(path)
        run = stored.run(path)
        if min_score is not None:
            run = run.at_least(min_score)
        relevance = stored.labels_for(path, run)
        labels: Any = relevance
        if stored.dataset is not None and relevance is stored.dataset.relevance:
            labels = stored.dataset
        scores = score_rankings(labels, run, metrics, metadata=stored.metadata_of(run))
        scored.append(with_retrieval(scores, Retrieval(run, relevance)))
    names = named_apart([scores.name for scores in scored], runs)
    systems = {}
    for name, scores in zip(names, scored, strict=True):
        systems[name] = scores.replace(name=name)
    report = report_of(systems)
    if html is not None:
        write_page(report, html)
    show_report(report, scores_export.to_json([*systems.values()]), json)
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
        from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

        self._columns = columns
        self._question_id = question_id
        self.dataset: RetrievalDataset | None = None
        if dataset is not None:
            self.dataset = RetrievalDataset.load(dataset, columns=columns)
        self.relevance: Mapping[str, Relevance] | None = None
        if qrels is not None:
            self.relevance = self._qrels(qrels)
            if not self.relevance:
                raise InvalidInput("--qrels", str(qrels), "a file with at least one label")
        elif self.dataset is not None and self.dataset.relevance:
            self.relevance = self.dataset.relevance

    def _qrels(self, path: Path) -> Mapping[str, Relevance]:
        from llama_index_rag_metrics.files.read_runs import read_qrels

        return read_qrels(path, columns=self._columns)

    def check_labelled(self, path: Path) -> None:
        """Refuse a run without labels whose file can't have any, before it is read."""
        from llama_index_rag_metrics.files.sources import kind_of

        path.stat()  # what isn't there has no kind
        if self.relevance is None and kind_of(path) not in _WITH_RELEVANCE:
            expected = "a kind of file that has expected_ids beside its rankings"
            remedy = "Or give the labels with --qrels FILE."
            raise InvalidInput("RUN", str(path), expected, remedy)

    def run(self, path: Path) -> Run:
        """A run from a file, of traces where their questions are named."""
        from llama_index_rag_metrics.files.read_runs import read_run
        from llama_index_rag_metrics.files.trace_reading import read_traces
        from llama_index_rag_metrics.files.trace_spans import is_trace_file

        is_named = self._question_id is not None or self.dataset is not None
        if is_named and is_trace_file(path):
            run = read_traces(path, question_id=self._question_id, questions=self.dataset)
        elif self._question_id is not None:
            raise InvalidInput("--question-id", str(path), "a file of traces as RUN")
        else:
            run = read_run(path, columns=self._columns)
        if not run:
            remedy = f"It says: {'; '.join(run.notes)}." if run.notes else ""
            raise InvalidInput("RUN", str(path), "a file with at least one ranking", remedy)
        return run

    def labels_for(self, path: Path, run: Run) -> Mapping[str, Relevance]:
        """The labels of a run, of which at least one belongs to a question of it."""
        from llama_index_rag_metrics.files.trace_spans import is_trace_file

        relevance = self.relevance
        if relevance is None:
            relevance = self.relevance_beside(path)
        if not run.keys() & relevance.keys():
            if is_trace_file(path) and self._question_id is None and self.dataset is None:
                expected = "traces of the questions that are judged"
                remedy = "--question-id ATTRIBUTE or --dataset DATASET names a trace's question."
                raise InvalidInput("RUN", str(path), expected, remedy)
            expected = (
                f"some that the qrels have, too, which are like {next(iter(relevance), '')!r}"
            )
            remedy = "Query ids compare exactly."
            raise InvalidInput(f"query ids of {path}", next(iter(run)), expected, remedy)
        return relevance

    def relevance_beside(self, path: Path) -> Mapping[str, Relevance]:
        """The labels beside the rankings of a run."""
        from llama_index_rag_metrics.files.lines import LacksField

        relevance: Mapping[str, Relevance] = {}
        with suppress(LacksField):
            relevance = self._qrels(path)
        if not relevance:
            raise InvalidInput("RUN", str(path), "expected_ids beside its rankings", _NO_LABELS)
        return relevance

    def metadata_of(self, run: Run) -> Mapping[str, Mapping[str, Any]]:
        """The run's own metadata, if it was read with the dataset; else the dataset's."""
        if run.metadata or self.dataset is None:
            return run.metadata
        return self.dataset.metadata


def named_apart(names: Sequence[str], runs: Sequence[Path]) -> Sequence[str]:
    """Names of runs; where two are the same, those of their files, or if these are, their paths."""
    for choice in (names, [run.name for run in runs], [str(run) for run in runs]):
        if all(choice) and len(set(choice)) == len(names):
            return choice
    return names
