"""What `score` does with its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.files.lines import LacksField
from llama_index_rag_metrics.files.runs.read_runs import read_qrels, read_run
from llama_index_rag_metrics.files.sources import kind_of
from llama_index_rag_metrics.files.traces.trace_reading import read_traces
from llama_index_rag_metrics.files.traces.trace_spans import is_trace_file
from llama_index_rag_metrics.rankings.judging.judged import ALL_RETRIEVED, Selection
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.rankings.tokens import Tokenizer
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.scores.scoring.batches import no_common_query
from llama_index_rag_metrics.scores.scoring.notes import Cut
from llama_index_rag_metrics.scores.scoring.score_rankings import score_rankings
from llama_index_rag_metrics.stories.label_view import with_retrieval

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

_WITH_RELEVANCE = ("jsonl", "csv", "parquet", "arrow")


@dataclass(frozen=True)
class ScoreRequest:
    """The metrics, and how runs are read and scored."""

    metrics: Sequence[Any]
    asked: TraceQuestions
    selection: Selection = ALL_RETRIEVED
    tokenizer: Tokenizer | None = None


def score_all(runs: Sequence[Path], qrels: Path | None, request: ScoreRequest) -> list[Scores]:
    """Score each run."""
    for run in runs:
        if runs.count(run) > 1:
            raise InvalidInput("RUN", str(run), "each run once")
    relevance = _labels(qrels, request)
    systems = []
    for run in runs:
        _check_labelled(run, relevance)
        systems.append(_scored(run, relevance, request))
    return systems


def _labels(qrels: Path | None, request: ScoreRequest) -> Mapping[str, Relevance] | None:
    if qrels is None:
        return request.asked.relevance or None
    return read_relevance(qrels)


def _check_labelled(run: Path, relevance: Mapping[str, Relevance] | None) -> None:
    """Refuse a run without labels whose file can't have any."""
    run.stat()  # what isn't there has no kind
    if relevance is None and kind_of(run) not in _WITH_RELEVANCE:
        expected = "a kind of file that has expected_ids beside its rankings"
        remedy = "Or give the labels with --qrels FILE."
        raise InvalidInput("RUN", str(run), expected, remedy)


@dataclass(frozen=True)
class TraceQuestions:
    """How the questions of traces are recognised, if at all: by an attribute or by their texts."""

    question_id: str | None
    questions: RetrievalDataset | None

    @classmethod
    def of(cls, question_id: str | None, questions: Path | None) -> TraceQuestions:
        """From the options."""
        dataset = None
        if questions is not None:
            from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

            dataset = RetrievalDataset.load(questions)
        return cls(question_id, dataset)

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given."""
        return self != TraceQuestions(None, None)

    @property
    def relevance(self) -> Mapping[str, Relevance]:
        """The dataset's judgements, if it has any."""
        return {} if self.questions is None else self.questions.relevance

    def metadata_of(self, run: Run) -> Mapping[str, Mapping[str, Any]]:
        """Of a run that was read with the dataset its own, which has more; else the dataset's."""
        return run.metadata or ({} if self.questions is None else self.questions.metadata)


def read_stored(path: Path, asked: TraceQuestions) -> Run:
    """A run from a file, of traces where their questions are named."""
    if asked.is_given and is_trace_file(path):
        run = read_traces(path, question_id=asked.question_id, questions=asked.questions)
    elif asked.question_id is not None:
        raise InvalidInput("--question-id", str(path), "a file of traces as RUN")
    else:
        run = read_run(path)
    if not run:
        remedy = f"It says: {'; '.join(run.notes)}." if run.notes else ""
        raise InvalidInput("RUN", str(path), "a file with at least one ranking", remedy)
    return run


def named_apart(names: Sequence[str], runs: Sequence[Path]) -> Sequence[str]:
    """Names of runs; where two are the same, those of their files, or if these are, their paths."""
    choices = (names, [run.name for run in runs], list(map(str, runs)))
    apart = (each for each in choices if all(each) and len(set(each)) == len(names))
    return next(apart, names)


def _scored(path: Path, relevance: Mapping[str, Relevance] | None, request: ScoreRequest) -> Scores:
    run = read_stored(path, request.asked)
    notes: list[str] = []
    if request.selection.min_score is not None:
        uncut, run = run, run.at_least(request.selection.min_score)
        pairs = zip(uncut.every_ranking, run.every_ranking, strict=True)
        notes = sum((Cut.of(*pair) for pair in pairs), Cut()).notes
    asked = request.asked
    if relevance is None:
        relevance = relevance_beside(path)
    if not run.keys() & relevance.keys():
        if is_trace_file(path) and not (asked.question_id or asked.questions):
            expected = "traces of the questions that are judged"
            remedy = "--question-id ATTRIBUTE or --questions DATASET names the question of a trace."
            raise InvalidInput("RUN", str(path), expected, remedy)
        judged = relevance or (asked.questions.queries if asked.questions else {})
        raise no_common_query(path, next(iter(run)), next(iter(judged), ""))
    labels: Any = relevance
    if asked.questions is not None and relevance is asked.questions.relevance:
        labels = asked.questions
    scores = score_rankings(
        labels,
        run,
        request.metrics,
        metadata=asked.metadata_of(run),
        max_retrieved=request.selection.max_retrieved,
        judged_only=request.selection.judged_only,
        tokenizer=request.tokenizer,
    )
    scores = scores.replace(notes=[*notes, *scores.notes])
    if replace(request.selection, min_score=None) != ALL_RETRIEVED:
        return scores  # a ranking has other ranks then
    return with_retrieval(scores, Retrieval(run, relevance))


def read_relevance(path: Path) -> Mapping[str, Relevance]:
    relevance = read_qrels(path)
    if not relevance:
        raise InvalidInput("--qrels", str(path), "a file with at least one label")
    return relevance


def relevance_beside(path: Path) -> Mapping[str, Relevance]:
    try:
        if relevance := read_qrels(path):
            return relevance
    except LacksField:
        pass
    remedy = (
        "Give the labels with --qrels FILE; if you have none, let an LLM judge: in Python "
        "LLMRelevancy(llm=…).grade() and write_qrels() make such a file."
    )
    raise InvalidInput("RUN", str(path), "expected_ids beside its rankings", remedy)
