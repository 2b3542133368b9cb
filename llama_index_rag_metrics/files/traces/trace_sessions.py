"""From traces to a run: which question a retrieval was made for, and what its caller got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from llama_index_rag_metrics.files.traces.span_collecting import Texts, Trace, Work
from llama_index_rag_metrics.files.traces.trace_spans import DocumentColumns
from llama_index_rag_metrics.rankings.fusion import Combine, combine_calls
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.runtime.errors import InvalidInput


class Remark(Enum):
    """Why something of the traces couldn't be used, in the order of the notes."""

    WITHOUT_DOCUMENTS = "retrieval spans without documents (was recording them turned off?)"
    UNREADABLE = "retrieval spans that can't be read"
    LEFT_OUT = "questions left out, since a retrieval for them isn't known"
    UNKNOWN = "traces with retrievals for no known question"
    BESIDE = (
        "retrievals left out: without an attribute, question_id=, it isn't known which question "
        "of their trace they are for"
    )
    FAILED_RERANKINGS = "rerankings that failed, so the order before them counts"
    SILENT_RERANKINGS = "rerankings without documents, so the order before them counts"
    STRAY = "rerankings left out, since they aren't of one retrieval"
    ASKED_AGAIN = "questions asked several times; the last time counts"
    NAMELESS = (
        "documents without an id, known by a digest of their text (labels find them by "
        "match_on= and a key of their metadata, or by a matcher)"
    )
    REPEATED = "repeated spans, counted once"


class Remarks:
    """How much of the traces couldn't be used, and the questions that are left out."""

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._counts: Counter[Remark] = Counter()

    def add(self, remark: Remark, n: int = 1) -> None:
        self._counts[remark] += n

    def notes(self) -> list[str]:
        self._counts[Remark.LEFT_OUT] = len(self.left_out)
        counts = ((remark.value, self._counts[remark]) for remark in Remark)
        return [f"{what}: {n:,}" for what, n in counts if n]


class TraceSession(NamedTuple):
    """The calls of one question; `root` is the outermost span of the first of them."""

    calls: list[Call]
    question: str | None
    spans: list[str]
    root: str | None
    context: Ranking | None


class _Asking(NamedTuple):
    """One time that a question was asked, by one call or answer."""

    query_id: str
    key: tuple[str, str]
    question: str | None
    begin: float = 0.0
    call: Call | None = None
    span_id: str = ""
    root: str | None = None
    answer: DocumentColumns | None = None


def sessions(
    traces: dict[str, Trace],
    texts: Texts,
    *,
    by_attribute: bool,
    remarks: Remarks,
) -> dict[str, TraceSession]:
    """Query id to its session, in the source's order; empties `traces`, to spare memory."""
    asked: dict[str, dict[tuple[str, str], list[_Asking]]] = {}
    for trace_id in list(traces):
        for asking in _askings(trace_id, traces.pop(trace_id), texts, by_attribute, remarks):
            asked.setdefault(asking.query_id, {}).setdefault(asking.key, []).append(asking)
    made = {}
    for query_id, times in asked.items():
        if query_id not in remarks.left_out:
            remarks.add(Remark.ASKED_AGAIN, len(times) > 1)
            last = max(times.values(), key=lambda askings: askings[0].begin)
            made[query_id] = _session(sorted(last, key=attrgetter("begin")))
    return made


def _session(askings: Sequence[_Asking]) -> TraceSession:
    calls: list[Call] = []
    spans, root, question = [], None, None
    for asking in askings:
        question = question or asking.question
        if asking.call is not None:
            root = root if calls else asking.root
            calls.append(asking.call)
            spans.append(asking.span_id)
    return TraceSession(calls, question or _only_query(calls), spans, root, _context(askings))


def _only_query(calls: Sequence[Call]) -> str | None:
    """The question of all calls, unless a tool asked: an agent wrote its words."""
    queries = {call.query for call in calls}
    is_own = len(queries) == 1 and not any(call.asked_by for call in calls)
    return next(iter(queries)) or None if is_own else None


