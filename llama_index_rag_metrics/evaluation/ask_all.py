"""Asking all questions, several at once: answers are rankings, in a journal, failures are data."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product, repeat
from pathlib import Path
from typing import Any, NamedTuple

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.records import ranking_record, read_ranking, read_repeat
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.judging.beside import SPANS, needs_of
from llama_index_rag_metrics.rankings.matching.id_matcher import (
    NODE_ID,
    REF_DOC_ID,
    LabelCheck,
    item_id,
    names_of,
)
from llama_index_rag_metrics.rankings.matching.matched import BY_SPAN
from llama_index_rag_metrics.rankings.run import Ranking, combine_calls
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.atomic_files import short_hash
from llama_index_rag_metrics.runtime.errors import InvalidInput, RetrievalFailed
from llama_index_rag_metrics.runtime.journal import JsonLinesJournal
from llama_index_rag_metrics.runtime.masking import describe_error, mask
from llama_index_rag_metrics.runtime.progress import ProgressBar
from llama_index_rag_metrics.runtime.sync import as_exception, each, stopwatch, within

from .as_ask import Answer, Ask, Question, Source, ask_captured, postprocessor_call
from .capturing import as_call, as_nodes, columns_of, copies
from .plan import CONTEXT, Plan

_WITHOUT = (
    "{} given without a retrieval that could be seen, and scored as empty: record_retrieval() "
    "records those of clients that send no event"
)
_WITHOUT_HISTORY = (
    "questions have a history, which this retriever takes no account of: chat engines, agents and "
    "functions with a parameter metadata do"
)

_FORMAT = "llama-index-rag-metrics journal, version 1"
_RESUMED = "{kept:,} of {all:,} answers come from {path}, of {day}; {new}"


class Attempt(NamedTuple):
    """One time that a query is asked, numbered from 1 on."""

    query_id: str
    repeat: int = 1


class JournalRow(NamedTuple):
    """A row of a journal: the ranking, and a digest of the question that it answers."""

    attempt: Attempt
    question: str
    ranking: Ranking


class Journal(JsonLinesJournal[JournalRow]):
    """An append-only file of answers, under a header that says what can be known exactly."""

    def __init__(self, path: str | Path, header: Mapping[str, str]) -> None:
        super().__init__(path, {"format": _FORMAT, **header}, read_answer)
        self._context = header.get(CONTEXT, "")

    def record(self, attempt: Attempt, question: Question, ranking: Ranking) -> None:
        row = ranking_record(*attempt, ranking)
        row["concurrency"] = ranking.concurrency
        row["question"] = _digest(question.query_str, question.metadata, self._context)
        self.write(row)

    def resumed(self, n_kept: int, n_asked: int) -> str:
        """The sentence on how many answers came from the file, and from when they are."""
        new = {0: "none was asked", 1: "1 was asked"}.get(n_asked, f"{n_asked:,} were asked")
        day, n_all = f"{self.written.day} {self.written:%B %Y}", n_kept + n_asked
        return _RESUMED.format(kept=n_kept, all=n_all, path=self.path, day=day, new=new)


def answers_to(
    dataset: RetrievalDataset, header: Mapping[str, str], rows: Sequence[JournalRow]
) -> dict[Attempt, Ranking]:
    """Return the stored rankings of questions that haven't changed since."""
    context = header.get(CONTEXT, "")
    rankings = {}
    for attempt, question, ranking in rows:
        text = dataset.queries.get(attempt.query_id)
        metadata = dataset.metadata.get(attempt.query_id, {})
        if text is not None and question == _digest(text, metadata, context):
            rankings[attempt] = ranking
    return rankings


def _digest(text: str, metadata: Mapping[str, Any], context: str) -> str:
    """Return a digest of the question, and of the context that the source takes beside it."""
    extra = {"metadata": dict(metadata), "history": metadata.get(HISTORY)}.get(context)
    return short_hash(json.dumps([text, extra], sort_keys=True, default=str), 16)


def read_answer(row: Mapping[str, Any]) -> JournalRow:
    location = Location("journal")
    query_id, question = row["query_id"], row["question"]
    if type(query_id) is not str or type(question) is not str:
        raise ValueError(row)
    ranking = replace(read_ranking(row, location), concurrency=row["concurrency"])
    return JournalRow(Attempt(query_id, read_repeat(row, location)), question, ranking)


