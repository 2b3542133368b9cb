"""Checking an LLM judge: the same texts again, at another place, with others; its own texts.

Of each query, the first texts of the ranking are graded without any cache: alone, twice; and in
calls of several: the same call twice, then in other orders, which move every text to another place.

The orders are rows of a Latin square: the first, turned. Where fewer are asked for than there are
texts, queries take different rows in turn, so that over the queries every place is compared with
every other equally often. The effect of a place then isn't mixed with those of its neighbours.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from random import Random
from typing import TypeAlias

import numpy as np
from llama_index.core.llms import LLM

from llama_index_rag_metrics.labels.judge_agreement import judged_grades
from llama_index_rag_metrics.labels.judge_check import GradeChange, JudgeCheck, SelfPreference
from llama_index_rag_metrics.metrics.texts import LLMRelevancy
from llama_index_rag_metrics.metrics.texts.llm_grades import HIGHEST
from llama_index_rag_metrics.metrics.texts.llm_judge import TextJudge
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.amounts import WORKERS, check_whole
from llama_index_rag_metrics.runtime.cache import Cache, Tally, Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError, ScorerFailed
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.retries import Refusal
from llama_index_rag_metrics.runtime.sync import each, in_thread, settled, synchronous
from llama_index_rag_metrics.statistics import MeanInterval, difference_intervals, mean_interval
from llama_index_rag_metrics.statistics.intervals import check_options, exact_mean, units_of
from llama_index_rag_metrics.statistics.kappa import Kappa, cohens_kappa

Own: TypeAlias = "Collection[str] | Mapping[str, Collection[str]]"
"""Ids of texts; or query id to those of its texts."""

Pair: TypeAlias = tuple[str, int, int]
"""A query, and two grades of the same text."""


@dataclass
class Look:
    """The grades of one query's texts.

    Attributes:
        query_id: the query.
        query: its text.
        texts: id to text.
        alone: id to its grades alone.
        calls: id to (place, grade), call by call; the first two have the same order.
    """

    query_id: str
    query: str
    texts: dict[str, str]
    alone: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls: list[dict[str, tuple[int, int]]] = field(default_factory=list)


def findings(
    looks: Sequence[Look],
    human: Mapping[str, RelevanceLike] | None,
    own: Own | None,
    *,
    confidence: float,
    model: str,
    texts_per_call: int,
    usage: Usage,
    notes: tuple[str, ...],
) -> JudgeCheck:
    """What looks come to; there is at least one, with a grade."""
    repeated = _change(
        [(look.query_id, *grades) for look in looks for grades in look.alone.values()], confidence
    )
    together = [
        (look.query_id, look.alone[item][0], grade)
        for look in looks
        for item, (_, grade) in (look.calls[0] if look.calls else {}).items()
    ]
    return JudgeCheck(
        model=model,
        n_queries=len(looks),
        texts_per_call=texts_per_call,
        repeated=repeated,
        repeated_together=_change_if_any(_between_calls(looks, again=True), confidence),
        moved=_change_if_any(_between_calls(looks, again=False), confidence),
        due_to_place=_due_to_place(looks, confidence),
        together=_change_if_any(together, confidence),
        places=_places(looks, confidence),
        preference=None if own is None else _preference(looks, human, own, confidence),
        kappa=None if human is None else _kappa(looks, human, confidence),
        usage=usage,
        confidence=confidence,
        notes=(*notes, *_notes(looks, human)),
    )


def _between_calls(looks: Iterable[Look], *, again: bool) -> Iterator[Pair]:
    """The grades of the first call beside those of the same again, or of those in other orders."""
    for look in looks:
        for call in look.calls[1:2] if again else look.calls[2:]:
            for item, (_, grade) in call.items():
                if item in look.calls[0]:
                    yield look.query_id, look.calls[0][item][1], grade


def _change_if_any(pairs: Iterable[Pair], confidence: float) -> GradeChange | None:
    graded = list(pairs)
    return _change(graded, confidence) if graded else None


def _change(pairs: Sequence[Pair], confidence: float) -> GradeChange:
    clusters = [query_id for query_id, *_ in pairs]
    changes = np.array([second - first for _, first, second in pairs], np.float64)
    is_changed = (changes != 0).astype(np.float64)
    return GradeChange(
        changed=mean_interval(is_changed, confidence=confidence, clusters=clusters),
        difference=_difference(changes.tolist(), clusters, HIGHEST, confidence),
        n=len(pairs),
        n_changed=int(is_changed.sum()),
    )


def _difference(
    differences: Sequence[float], clusters: Sequence[str], widest: float, confidence: float
) -> MeanInterval:
    column = np.array(differences, np.float64).reshape(-1, 1)
    units = units_of(column, clusters)
    (interval,) = difference_intervals(units, widest=widest, confidence=confidence)
    return interval


def _due_to_place(looks: Iterable[Look], confidence: float) -> MeanInterval | None:
    """Per text: share of other places with another grade, minus whether asking again gives one."""
    extra: list[float] = []
    clusters: list[str] = []
    for look in looks:
        for item, (_, grade) in (look.calls[0] if look.calls else {}).items():
            moved = [call[item][1] != grade for call in look.calls[2:] if item in call]
            if moved and item in look.calls[1]:
                extra.append(sum(moved) / len(moved) - (look.calls[1][item][1] != grade))
                clusters.append(look.query_id)
    return _difference(extra, clusters, 1.0, confidence) if extra else None


def _places(looks: Iterable[Look], confidence: float) -> dict[int, MeanInterval]:
    """Per place: grades there minus the mean grade of the same texts at other places."""
    effects: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for look in looks:
        orders = look.calls[1:]
        for item in orders[0] if orders else ():
            graded = [call[item] for call in orders if item in call]
            total = sum(grade for _, grade in graded)
            for place, grade in graded if len(graded) > 1 else ():
                elsewhere = (total - grade) / (len(graded) - 1)
                effects[place].append((look.query_id, grade - elsewhere))
    return {
        place: _difference(
            [effect for _, effect in of_place],
            [query_id for query_id, _ in of_place],
            HIGHEST,
            confidence,
        )
        for place, of_place in sorted(effects.items())
    }


def _notes(looks: Sequence[Look], human: Mapping[str, RelevanceLike] | None) -> Iterator[str]:
    """Whether people's grades are on another scale than the judge's, so that no number says much.

    Nobody says what the scale is; what was graded shows where it differs.
    """
    graded = _beside_people(looks, human or {})
    if not graded:
        return
    highest, theirs = max(grade for _, grade, _ in graded), max(grade for *_, grade in graded)
    if theirs > HIGHEST or theirs <= 1 < highest:
        yield (
            f"people's grades go up to {theirs:g} and the judge's to {highest}: kappa and the "
            f"comparison with people mean something on one scale only, from 0 to {HIGHEST}"
        )


def _preference(
    looks: Iterable[Look],
    human: Mapping[str, RelevanceLike] | None,
    own: Own,
    confidence: float,
) -> SelfPreference | None:
    """None where no query has texts of both kinds."""
    by_query: list[tuple[str, list[float], list[float]]] = []
    for look in looks:
        written = own.get(look.query_id, ()) if isinstance(own, Mapping) else own
        people = judged_grades(human or {}, look.query_id)
        kinds: tuple[list[float], list[float]] = ([], [])
        for item, grades in look.alone.items():
            if human is None or item in people:
                kinds[item not in written].append(
                    exact_mean(np.array(grades)) - people.get(item, 0)
                )
        if all(kinds):
            by_query.append((look.query_id, *kinds))
    if not by_query:
        return None
    means = [[exact_mean(np.array(kind)) for kind in kinds] for _, *kinds in by_query]
    ours, theirs = (exact_mean(np.array(column)) for column in zip(*means, strict=True))
    return SelfPreference(
        difference=_difference(
            [own_mean - other_mean for own_mean, other_mean in means],
            [query_id for query_id, *_ in by_query],
            HIGHEST if human is None else 2 * HIGHEST,
            confidence,
        ),
        own=ours,
        others=theirs,
        n_own=sum(len(kind) for _, kind, _ in by_query),
        n_others=sum(len(kind) for _, _, kind in by_query),
        is_controlled=human is not None,
    )


def _beside_people(
    looks: Iterable[Look], human: Mapping[str, RelevanceLike]
) -> list[tuple[str, int, float]]:
    """Query id, first grade alone and people's grade of every text that both graded."""
    return [
        (look.query_id, grades[0], people[item])
        for look in looks
        for people in [judged_grades(human, look.query_id)]
        for item, grades in look.alone.items()
        if item in people
    ]