def rankings(
    made: Mapping[str, TraceSession], combine: Combine = "first_seen"
) -> dict[str, Ranking]:
    """Rankings by query id; without calls if every question has exactly one retrieval."""
    is_plain = combine != "context" and all(
        len(session.calls) == 1 and session.calls[0].query in ("", session.question or "")
        for session in made.values()
    )
    if is_plain:
        return {
            query_id: replace(session.calls[0].ranking, context=session.context)
            for query_id, session in made.items()
        }
    if combine == "context":
        _check_contexts(made)
    return {query_id: _ranking(session, combine) for query_id, session in made.items()}


def _ranking(session: TraceSession, combine: Combine) -> Ranking:
    calls, context = session.calls, session.context
    if _has_failed(session):
        return Ranking(error=calls[-1].error, calls=tuple(calls))
    return combine_calls(calls, combine, context if calls or context else Ranking())


def _has_failed(session: TraceSession) -> bool:
    return bool(session.calls) and all(call.error is not None for call in session.calls)


def _check_contexts(made: Mapping[str, TraceSession]) -> None:
    silent = {query_id: session for query_id, session in made.items() if session.context is None}
    lacking = [key for key, session in silent.items() if session.calls and not _has_failed(session)]
    if lacking:
        share = f"{len(lacking):,} of {len(made):,} questions ({lacking[0]!r})"
        remedy = f"For {share} no span says what the answer is from."
        raise InvalidInput("combine", "context", "'first_seen', 'last' or 'rrf'", remedy)


def _context(askings: Sequence[_Asking]) -> Ranking | None:
    """The sources of the answers, each once, with texts also from the retrieval."""
    answers = [asking.answer for asking in askings if asking.answer is not None]
    if not answers:
        return None
    texts = {
        item: text
        for asking in askings
        if (call := asking.call) is not None and call.texts is not None
        for item, text in zip(call.ids, call.texts, strict=True)
    }
    scores: dict[str, float | None] = {}
    for answer in answers:
        of_answer = answer.scores or [None] * len(answer.ids)
        for item, score in zip(answer.ids, of_answer, strict=True):
            scores.setdefault(item, score)
        texts |= dict(zip(answer.ids, answer.texts or (), strict=False))
    is_scored = any(score is not None for score in scores.values())
    return Ranking(
        list(scores),
        [*scores.values()] if is_scored else None,
        [texts.get(item, "") for item in scores] if texts else None,
    )


def _askings(
    trace_id: str, trace: Trace, texts: Texts, by_attribute: bool, remarks: Remarks
) -> Iterator[_Asking]:
    """The retrievals and answers of a trace, by question; a question without any comes once."""
    seen: set[str] = set()
    n_beside = 0
    trace.ask_agents()
    for work, outer, call in _calls(trace, remarks):
        above = [work.span_id, *outer]
        askings = _questions(trace_id, trace, above, texts, by_attribute)
        n_beside += not askings
        seen.update(asking.query_id for asking in askings)
        if call is None:
            remarks.left_out.update(asking.query_id for asking in askings)
            continue
        for asking in askings:
            begin = work.begin or 0.0
            yield asking._replace(begin=begin, call=call, span_id=work.span_id, root=above[-1])
    inside = {work.span_id for work in trace.answers + trace.retrievals}
    for work in trace.answers:
        if trace.is_inside(work.span_id, inside):
            continue
        above = [*trace.above(work.span_id)]
        for asking in _questions(trace_id, trace, above, texts, by_attribute):
            if asking.query_id in seen:
                yield asking._replace(begin=work.begin or 0.0, answer=work.retrieved)
    remarks.add(Remark.UNKNOWN, bool(trace.retrievals) and not seen)
    remarks.add(Remark.BESIDE, n_beside if seen else 0)
    for asking in _silent(trace_id, trace, texts, by_attribute):
        if asking.query_id not in seen:
            seen.add(asking.query_id)
            yield asking


def _silent(trace_id: str, trace: Trace, texts: Texts, by_attribute: bool) -> Iterator[_Asking]:
    """The questions of a trace, whether or not anything was retrieved for them."""
    if by_attribute:
        for query_id in trace.question_ids.values():
            yield _Asking(query_id, ("", ""), trace.question)
        return
    for span_id, text in trace.asked.items():
        if not trace.is_inside(span_id, trace.asked):
            for query_id in texts[text]:
                yield _Asking(query_id, (trace_id, span_id), text)