def pipeline(source: Source, plan: Plan) -> Ask:
    """Ask a source, and hand what it retrieved to the postprocessors of the plan."""
    calls = list(map(postprocessor_call, plan.node_postprocessors))

    async def ask(question: Question) -> Answer:
        answer = await ask_captured(source, question, plan.timeout)
        if calls and answer.calls is not None:
            kinds = plan.postprocessor_kinds
            remedy = "Give them to the tools or engines that retrieve."
            raise InvalidInput("node_postprocessors", kinds, "none for an agent", remedy)
        for call in calls:
            nodes = copies(as_nodes(answer.items))  # a retriever may keep its own
            answer.items = await within(plan.timeout, call(nodes, QueryBundle(question.query_str)))
            answer.notes = [*answer.notes, *call.notes]
        return answer

    return ask


@dataclass
class Answers:
    """The rankings of all questions, for each time that they were asked."""

    rankings: dict[Attempt, Ranking]
    notes: list[str]


@dataclass
class _Asking:
    ask: Ask
    plan: Plan
    reader: AnswerReader
    earlier_rankings: Mapping[Attempt, Ranking]
    journal: Journal | None
    rankings: dict[Attempt, Ranking] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)
    n_without: int = 0
    n_failed: int = 0

    def __post_init__(self) -> None:
        pairs = product(range(1, self.plan.repeats + 1), self.plan.dataset.queries)
        self.attempts = [Attempt(query_id, number) for number, query_id in pairs]
        self.n_kept = len(self.earlier_rankings.keys() & set(self.attempts))
        self.has_answered = bool(self.earlier_rankings)

    async def work(self, attempt: Attempt, bar: Any) -> None:
        ranking = self.earlier_rankings.get(attempt)
        if ranking is not None:
            self.reader.labels.see(ranking.ids)
            self.rankings[attempt] = self.reader.filled(ranking)
            return
        ranking = self.rankings[attempt] = await self.attempt(attempt)
        if ranking.error is not None:
            self.n_failed += 1
            bar.set_postfix_str(f"{self.n_failed} failed", refresh=False)
        bar.update()

    async def attempt(self, attempt: Attempt) -> Ranking:
        query_id, dataset = attempt.query_id, self.plan.dataset
        metadata = dataset.metadata.get(query_id, {})
        question = Question(dataset.queries[query_id], query_id=query_id, metadata=metadata)
        seconds = stopwatch()
        try:
            answer = await self.ask(question)
            if answer.seconds is None:
                answer.seconds = seconds()
            ranking = self.read(question, answer)
        except BaseException as error:  # whatever other people's code raises
            is_main = threading.current_thread() is threading.main_thread()
            is_ctrl_c = is_main and isinstance(error, KeyboardInterrupt)
            if is_ctrl_c or (self.stopping.is_set() and isinstance(error, asyncio.CancelledError)):
                raise
            return self.failure(question, as_exception(error), seconds())
        self.has_answered |= bool(ranking.ids)
        self.n_without += answer.calls is not None and not answer.calls
        if self.journal is not None:
            self.journal.record(attempt, question, ranking)
        return self.reader.filled(ranking)

    def read(self, question: Question, answer: Answer) -> Ranking:
        try:
            return self.reader.read(answer)
        except InvalidInput as error:
            # an option isn't one question's; those that fail are counted by their words
            if error.argument == "match_on" or error.sentence or self.has_answered:
                raise
            argument = f"{error.argument} of question {question.query_id!r}"
            raise InvalidInput(argument, error.value, error.expected, error.remedy) from error

    def failure(self, question: Question, error: Exception, seconds: float) -> Ranking:
        """Return the ranking of a question that failed, or raise where the evaluation ends."""
        if isinstance(error, InvalidInput) and not self.has_answered:
            raise error
        words = describe_error(error)  # without keys
        if self.plan.raise_on_error:
            # a cause that holds a key would show it in the traceback
            is_safe = mask(str(error)) == str(error)
            raise RetrievalFailed(question.query_id, words) from (error if is_safe else None)
        return Ranking(latency=seconds, error=words)

    @property
    def notes(self) -> list[str]:
        notes = list(self.reader.notes)
        if n := self.n_without:
            notes.append(_WITHOUT.format(counted(n, "answer was", "answers were")))
        if self.journal is not None and self.n_kept:
            notes.insert(0, self.journal.resumed(self.n_kept, len(self.attempts) - self.n_kept))
        return notes


async def ask_all(
    ask: Ask,
    plan: Plan,
    reader: AnswerReader,
    *,
    kept: Mapping[Attempt, Ranking] | None = None,
    journal: Journal | None = None,
) -> Answers:
    """Ask every question of a plan, `workers` at once; those in `kept` aren't asked again."""
    asking = _Asking(ask, plan, reader, kept or {}, journal)
    name, is_hidden = plan.name or "evaluating", not plan.show_progress
    total, done = len(asking.attempts), asking.n_kept
    with ProgressBar(desc=name, total=total, initial=done, disable=is_hidden) as bar:
        work = partial(asking.work, bar=bar)
        await each(asking.attempts, work, plan.at_once, asking.stopping.set)
    return Answers(asking.rankings, asking.notes)


