"""Asking every query of a dataset, several at once, with a journal of those that are finished."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from llama_index.core.evaluation.retrieval.metrics_base import RetrievalMetricResult
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.dispatcher import active_instrument_tags, instrument_tags  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import NullEventHandler
from llama_index.core.instrumentation.span_handlers import NullSpanHandler

from llama_index_rag_metrics.evaluation.asking.answers_kept import Asking, Journal, answers_to
from llama_index_rag_metrics.evaluation.asking.query import Asked, Asker, Question
from llama_index_rag_metrics.evaluation.retrieved.run_matching import count_by_text
from llama_index_rag_metrics.evaluation.who_asks import Query, Told
from llama_index_rag_metrics.rankings.matching.id_matcher import NOT_VALID, LabelCheck
from llama_index_rag_metrics.rankings.matching.matched import Matched, expected_texts, match_run
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.numbers import whole_seconds
from llama_index_rag_metrics.runtime.errors import InvalidInput, QueryTimeout, RetrievalFailed
from llama_index_rag_metrics.runtime.masking import mask
from llama_index_rag_metrics.runtime.progress import Advance, progress
from llama_index_rag_metrics.runtime.retries import refuses_key
from llama_index_rag_metrics.runtime.sync import in_thread, loop_watched, out_of_reach
from llama_index_rag_metrics.runtime.usage import Usage
from llama_index_rag_metrics.scores.scoring.notes import Cut

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.evaluator import Plan

# the beginning of the error of a query that came after a run was given up
NOT_ASKED = "not asked: "
RETRIEVER = "the retriever"  # the key of the retriever's failures; metrics have their names


class FailedQueries:
    """Stops asking a retriever, or a metric, whose service refuses the key."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._answered: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._unasked: Counter[str] = Counter()

    def succeeded(self, component: str) -> None:
        self._answered.add(component)

    def record(self, component: str, error: str, status: int | None = None) -> None:
        """Note a failed query of a metric or the `RETRIEVER`; `status` is of an HTTP answer."""
        if refuses_key(status, has_answered=component in self._answered):
            self._reasons.setdefault(component, f"the service refuses the key: {error}")

    def unasked(self, component: str) -> str | None:
        """The error of a query that isn't asked any more; None where it is to be asked."""
        if (reason := self._reasons.get(component)) is None:
            return None
        self._unasked[component] += 1
        return f"{NOT_ASKED}{reason}"

    @property
    def notes(self) -> Iterator[str]:
        for component, reason in self._reasons.items():
            if n := self._unasked[component]:
                queries = f"{n} of {self._total} questions"
                counted = ", which count as failed" if component == RETRIEVER else ""
                yield f"{component} wasn't asked for {queries}{counted}, since {reason}"


QUERY_ID = "rag_metrics.query_id"  # the tag that names the question, on every span and event of it
_dispatcher = get_dispatcher(__name__)


async def ask_traced(ask: Callable[[Query], Awaitable[Asked]], query: Query) -> Asked:
    """Ask a question, in a span and with a tag of its own where anybody listens."""
    root = get_dispatcher()
    handlers = [*root.span_handlers, *root.event_handlers]
    if all(isinstance(handler, (NullSpanHandler, NullEventHandler)) for handler in handlers):
        return await ask(query)
    with instrument_tags({**active_instrument_tags.get(), QUERY_ID: query.query_id}):
        question = EvaluatedQuestion(partial(ask, query))
        asked: Asked = await question.evaluate(query_id=query.query_id, query=query.query_str)
        return asked


class EvaluatedQuestion:
    def __init__(self, ask: Callable[[], Awaitable[Asked]]) -> None:
        self._ask = ask

    @_dispatcher.span  # type: ignore[untyped-decorator, unused-ignore]
    async def evaluate(self, query_id: str, query: str) -> Any:
        return await self._ask()


_SLOW_QUERY_SECONDS = 3.0  # after this long the progress bar names the query that is waited for


@dataclass
class Collected:
    """The outcome of asking a dataset once."""

    run: Run = field(default_factory=Run)
    results: dict[str, dict[str, RetrievalMetricResult]] = field(default_factory=dict)
    metric_errors: dict[str, dict[str, str]] = field(default_factory=dict)
    label_note: str | None = None
    notes: tuple[str, ...] = ()
    matched: dict[str, Matched] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)

    @property
    def is_invalid(self) -> bool:
        """Whether labels name what was retrieved otherwise than by its ids."""
        return (self.label_note or "").startswith(NOT_VALID)