def _questions(
    trace_id: str, trace: Trace, above: Sequence[str], texts: Texts, by_attribute: bool
) -> Sequence[_Asking]:
    """The questions that a span and those above it are for."""
    if by_attribute:
        named = next(filter(None, map(trace.question_ids.get, above)), None)
        # all that has the attribute is of one asking, in however many traces
        return () if named is None else [_Asking(named, ("", ""), trace.question)]
    if texts:
        top = next((span_id for span_id in reversed(above) if span_id in trace.asked), None)
        if top is None:
            return ()
        text = trace.asked[top]
        return [_Asking(query_id, (trace_id, top), text) for query_id in texts[text]]
    return [_Asking(trace_id, (trace_id, ""), trace.question)]


def _calls(trace: Trace, remarks: Remarks) -> Iterator[tuple[Work, Sequence[str], Call | None]]:
    """The outermost retrievals, the spans around them, and their calls, None where unknown."""
    answers = {work.span_id for work in trace.retrievals if work.is_answer or not work.is_readable}
    outermost, rerankings = (
        [work for work in works if not trace.is_inside(work.span_id, answers)]
        for works in (trace.retrievals, trace.rerankings)
    )
    within = {work.span_id: [*trace.above(work.span_id)][1:] for work in outermost + rerankings}
    covering = {
        span_id for work in outermost if work.span_id in answers for span_id in within[work.span_id]
    }
    answered: list[Work] = []
    for work in outermost:
        if not work.is_readable:
            remarks.add(Remark.UNREADABLE)
            yield work, within[work.span_id], None
        elif work.is_answer:
            answered.append(work)
        elif work.span_id not in covering:
            remarks.add(Remark.WITHOUT_DOCUMENTS)
            yield work, within[work.span_id], None
    reranked = _reranked(rerankings, answered, within, remarks)
    for work in answered:
        outer = within[work.span_id]
        yield work, outer, _call(trace, work, reranked.get(work.span_id, []), outer)


def _reranked(
    rerankings: Sequence[Work],
    answered: Sequence[Work],
    within: Mapping[str, Sequence[str]],
    remarks: Remarks,
) -> dict[str, list[Work]]:
    """Retrieval to its rerankings: subsets of its documents, after it, in the nearest span."""
    reranked: dict[str, list[Work]] = {}
    every = {work.span_id for work in rerankings}
    told = {work.span_id for work in rerankings if work.retrieved is not None}
    told.update(*(within[span_id] for span_id in told))
    for reranking in sorted(rerankings, key=lambda work: work.begin or 0.0):
        around = within[reranking.span_id]
        if reranking.retrieved is None:
            # a postprocessor calls others: of these, one that tells is enough
            if reranking.span_id not in told and every.isdisjoint(around):
                is_silent = reranking.error is None
                remarks.add(Remark.SILENT_RERANKINGS if is_silent else Remark.FAILED_RERANKINGS)
            continue
        ids = set(reranking.retrieved.ids)
        fitting = [
            work
            for work in answered
            if work.retrieved is not None
            and (work.begin or 0.0) <= (reranking.begin or 0.0)
            and ids <= set(work.retrieved.ids)
        ]
        nearest = max(
            fitting,
            key=lambda work: (len({*within[work.span_id]}.intersection(around)), work.begin or 0.0),
            default=None,
        )
        if nearest is None:
            remarks.add(Remark.STRAY)
        else:
            reranked.setdefault(nearest.span_id, []).append(reranking)
    return reranked


def _call(trace: Trace, work: Work, rerankings: Sequence[Work], above: Sequence[str]) -> Call:
    retrieved = work.retrieved
    if rerankings:
        retrieved = _reordered(retrieved, rerankings[-1].retrieved)
    seconds = [step.seconds for step in (work, *rerankings)]
    latency = None if None in seconds else sum(filter(None, seconds))
    asked_by = next((trace.tools[outer] for outer in above if outer in trace.tools), "")
    question = work.question or ""
    found = {} if work.error is not None or retrieved is None else retrieved._asdict()
    return Call(**found, latency=latency, error=work.error, query=question, asked_by=asked_by)


def _reordered(
    before: DocumentColumns | None, after: DocumentColumns | None
) -> DocumentColumns | None:
    """The reranked documents, with the texts from before where these have none."""
    if after is None or before is None or after.texts is not None or before.texts is None:
        return after
    texts = dict(zip(before.ids, before.texts, strict=True))
    return after._replace(texts=[texts.get(item, "") for item in after.ids])