def _kappa(
    looks: Iterable[Look], human: Mapping[str, RelevanceLike], confidence: float
) -> Kappa | None:
    """Of first grades alone with people's; None where they graded nothing alike."""
    graded = _beside_people(looks, human)
    if not graded:
        return None
    clusters, ours, theirs = zip(*graded, strict=True)
    return cohens_kappa(
        np.array(ours, np.float64), np.array(theirs), confidence=confidence, clusters=list(clusters)
    )


_TEXTS_PER_CALL = 5
_MOST_DESIGNS = 5_000
"""Choices of rows from a Latin square that are gone through; of more, some are drawn."""

_MOST_FAILURES = 20
"""In a row, from the beginning: then there is no use in asking on."""


async def acheck_judge(
    judge: LLMRelevancy | LLM,
    queries: Mapping[str, str],
    run: Run,
    *,
    human: Mapping[str, RelevanceLike] | None = None,
    own: Own | None = None,
    texts_per_call: int | None = None,
    orders: int = 3,
    most_queries: int = 30,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int = WORKERS,
) -> JudgeCheck:
    """Check how steady an LLM's grades are, and whether it prefers texts of its own.

    Every text is graded afresh: alone, twice; in one call with the other texts of its query, twice;
    and in the same call at other places. So what the place does is told from what mere asking again
    does. For 30 queries of 5 texts that takes 420 requests.

    Args:
        judge: the metric that grades, or its LLM.
        queries: query id to query.
        run: what was retrieved, with texts; the first of each query are looked at.
        human: people's grades from 0 to 3, by query and id: the judge's are compared with them.
        own: the ids of the texts that the judge's model wrote, for all queries or by query: they
            are compared with the others, query by query; with people's grades, what is compared is
            by how much the judge is above them.
        texts_per_call: how many texts of a query are looked at, and graded in one call; None: as
            the metric does, or 5 where it grades each alone.
        orders: in how many orders the texts of a call are graded.
        most_queries: how many queries are looked at; of more, as many are drawn at random.
        confidence: of the intervals. They take queries for units, since texts of one query belong
            together.
        seed: of the queries drawn, and of the orders.
        workers: how many queries are graded at once.

    Raises:
        InvalidInput: an argument can't be used, or there is nothing to grade.
        ScorerFailed: the LLM graded nothing; says how the first text failed, without secrets.

    Examples:
        >>> from llama_index.core.llms import CompletionResponse, MockLLM
        >>> from llama_index_rag_metrics import Ranking
        >>> class Generous(MockLLM):
        ...     def complete(self, prompt, formatted=False, **options):
        ...         return CompletionResponse(text="[3, 3]" if "number=" in prompt else "3")
        >>> run = Run({f"q{n}": Ranking(["a", "b"], texts=["one", "two"]) for n in range(20)})
        >>> queries = {query_id: "which?" for query_id in run}
        >>> check = check_judge(Generous(), queries, run)
        >>> check.moved.n_changed, check.moved.n, round(check.moved.changed.high, 2)
        (0, 40, 0.18)
    """
    if not isinstance(judge, (LLMRelevancy, LLM)):
        raise InvalidInput("judge", judge, "an LLM of LlamaIndex, or an LLMRelevancy")
    scorer = LLMRelevancy(llm=judge) if isinstance(judge, LLM) else judge
    if texts_per_call is None:
        texts_per_call = scorer.texts_per_call if scorer.texts_per_call > 1 else _TEXTS_PER_CALL
    for argument, number, least in (
        ("texts_per_call", texts_per_call, 2),
        ("orders", orders, 2),
        ("most_queries", most_queries, 2),
        ("workers", workers, 1),
    ):
        check_whole(argument, number, least)
    check_options(confidence, 100, seed)
    known = [query_id for query_id in queries if query_id in run and run[query_id].ids]
    if len(known) > most_queries:
        known = Random(int(seed)).sample(known, most_queries)
    looks = [_look(query_id, queries[query_id], run, texts_per_call) for query_id in known]
    llm, tally = await in_thread(scorer.chosen_llm), Tally()
    text_judge = TextJudge(
        llm, Cache(), tally, asked_by=scorer.metric_name, seed=seed, refusal=Refusal()
    )
    check = _Check(text_judge, orders, seed)
    await each(_numbered(looks), check.grade, workers)
    looks = [look for look in looks if look.alone]
    if not looks:
        remedy = "Do the ids of the queries occur in the run, and does it have texts?"
        if not check.failures:
            raise InvalidInput("run", run.name, "texts of the queries that can be graded", remedy)
        failure = check.failures[0]
        if isinstance(failure, RagMetricsError):
            raise failure
        raise ScorerFailed(scorer.metric_name, describe_error(failure))  # its cause may show a key
    return findings(
        looks,
        human,
        own,
        confidence=confidence,
        model=scorer.label or llm.metadata.model_name,
        texts_per_call=texts_per_call,
        usage=tally.usage,
        notes=tuple(check.notes(len(known) - len(looks))),
    )