class AnswerReader:
    """Turns answers into rankings, and watches whether they have the ids that labels name."""

    def __init__(self, plan: Plan, context: str) -> None:
        self._match_on, self._dataset, self._counter = plan.match_on, plan.dataset, plan.counter
        self._at_once = plan.at_once
        names: set[str] = set()
        if plan.compares_ids:
            names.update(*plan.dataset.relevance.values())
        self.labels = LabelCheck(names, plan.match_on, plan.dataset.corpus)
        self.notes: dict[str, None] = {}  # what a reader of the results should know of the answers
        has_history = any(row.get(HISTORY) for row in plan.dataset.metadata.values())
        if has_history and not context:
            self.notes[_WITHOUT_HISTORY] = None
        needs = needs_of(plan.metrics)
        self._needs_tokens = "tokens" in needs
        self._searches_spans = plan.matcher == BY_SPAN or SPANS in needs

    def read(self, answer: Answer) -> Ranking:
        """Return the ranking of an answer, and remember its ids and notes."""
        self.notes.update(dict.fromkeys(answer.notes))
        is_by_id = answer.calls is None and self._match_on in (NODE_ID, REF_DOC_ID)
        if is_by_id and set(map(type, answer.items)) == {str}:
            ids = list(map(str, answer.items))
            self.labels.see(ids, zip(repeat(NODE_ID), ids))
            if self._searches_spans or self._counter is not None:
                return self.ranking(as_nodes(ids), answer.seconds)
            n, time, at_once = len(ids), answer.seconds, self._at_once
            return Ranking(ids, [None] * n, [""] * n, time, spans=[None] * n, concurrency=at_once)
        nodes = answer.nodes()
        if answer.calls is None:
            ranking = self.ranking(nodes, answer.seconds)
        else:
            ranking = combine_calls([as_call(call, self.ranking) for call in answer.calls])
            ranking = replace(ranking, latency=answer.seconds, concurrency=self._at_once)
        self.labels.see(ranking.ids, names_of(nodes))
        return ranking

    def ranking(self, nodes: Sequence[NodeWithScore], seconds: float | None = None) -> Ranking:
        tokens = None
        if self._counter is not None:
            prompts = [node.node.get_content(MetadataMode.LLM) for node in nodes]
            tokens = self._counter.count(prompts)
        ids = [item_id(node, self._match_on) for node in nodes]
        columns = columns_of(nodes)
        if self._searches_spans:
            corpus = self._dataset.corpus
            for position, span in enumerate(columns["spans"]):
                columns["spans"][position] = searched_span(nodes[position].node, span, corpus)
        return Ranking(ids, latency=seconds, tokens=tokens, concurrency=self._at_once, **columns)

    def filled(self, ranking: Ranking) -> Ranking:
        """Return the ranking with the corpus's texts for items that have none of their own."""
        corpus, counter = self._dataset.corpus, self._counter
        texts = list(ranking.texts or ())
        if "" not in texts or (counter is None and not corpus):
            return ranking
        blank = [position for position, text in enumerate(texts) if not text]
        for position in blank:
            texts[position] = self._text_of(ranking.ids[position])
        if counter is None or "" in texts:
            return replace(ranking, texts=texts, tokens=None)
        tokens = list(ranking.tokens or counter.count(texts))
        for position in blank:
            [tokens[position]] = counter.count([texts[position]])
        return replace(ranking, texts=texts, tokens=tokens)

    def _text_of(self, item: str) -> str:
        """Return the corpus's text or ""; without one, raise where tokens are needed."""
        text = self._dataset.indexed_text(item) if item in self._dataset.corpus else ""
        if self._needs_tokens and not text:
            expected = "a text, whose tokens can be counted"
            remedy = "Return nodes that have texts, or give the dataset a corpus that has them."
            raise InvalidInput(f"retrieved {item!r}", "", expected, remedy)
        return text


def searched_span(node: BaseNode, span: Span | None, corpus: Mapping[str, str]) -> Span | None:
    """Return which characters of which document a node holds, by its offsets or by its text."""
    document, is_part = node.ref_doc_id or node.node_id, node.ref_doc_id is not None
    text, full_text = node.get_content(), corpus.get(document)
    if not full_text:
        return span
    if is_part and span is not None and full_text[span.start : span.end] == text:
        return span
    if full_text.strip() in text or not (text or is_part):
        return Span(document, 0, len(full_text))
    text = text.strip()
    start = full_text.find(text) if text else -1
    if start >= 0:
        return Span(document, start, start + len(text))
    if not is_part or span is None or span.start >= len(full_text):
        return None
    # a node of a document with a title exceeds it by a line
    return span._replace(end=min(span.end, len(full_text)))