class QueryRunner:
    """Asks the queries of a dataset, once or several times, but for what is `stored` of each."""

    def __init__(
        self,
        asker: Asker,
        plan: Plan,
        *,
        metrics: Sequence[str] = (),
        by_id: bool = True,
        journal: Journal | None = None,
        told: Told | None = None,
        stored: Sequence[Mapping[str, Ranking]] = (),
    ) -> None:
        self.asker, self.plan = asker, plan
        self.dataset, self.options = dataset, options = plan.questions, plan.options
        self.counter = plan.counter
        self.metrics = metrics
        self.journal, self.told = journal, told
        if journal is not None:
            self._finished = answers_to(dataset, journal.rows)
        else:
            self._finished = {
                Asking(query_id, time): ranking
                for time, rankings in enumerate(stored, 1)
                for query_id, ranking in rankings.items()
            }
        self._cut = Cut()
        times = range(1, options.repeats + 1)
        self._askings = [Asking(query_id, time) for time in times for query_id in dataset.queries]
        self._failures = FailedQueries(len(self._askings))
        self._under_way: dict[Asking, float] = {}
        labels = {label for relevance in dataset.relevance.values() for label in relevance}
        self._labels = LabelCheck(labels if by_id else (), options.match_on, dataset.corpus)
        self._rankings: dict[Asking, Ranking] = {}
        self._notes: dict[str, None] = {}
        self._answered = bool(self._finished)
        self._stopping = False
        self._collected = {
            time: Collected(
                results={metric: {} for metric in metrics},
                metric_errors={metric: {} for metric in metrics},
            )
            for time in times
        }

    async def collect(self) -> list[Collected]:
        """Ask every query, several at once."""
        options, askings = self.options, self._askings
        finished = self._finished
        shown = progress(
            options.name or "evaluating",
            len(askings),
            sum(asking in finished for asking in askings),
            options.show_progress,
            self._waiting,
        )
        watched = loop_watched(options.timeout, self._held_up)
        with closing(self.asker), watched, shown as advance:
            tasks: list[asyncio.Task[None]] = []
            ticking = out_of_reach(asyncio.create_task(_tick(advance)))
            try:
                todo = iter(askings)
                tasks = [
                    out_of_reach(asyncio.create_task(self._work(todo, finished, advance)))
                    for _ in range(options.workers)
                ]
                # gather() would wait for its tasks when cancelled, before anything stops them
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
                for task in ended:
                    task.result()
            finally:
                self._stopping = True
                for task in (*tasks, ticking):
                    task.cancel()
                await asyncio.gather(*tasks, ticking, return_exceptions=True)
        return await self._finish()

    async def _finish(self) -> list[Collected]:
        for time, collected in self._collected.items():
            queries = self.dataset.queries
            rankings = {query_id: self._rankings[Asking(query_id, time)] for query_id in queries}
            collected.run = Run(rankings, name=self.options.name)
            collected.run.min_score = self.plan.min_score
            if (matcher := self.options.matcher) is not None:
                matched = await in_thread(match_run, collected.run, self.dataset, matcher)
                collected.matched = {matched.matcher: matched}
        first, *_ = every = [*self._collected.values()]
        self._notes |= dict.fromkeys(self._cut.notes)
        first.notes = (*self._resumed, *self._notes, *self._failures.notes, *self.asker.notes)
        is_lost = self._labels.are_strange
        came = await in_thread(count_by_text, self.dataset, first.run) if is_lost else None
        said = ([matched.label_note for matched in each.matched.values()] for each in every)
        # what any run recognised isn't lost
        notes = [of_matcher[0] for of_matcher in zip(*said, strict=True) if all(of_matcher)]
        first.label_note = next(filter(None, [self._labels.note(came), *notes]), None)
        return every

    @property
    def _resumed(self) -> list[str]:
        """How many answers the journal brought back, if any."""
        n_kept = sum(asking in self._finished for asking in self._askings)
        if self.journal is None or n_kept == 0:
            return []
        return [self.journal.resumed(n_kept, len(self._askings) - n_kept)]

    async def _work(
        self, todo: Iterator[Asking], finished: Mapping[Asking, Ranking], advance: Advance
    ) -> None:
        for asking in todo:
            if self._stopping:
                return
            query_id = asking.query_id
            self._under_way[asking] = monotonic()
            ranking = finished.get(asking)
            if ranking is None:
                ranking = await self._ask(asking)
                advance(failed=ranking.error is not None)
            else:
                self._labels.see(ranking.ids)
                ranking = self._with_texts(ranking)
            if self.options.min_score is not None:
                uncut, ranking = ranking, ranking.at_least(self.options.min_score, query_id)
                self._cut += Cut.of(uncut, ranking)
            self._rankings[asking] = ranking
            await self._compute(asking, ranking)
            del self._under_way[asking]

    def _held_up(self) -> QueryTimeout:
        """Close the journal, and make the error of a loop that a query blocks."""
        if self.journal is not None:
            self.journal.close()
        under_way = " or ".join(repr(asking.query_id) for asking in self._under_way)
        remedy = "Ask in threads (use_async=False), or give the retriever a timeout of its own."
        remark = f": asynchronous code holds up the event loop, asked for {under_way}. {remedy}"
        return QueryTimeout(self.options.timeout or 0.0, remark)

    def _waiting(self) -> str:
        """Name the query that has been waiting longest, if that is long."""
        asking, since = next(iter(self._under_way.items()), (Asking(""), monotonic()))
        waited = monotonic() - since
        is_long = waited > _SLOW_QUERY_SECONDS
        return f"{asking.query_id} has been waiting for {whole_seconds(waited)}" if is_long else ""

    async def _ask(self, asking: Asking) -> Ranking:
        if (unasked := self._failures.unasked(RETRIEVER)) is not None:
            return Ranking(error=unasked)
        query_id = asking.query_id
        query = self.plan.query(query_id)
        asked = await ask_traced(self.asker.ask, query)
        ranking = asked.ranking
        if ranking.error is not None:
            if asked.refusal is not None and not self._answered:
                raise asked.refusal
            if self.options.raise_on_error:
                # a cause that holds a key would show it in the traceback
                is_safe = mask(str(asked.cause)) == str(asked.cause)
                raise RetrievalFailed(query_id, ranking.error) from asked.cause if is_safe else None
            self._failures.record(RETRIEVER, ranking.error, asked.status)
            return ranking
        self._failures.succeeded(RETRIEVER)
        at_once = min(self.options.workers, len(self._askings))
        ranking = replace(self._with_texts(ranking), concurrency=at_once)
        self._labels.see([*ranking.ids, *asked.dropped], asked.names)
        self._answered |= bool(ranking.ids)
        self._notes.update(dict.fromkeys(asked.notes))
        if self.journal is not None:
            self.journal.record(asking, query, self.told, ranking)
        return ranking

    def _with_texts(self, ranking: Ranking) -> Ranking:
        if all(ranking.texts or ()):
            return ranking
        corpus = self.dataset.corpus
        texts = [
            text or (self.dataset.indexed_text(item) if item in corpus else "")
            for item, text in zip(ranking.ids, ranking.texts or (), strict=True)
        ]
        if self.counter is None:
            return replace(ranking, texts=texts)
        unknown = [item for item, text in zip(ranking.ids, texts, strict=True) if not text]
        if unknown:
            self._check_tokens_are_needless(unknown[0])
            return replace(ranking, texts=texts, tokens=None)
        counted = zip(ranking.texts or (), texts, ranking.tokens or (), strict=True)
        tokens = [n if own else self.counter.count([text])[0] for own, text, n in counted]
        return replace(ranking, texts=texts, tokens=tokens)

    def _check_tokens_are_needless(self, item: str) -> None:
        """Refuse a passage without a text where a metric counts tokens."""
        if any("tokens" in getattr(metric, "needs", ()) for metric in self.plan.metrics):
            expected = "a text, whose tokens can be counted"
            remedy = "Return nodes that have texts, or give the dataset a corpus that has them."
            raise InvalidInput(f"retrieved {item!r}", "", expected, remedy)

    async def _compute(self, asking: Asking, ranking: Ranking) -> None:
        if not self.metrics:
            return
        dataset, query_id = self.dataset, asking.query_id
        collected = self._collected[asking.repeat]
        question = Question(
            dataset.queries[query_id],
            dataset.relevance.get(query_id),
            dataset.expected_texts.get(query_id),
            expected_texts(dataset, query_id),
        )
        unasked = {
            metric: error for metric in self.metrics if (error := self._failures.unasked(metric))
        }
        for metric, error in unasked.items():
            collected.metric_errors[metric][query_id] = error
        computed = await self.asker.compute(question, ranking, unasked)
        for metric, usage in computed.usage.items():
            collected.usage[metric] = collected.usage.get(metric, Usage()) + usage
        for metric, result in computed.results.items():
            if isinstance(result, str):
                collected.metric_errors[metric][query_id] = result
                self._failures.record(metric, result, computed.statuses.get(metric))
                continue
            collected.results[metric][query_id] = result
            if ranking.error is None:
                self._failures.succeeded(metric)


async def _tick(advance: Advance) -> None:
    while True:
        await asyncio.sleep(1)
        advance(done=0)