check_judge = synchronous(acheck_judge)


def _look(query_id: str, query: str, run: Run, most: int) -> Look:
    """What is to be looked at; a text that comes twice counts as the first of them."""
    ranking = run[query_id]
    if ranking.texts is None:
        raise InvalidInput("run", query_id, "rankings with texts")
    ids: dict[str, str] = {}
    for item, text in zip(ranking.ids, ranking.texts, strict=True):
        if text.strip():
            ids.setdefault(text, item)
    return Look(query_id, query, {item: text for text, item in list(ids.items())[:most]})


def _numbered(looks: Iterable[Look]) -> Iterator[tuple[int, Look]]:
    """Looks, each with its number, from 0, among those of as many texts."""
    before: Counter[int] = Counter()
    for look in looks:
        yield before[len(look.texts)], look
        before[len(look.texts)] += 1


def turns(n: int, n_orders: int, number: int, seed: int) -> tuple[int, ...]:
    """By how many places each order of a query's texts is turned from the first, which is by 0.

    Args:
        n: how many texts there are.
        n_orders: how many orders, from 2 to n.
        number: of the query, from 0: so many queries as there are choices have each once.
        seed: of the order of the choices.

    Examples:
        >>> sorted(turns(4, 3, number, seed=0) for number in range(3))
        [(0, 1, 2), (0, 1, 3), (0, 2, 3)]
    """
    others = range(1, n)
    if comb(len(others), n_orders - 1) > _MOST_DESIGNS:
        drawn = Random(f"{seed}\n{number}").sample(others, n_orders - 1)
        return (0, *sorted(drawn))
    designs = [*combinations(others, n_orders - 1)]
    Random(int(seed)).shuffle(designs)
    return (0, *designs[number % len(designs)])


