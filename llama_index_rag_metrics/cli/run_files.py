"""What `score` does with its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.files.file_kinds import format_of, kind_of
from llama_index_rag_metrics.files.lines import LacksField
from llama_index_rag_metrics.files.runs.read_runs import read_qrels, read_run
from llama_index_rag_metrics.files.runs.write_runs import WHOLE
from llama_index_rag_metrics.files.traces.trace_reading import read_traces
from llama_index_rag_metrics.files.traces.trace_sessions import Repeats
from llama_index_rag_metrics.rankings.judging.judged import ALL_RETRIEVED, Selection
from llama_index_rag_metrics.rankings.matching.id_matcher import NODE_ID
from llama_index_rag_metrics.rankings.matching.matcher_names import Matched, as_matcher
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.rankings.tokens import Tokenizer
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scoring.batches import Cut, no_common_query
from llama_index_rag_metrics.scores.scoring.score_rankings import score_rankings
from llama_index_rag_metrics.scores.stories import with_answers
from llama_index_rag_metrics.scores.systems import System

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

_WITH_RELEVANCE = ("jsonl", "csv", "parquet", "arrow")


@dataclass(frozen=True)
class ScoreRequest:
    """The metrics, and how runs are read and scored."""

    metrics: Sequence[Any]
    asked: TraceQuestions
    columns: Mapping[str, str]
    selection: Selection = ALL_RETRIEVED
    ignore_identical_ids: bool = False
    tokenizer: Tokenizer | None = None
    documents: Mapping[str, str] | None = None


def score_all(runs: Sequence[Path], qrels: Path | None, request: ScoreRequest) -> list[Scores]:
    """Score each run."""
    for run in runs:
        if runs.count(run) > 1:
            raise InvalidInput("RUN", str(run), "each run once")
    relevance = _labels(qrels, request)
    systems = []
    for run in runs:
        _check_labelled(run, relevance, request)
        systems.append(_scored(run, relevance, request))
    return systems


def _labels(qrels: Path | None, request: ScoreRequest) -> Mapping[str, Relevance] | None:
    if qrels is None:
        return request.asked.relevance or None
    return read_relevance(qrels)


def _check_labelled(
    run: Path, relevance: Mapping[str, Relevance] | None, request: ScoreRequest
) -> None:
    """Refuse a run without labels whose file can't have any."""
    run.stat()  # what isn't there has no kind
    is_beside = relevance is None and request.asked.matcher is None
    if is_beside and kind_of(run) not in _WITH_RELEVANCE:
        expected = "a kind of file that has expected_ids beside its rankings"
        remedy = "Or give the labels with --qrels FILE."
        raise InvalidInput("RUN", str(run), expected, remedy)


@dataclass(frozen=True)
class TraceQuestions:
    """How the questions of traces are recognised, if at all: by an attribute or by their texts."""

    question_id: str | None
    questions: RetrievalDataset | None
    match_on: str
    matcher: str | None
    repeats: Repeats = "last"

    @classmethod
    def of(
        cls,
        question_id: str | None,
        questions: Path | None,
        match_on: str = NODE_ID,
        matcher: str | None = None,
        repeats: Repeats = "last",
    ) -> TraceQuestions:
        """From the options."""
        as_matcher(matcher)
        if questions is None and matcher is not None:
            expected = "--questions DATASET beside it, which has the labels' texts"
            raise InvalidInput("--matcher", matcher, expected)
        dataset = None
        if questions is not None:
            from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

            dataset = RetrievalDataset.load(questions)
        return cls(question_id, dataset, match_on, matcher, repeats)

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given."""
        return self != TraceQuestions(None, None, NODE_ID, None)

    @property
    def relevance(self) -> Mapping[str, Relevance]:
        """The dataset's judgements, if it has any."""
        return {} if self.questions is None else self.questions.relevance

    def metadata_of(self, run: Run) -> Mapping[str, Mapping[str, Any]]:
        """Of a run that was read with the dataset its own, which has more; else the dataset's."""
        return run.metadata or ({} if self.questions is None else self.questions.metadata)

    def matched(self, run: Run, judged: Mapping[str, RelevanceLike] | None) -> Matched | None:
        """What the matcher recognises in a run; None where there is none."""
        from llama_index_rag_metrics.evaluation.retrieved.run_matching import match_run

        if self.questions is None or self.matcher is None:
            return None
        dataset = self.questions
        if judged:
            known: dict[str, Any] = {
                query_id: judged[query_id] for query_id in judged if query_id in dataset.queries
            }
            dataset = replace(dataset, relevance=known, expected_texts={})
        if not (dataset.relevance or dataset.expected_texts):
            expected = "labels to recognise: in --questions or --qrels"
            raise InvalidInput("--matcher", self.matcher, expected)
        return match_run(run, dataset, self.matcher)


def read_stored(path: Path, columns: Mapping[str, str], asked: TraceQuestions) -> Run:
    """A run from a file, of traces where their questions are named."""
    if asked.is_given and format_of(path, "run") == "traces":
        run = read_traces(
            path,
            question_id=asked.question_id,
            questions=asked.questions,
            match_on=asked.match_on,
            repeats=asked.repeats,
        )
    elif asked.repeats != "last" and format_of(path, "run") not in WHOLE:
        expected = "a file of traces, or one that keeps repeats, as RUN: JSONL, Parquet, Arrow"
        raise InvalidInput("--repeats", str(path), expected)
    elif asked.question_id is not None or asked.match_on != NODE_ID:
        option = "--match-on" if asked.question_id is None else "--question-id"
        raise InvalidInput(option, str(path), "a file of traces as RUN")
    else:
        run = read_run(path, columns=columns)
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
    system = _read_system(path, relevance, request)
    if replace(request.selection, min_score=None) != ALL_RETRIEVED:
        return system.scores  # a ranking has other ranks then
    return with_answers(system)


def _read_system(
    path: Path, relevance: Mapping[str, Relevance] | None, request: ScoreRequest
) -> System:
    run = read_stored(path, request.columns, request.asked)
    if request.ignore_identical_ids:
        run = run.without_identical_ids()
    notes: list[str] = []
    if request.selection.min_score is not None:
        uncut, run = run, run.at_least(request.selection.min_score)
        notes = sum(map(Cut.of, uncut.every_ranking, run.every_ranking), Cut()).notes
    asked, retrieved = request.asked, run
    if (matched := asked.matched(run, relevance)) is not None:
        run, relevance = matched.run, matched.relevance
    if relevance is None:
        relevance = relevance_beside(path, request.columns)
    if not run.keys() & relevance.keys():
        if format_of(path, "run") == "traces" and not (asked.question_id or asked.questions):
            expected = "traces of the questions that are judged"
            remedy = "--question-id ATTRIBUTE or --questions DATASET names the question of a trace."
            raise InvalidInput("RUN", str(path), expected, remedy)
        judged = relevance or (asked.questions.queries if asked.questions else {})
        raise no_common_query(path, next(iter(run)), next(iter(judged), ""))
    scores = score_rankings(
        relevance,
        run,
        request.metrics,
        metadata=asked.metadata_of(run),
        max_retrieved=request.selection.max_retrieved,
        judged_only=request.selection.judged_only,
        tokenizer=request.tokenizer,
        documents=request.documents,
    )
    scores = scores.replace(notes=[*notes, *scores.notes])
    by_metric = {} if matched is None else dict.fromkeys(scores, matched)
    return System(scores.name, scores, retrieved, relevance, by_metric, {})


def read_relevance(path: Path) -> Mapping[str, Relevance]:
    relevance = read_qrels(path)
    if not relevance:
        raise InvalidInput("--qrels", str(path), "a file with at least one label")
    return relevance


def relevance_beside(path: Path, columns: Mapping[str, str]) -> Mapping[str, Relevance]:
    try:
        if relevance := read_qrels(path, columns=columns):
            return relevance
    except LacksField:
        pass
    remedy = (
        "Give the labels with --qrels FILE; if you have none, let an LLM judge: in Python "
        "LLMRelevancy(llm=…).grade() and write_qrels() make such a file."
    )
    raise InvalidInput("RUN", str(path), "expected_ids beside its rankings", remedy)


def read_columns(texts: Iterable[str]) -> dict[str, str]:
    """Field to column, from texts like "retrieved_ids=doc_ids,query_id=qid"."""
    columns: dict[str, str] = {}
    for pair in (pair for text in texts for pair in text.split(",")):
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not (field and equals and column):
            raise InvalidInput("--columns", pair, "FIELD=COLUMN, as in retrieved_ids=doc_ids")
        columns[field] = column
    return columns