@dataclass
class _Check:
    """Grading, for one check.

    Attributes:
        failures: of texts that couldn't be graded alone.
        failed_calls: of calls with several texts.
    """

    judge: TextJudge
    orders: int
    seed: int
    failures: list[Exception] = field(default_factory=list)
    failed_calls: list[Exception] = field(default_factory=list)
    n_graded: int = 0

    async def grade(self, numbered: tuple[int, Look]) -> None:
        """Grade the texts of a query, unless nothing but failures came so far."""
        number, look = numbered
        if len(self.failures) >= _MOST_FAILURES and not self.n_graded:
            return
        alone = await asyncio.gather(
            *(self._alone(look.query, text) for text in look.texts.values())
        )
        graded = zip(look.texts, alone, strict=True)
        look.alone = {item: grades for item, grades in graded if grades is not None}
        self.n_graded += len(look.alone)
        look.calls = await self._calls(look, number)

    async def _alone(self, query: str, text: str) -> tuple[int, int] | None:
        both = await settled(self.judge.grade_in_order(query, [text]) for _ in range(2))
        grades: list[int] = []
        for graded in both:
            if isinstance(graded, Exception):
                self.failures.append(graded)
                return None
            grades += [grade for grade in graded if grade is not None]
        first, second = grades
        return first, second

    async def _calls(self, look: Look, number: int) -> list[dict[str, tuple[int, int]]]:
        items = list(look.alone)
        Random(f"{self.seed}\n{look.query}").shuffle(items)
        n = self.judge.n_fitting(look.query, [look.texts[item] for item in items])
        if n < 2:
            return []
        items = items[:n]
        turned = turns(n, min(self.orders, n), number, self.seed)
        calls = await asyncio.gather(
            *(self._call(look, items[turn:] + items[:turn]) for turn in (0, *turned))
        )
        return [] if None in calls else [call for call in calls if call is not None]

    async def _call(self, look: Look, items: Sequence[str]) -> dict[str, tuple[int, int]] | None:
        try:
            grades = await self.judge.grade_in_order(
                look.query, [look.texts[item] for item in items]
            )
        except Exception as error:  # noqa: BLE001 - noted
            self.failed_calls.append(error)
            return None
        placed = zip(items, enumerate(grades, 1), strict=True)
        return {item: (place, grade) for item, (place, grade) in placed if grade is not None}

    def notes(self, n_missing: int) -> Iterator[str]:
        """What went wrong.

        Args:
            n_missing: how many queries nothing was graded of.
        """
        if n_missing:
            yield f"nothing could be graded of {counted(n_missing)}"
        if self.failures:
            texts = counted(len(self.failures), "text", "texts")
            yield f"{texts} got no grade, such as: {describe_error(self.failures[0], 200)}"
        if self.failed_calls:
            calls = counted(len(self.failed_calls), "call", "calls")
            error = describe_error(self.failed_calls[0], 200)
            yield f"{calls} with several texts gave no grades, such as: {error}"
