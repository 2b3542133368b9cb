"""Checking an LLM judge: the same texts graded again, at another place, and with others.

The orders of a call are rows of a Latin square, other ones for each query in turn.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from operator import mul
from random import Random
from typing import Any, TypeAlias, cast

import numpy as np
from llama_index.core.llms import LLM

from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.review.reviewers import graded_by_both
from llama_index_rag_metrics.metrics.texts import LLMRelevancy
from llama_index_rag_metrics.metrics.texts.llm_judge import HIGHEST, TextJudge
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import (
    between,
    counted,
    digits_for,
    kappa_in_words,
    mean_of,
    percent,
    questions,
    score,
    signed,
    whole_percent,
)
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.amounts import WORKERS, check_integer
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.cache.fetching import Cache, Tally, Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError, ScorerFailed
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.retries import Refusal
from llama_index_rag_metrics.runtime.sync import each, in_thread, settled, synchronous
from llama_index_rag_metrics.statistics.differences import difference_intervals, t_p
from llama_index_rag_metrics.statistics.intervals import (
    MeanInterval,
    check_options,
    excludes_0,
    mean_interval,
    units_of,
)
from llama_index_rag_metrics.statistics.kappa import MODERATE, Kappa, cohens_kappa
from llama_index_rag_metrics.statistics.resampling import Units

Pair: TypeAlias = tuple[str, int, int]  # A query, and two grades of the same text
Call: TypeAlias = dict[str, tuple[int, int]]  # id of a text to its place in a call and its grade
_TEXTS_PER_CALL = 5
_MOST_DESIGNS = 5_000  # choices of rows that are gone through in turn; of more, some are drawn
_MOST_FAILURES = 20  # failures in a row, from the beginning, after which nothing more is asked


@dataclass(frozen=True)
class GradeChange:
    """Texts graded twice: the share that changed, and the second grade minus the first."""

    changed: MeanInterval
    difference: MeanInterval
    n: int
    n_changed: int


@dataclass(frozen=True)
class PlaceEffect:
    """The mean change of a text's grade with each place further back, and its t-test."""

    slope: MeanInterval
    p_value: float


@dataclass(frozen=True, repr=False)
class JudgeCheck(Reportable):
    """How steady an LLM's grades are, and whether they depend on the place in a call.

    Attributes:
        model: what the LLM is called.
        n_queries: how many queries were looked at.
        texts_per_call: how many texts a call had at most.
        repeated: texts graded alone, twice: `changed`, the share whose grade differs, and
            `difference`, the second grade minus the first, with intervals; `n` and `n_changed`.
        repeated_together: texts graded in the same call, twice.
        moved: texts graded at another place in the call.
        due_to_place: share that changes at another place, minus share that changes in the same call
            asked again.
        together: texts graded alone, and then with others.
        place: `slope`, by how much a grade changes with each place further back (below 0, texts at
            the front get more), and `p_value`, two-sided; None where no text was moved.
        kappa: agreement with people's grades; None where there are none.
        own_kappa: agreement of the first grades alone with the second ones.
        is_on_scale: whether people's grades look as if they were on the judge's scale; kappa means
            nothing if not.
        usage: what the check took.
        confidence: of the intervals.
        notes: what a reader of the numbers should know.

    Examples:
        >>> from llama_index.core.llms import CompletionResponse, MockLLM
        >>> from llama_index_rag_metrics import Ranking, Run, check_judge
        >>> class Steady(MockLLM):
        ...     def complete(self, prompt, formatted=False, **options):
        ...         return CompletionResponse(text="Grade: 3")
        >>> run = Run({"q1": Ranking(["a"], texts=["Enceladus has geysers."])})
        >>> check = check_judge(Steady(), {"q1": "Which moon?"}, run)
        >>> check.n_queries, check.repeated.n_changed, check.repeated.n
        (1, 0, 1)
    """

    model: str
    n_queries: int
    texts_per_call: int
    repeated: GradeChange
    repeated_together: GradeChange | None
    moved: GradeChange | None
    due_to_place: MeanInterval | None
    together: GradeChange | None
    place: PlaceEffect | None
    kappa: Kappa | None
    usage: Usage
    confidence: float
    notes: tuple[str, ...]
    own_kappa: Kappa | None = None
    is_on_scale: bool = True

    def report(self, *, full: bool = False) -> m.Report:
        """Every check in words and numbers, a row each."""
        return _report(self)


async def acheck_judge(
    judge: LLMRelevancy | LLM,
    queries: Mapping[str, str],
    run: Run,
    *,
    human: Mapping[str, RelevanceLike] | None = None,
    texts_per_call: int | None = None,
    orders: int = 3,
    most_queries: int = 30,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int = WORKERS,
) -> JudgeCheck:
    """Check how steady an LLM's grades are, and whether they depend on the place in a call.

    Every text is graded afresh: alone, twice; in one call with the other texts of its query, twice;
    and in the same call at other places. So the effect of the place is told from that of asking
    again. 30 queries of 5 texts take 420 requests.

    Args:
        judge: the metric that grades, or its LLM.
        queries: query id to query.
        run: what was retrieved, with texts; the first of each query are graded.
        human: people's grades from 0 to 3, by query and id, to compare with.
        texts_per_call: how many texts of a query are graded, alone and in one call; None: as many
            as the metric grades in a call, or 5 where it grades each alone.
        orders: in how many orders the texts of a call are graded.
        most_queries: how many queries are graded, drawn at random where there are more.
        confidence: of the intervals, with queries as units.
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
    check_integer("texts_per_call", texts_per_call, 2)
    check_integer("orders", orders, 2)
    check_integer("most_queries", most_queries, 2)
    check_integer("workers", workers)
    check_options(confidence, 100, seed)
    known = [query_id for query_id in queries if query_id in run and run[query_id].ids]
    if len(known) > most_queries:
        known = Random(int(seed)).sample(known, most_queries)
    asked = [_first_texts(query_id, queries[query_id], run, texts_per_call) for query_id in known]
    llm, tally, by = await in_thread(scorer.chosen_llm), Tally(), scorer.metric_name
    text_judge = TextJudge(llm, Cache(), tally, asked_by=by, seed=seed, refusal=Refusal())
    check = _Check(text_judge, orders, seed)
    await each(asked, check.grade, workers)
    by_query = [of_query for of_query in asked if of_query.alone]
    if not by_query:
        if not check.failures:
            remedy = "Are the questions' ids in the run, and does it have texts?"
            raise InvalidInput("run", run.name, "texts of the questions that can be graded", remedy)
        failure = check.failures[0]
        if isinstance(failure, RagMetricsError):
            raise failure
        raise ScorerFailed(by, describe_error(failure))  # its cause may show a key
    pairs = _pairs(by_query)
    changes = {name: _change(graded, confidence) for name, graded in pairs.items()}
    first_grades = {
        of_query.query_id: {item: grades[0] for item, grades in of_query.alone.items()}
        for of_query in by_query
    }
    by_people = graded_by_both(first_grades, human or {})
    scale_note = _scale_note(by_people)
    return JudgeCheck(
        model=scorer.label or llm.metadata.model_name,
        n_queries=len(by_query),
        texts_per_call=texts_per_call,
        repeated=changes["repeated"],
        repeated_together=changes.get("repeated_together"),
        moved=changes.get("moved"),
        due_to_place=_due_to_place(by_query, confidence),
        together=changes.get("together"),
        place=_place_effect(by_query, confidence),
        kappa=_kappa(by_people, confidence) if by_people else None,
        usage=tally.usage,
        confidence=confidence,
        notes=(*check.notes(len(asked) - len(by_query)), *scale_note),
        own_kappa=_kappa(pairs["repeated"], confidence),
        is_on_scale=not scale_note,
    )


check_judge = synchronous(acheck_judge)


@dataclass
class QueryGrades:
    """The grades of one query's texts: alone twice, and by call; the first two have one order."""

    query_id: str
    query: str
    texts: dict[str, str]
    alone: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)


def _first_texts(query_id: str, query: str, run: Run, most: int) -> QueryGrades:
    ranking = run[query_id]
    if ranking.texts is None:
        raise InvalidInput("run", query_id, "rankings with texts")
    ids: dict[str, str] = {}
    for item, text in zip(ranking.ids, ranking.texts, strict=True):
        if text.strip():
            ids.setdefault(text, item)
    return QueryGrades(query_id, query, {item: text for text, item in list(ids.items())[:most]})


def turns(n: int, n_orders: int, number: int, seed: int) -> tuple[int, ...]:
    """By how many places each order of n texts is turned; `number` is that of the query."""
    others = range(1, n)
    if comb(len(others), n_orders - 1) > _MOST_DESIGNS:
        return (0, *sorted(Random(f"{seed}\n{number}").sample(others, n_orders - 1)))
    designs = [*combinations(others, n_orders - 1)]
    Random(int(seed)).shuffle(designs)
    return (0, *designs[number % len(designs)])


@dataclass
class _Check:
    judge: TextJudge
    orders: int
    seed: int
    failures: list[Exception] = field(default_factory=list)
    failed_calls: list[Exception] = field(default_factory=list)
    n_graded: int = 0
    # number of texts to the queries before that had as many
    n_before: Counter[int] = field(default_factory=Counter)

    async def grade(self, of_query: QueryGrades) -> None:
        number = self.n_before[len(of_query.texts)]
        self.n_before[len(of_query.texts)] += 1
        if len(self.failures) >= _MOST_FAILURES and not self.n_graded:
            return
        texts = of_query.texts.values()
        alone = await asyncio.gather(*(self._alone(of_query.query, text) for text in texts))
        graded = zip(of_query.texts, alone, strict=True)
        of_query.alone = {item: grades for item, grades in graded if grades is not None}
        self.n_graded += len(of_query.alone)
        of_query.calls = await self._calls(of_query, number)

    async def _alone(self, query: str, text: str) -> tuple[int, int] | None:
        both = await settled(self.judge.grade_in_order(query, [text]) for _ in range(2))
        if failed := [grades for grades in both if isinstance(grades, Exception)]:
            self.failures.append(failed[0])
            return None
        ((first,), (second,)) = cast("list[list[int]]", both)
        return first, second

    async def _calls(self, of_query: QueryGrades, number: int) -> list[Call]:
        items = list(of_query.alone)
        Random(f"{self.seed}\n{of_query.query}").shuffle(items)
        n = self.judge.n_fitting(of_query.query, [of_query.texts[item] for item in items])
        if n < 2:
            return []
        items = items[:n]
        turned = turns(n, min(self.orders, n), number, self.seed)
        orders = [items[turn:] + items[:turn] for turn in (0, *turned)]
        texts = ([of_query.texts[item] for item in order] for order in orders)
        answers = await settled(self.judge.grade_in_order(of_query.query, each) for each in texts)
        self.failed_calls += [grades for grades in answers if isinstance(grades, Exception)]
        calls = [
            {order[n]: (n + 1, grade) for n, grade in enumerate(grades) if grade is not None}
            for order, grades in zip(orders, answers, strict=True)
            if not isinstance(grades, Exception)
        ]
        return calls if len(calls) == len(orders) else []

    def notes(self, n_missing: int) -> Iterator[str]:
        if n_missing:
            yield f"nothing could be graded of {questions(n_missing)}"
        texts = counted(len(self.failures), "text", "texts")
        calls = counted(len(self.failed_calls), "call", "calls")
        for error in self.failures[:1]:
            yield f"{texts} got no grade, such as: {describe_error(error, 200)}"
        for error in self.failed_calls[:1]:
            said = describe_error(error, 200)
            yield f"{calls} with several texts gave no grades, such as: {said}"


def _pairs(by_query: Iterable[QueryGrades]) -> dict[str, list[Pair]]:
    """Two grades of each text, by the name of the comparison in `JudgeCheck`."""
    pairs: list[tuple[str, Pair]] = []
    for of_query in by_query:
        query_id, alone = of_query.query_id, of_query.alone
        pairs += [("repeated", (query_id, *grades)) for grades in alone.values()]
        first: Call = of_query.calls[0] if of_query.calls else {}
        for number, call in enumerate(of_query.calls):
            name = ("together", "repeated_together", "moved")[min(number, 2)]
            for item in [item for item in call if item in first]:
                before = first[item][1] if number else alone[item][0]
                pairs.append((name, (query_id, before, call[item][1])))
    return grouped(pairs)


def _change(pairs: Sequence[Pair], confidence: float) -> GradeChange:
    clusters = [query_id for query_id, *_ in pairs]
    changes = np.array([second - first for _, first, second in pairs], np.float64)
    is_changed = (changes != 0).astype(np.float64)
    share = mean_interval(is_changed, confidence=confidence, clusters=clusters)
    difference = _difference(changes, clusters, HIGHEST, confidence)
    return GradeChange(share, difference, len(pairs), int(is_changed.sum()))


def _difference(
    differences: FloatArray, clusters: Sequence[str], widest: float, confidence: float
) -> MeanInterval:
    units = units_of(differences.reshape(-1, 1), clusters)
    (interval,) = difference_intervals(units, widest=widest, confidence=confidence)
    return interval


def _due_to_place(by_query: Iterable[QueryGrades], confidence: float) -> MeanInterval | None:
    """Per text: share of other places with another grade, minus whether asking again gives one."""
    extra: list[tuple[str, float]] = []
    for of_query in (of_query for of_query in by_query if of_query.calls):
        first, same, *others = of_query.calls
        for item, (_, grade) in first.items():
            moved = [call[item][1] != grade for call in others if item in call]
            if moved and item in same:
                more = sum(moved) / len(moved) - (same[item][1] != grade)
                extra.append((of_query.query_id, more))
    clusters, shares = [key for key, _ in extra], np.array([more for _, more in extra], np.float64)
    return _difference(shares, clusters, 1.0, confidence) if extra else None


def _place_effect(by_query: Iterable[QueryGrades], confidence: float) -> PlaceEffect | None:
    """The t-test of the queries' slopes: least squares of grade on place, by text."""
    slopes: list[float] = []
    steepest = 0.0  # that grades from 0 to HIGHEST allow at these places
    for of_query in by_query:
        centred = [np.empty((0, 2))]  # each less the mean of its text: better texts don't count
        for item in of_query.calls[1] if of_query.calls else ():
            placed = np.array([call[item] for call in of_query.calls[1:] if item in call], float)
            centred.append(placed - placed.mean(axis=0))
        places, grades = np.concatenate(centred).T.tolist()
        if spread := math.fsum(place * place for place in places):
            slopes.append(math.fsum(map(mul, places, grades)) / spread)
            steepest = max(steepest, HIGHEST / 2 * math.fsum(map(abs, places)) / spread)
    if not slopes:
        return None
    units = Units.of(np.array(slopes, np.float64).reshape(-1, 1))
    widest, possible = max(map(abs, slopes)) or steepest, np.array([[-steepest, steepest]])
    (slope,) = difference_intervals(units, widest=widest, confidence=confidence, possible=possible)
    return PlaceEffect(slope, float(t_p(units)[0]))


def _kappa(graded: Sequence[tuple[str, float, float]], confidence: float) -> Kappa:
    clusters, first, second = zip(*graded, strict=True)
    grades = np.array(first, np.float64), np.array(second, np.float64)
    return cohens_kappa(*grades, confidence=confidence, clusters=list(clusters))


def _scale_note(graded: Sequence[tuple[str, float, float]]) -> list[str]:
    highest = max((grade for _, grade, _ in graded), default=0)
    by_people = max((grade for *_, grade in graded), default=0.0)
    if by_people <= HIGHEST and not by_people <= 1 < highest:
        return []
    extent = f"people's grades go up to {by_people:g} and the judge's to {highest:g}"
    return [f"{extent}: kappa needs one scale, from 0 to {HIGHEST}"]


_EXPLAINED = (
    "The same passages graded twice. Changed: the share with another grade. Mean change: the "
    "second grade minus the first, and its interval."
)
_STEADINESS = "Steadiness"
_UNKNOWN = "Whether this judge agrees with people is unknown"
_HEAD = ("grades", "changed", "mean change", "interval")


def _report(check: JudgeCheck) -> m.Report:
    changes = {
        "alone, asked again": check.repeated,
        f"same call of {check.texts_per_call}, asked again": check.repeated_together,
        "at another place in the call": check.moved,
        "in the call instead of alone": check.together,
    }
    known = {label: change for label, change in changes.items() if change is not None}
    table = m.Table("", _HEAD, [[_row(*change) for change in known.items()]], "the same passages")
    level = f"{percent(check.confidence)} intervals, with questions as units."
    passages = counted(check.repeated.n, "passage", "passages")
    requests = counted(check.usage.requests, "request", "requests")
    records = [
        _record(label, change.difference, change.changed, n=change.n)
        for label, change in known.items()
    ]
    if extra := check.due_to_place:
        records.append(_record("changes due to the place", extra, n=extra.n))
    if (place := check.place) is not None:
        slope, p_value = place.slope, place.p_value
        records.append(_record("each place further back", slope, n=slope.n, p_value=p_value))
    return m.Report(
        title=f"Check of the judge {check.model}".rstrip(),
        lead=f"{questions(check.n_queries)}, {passages}, {requests}",
        decision=[_decision(check), *_statements(check)],
        sections=[m.Section(_STEADINESS, [table], f"{_EXPLAINED} {level}")],
        notes=[*check.notes, str(check.usage)],
        records=m.Records.of(records, records[0]),
    )


def _row(label: str, change: GradeChange) -> m.Row:
    changed, difference, digits = change.changed, change.difference, _digits(change.difference)
    share = mean_of(m.Cell(changed.mean, "score", low=changed.low, high=changed.high), change.n)
    mean = m.Cell(difference.mean, "signed", digits=digits)
    bounds = m.Cell(None, "range", low=difference.low, high=difference.high, digits=digits)
    return m.Row(label, [m.Cell(change.n, "count"), share, mean, bounds])


def _record(
    label: str, difference: MeanInterval, changed: MeanInterval | None = None, **named: float
) -> dict[str, Any]:
    columns = {
        f"{name}{suffix}": interval and getattr(interval, field)
        for name, interval in {"changed": changed, "difference": difference}.items()
        for suffix, field in {"": "mean", "_low": "low", "_high": "high"}.items()
    }
    return {"check": label, "n": 0, **columns, "p_value": None, **named}


def _decision(check: JudgeCheck) -> m.Statement:
    kappa, own = check.kappa, check.own_kappa
    if kappa is None and own is not None and own.is_moderate is False:
        found = f"{kappa_in_words(own)} on {counted(own.n, 'passage', 'passages')}"
        text = f"Don't use this judge: asked twice, it hardly agrees with itself, {found}."
        return m.Statement(text, "alarm", evidence=_STEADINESS)
    if kappa is None:
        how = "give people's grades of some of the passages, as human= or --human FILE"
        return m.Statement(f"{_UNKNOWN}: {how}.", "open")
    if not check.is_on_scale:
        return m.Statement(f"{_UNKNOWN}: their grades are on another scale.", "open")
    passages = counted(kappa.n, "passage", "passages")
    if math.isnan(kappa.kappa) or kappa.low is None or kappa.high is None:
        return m.Statement(f"{_UNKNOWN}: {passages} that they graded can't tell.", "open")
    found = f"{kappa_in_words(kappa)} on {passages}"
    if kappa.is_moderate:
        return m.Statement(f"This judge agrees with people, {found}.", "best")
    if kappa.is_moderate is False:
        refused = "Don't use this judge uncalibrated: it hardly agrees with people"
        return m.Statement(
            f"{refused}, {found}. calibrate() corrects its scores by theirs.", "alarm"
        )
    unsure = f"Whether this judge agrees with people isn't certain, {found}"
    advice = "Let people grade more passages, or calibrate() its scores."
    return m.Statement(f"{unsure}; from {MODERATE} on it is moderate. {advice}", "open")


def _statements(check: JudgeCheck) -> Iterator[m.Statement]:
    repeated, moved, together = check.repeated, check.moved, check.together
    passages = counted(repeated.n, "passage", "passages")
    yield m.Statement(
        f"Asked twice, the judge changed its grade on {repeated.n_changed:,} of {passages}"
        f"{_share(repeated, check.confidence)}.",
        "open" if repeated.n_changed else "best",
    )
    if moved is not None:
        text, extra = f"{_changed(moved)}{_share(moved, check.confidence)}", check.due_to_place
        tone: m.Tone = "open"
        if extra is not None and extra.low is not None:
            text += f": a share of {_signed(extra)} ({_ends(extra)}) compared with asking again"
            tone = "open" if excludes_0(extra) else "normal"
        yield m.Statement(f"At another place in the call, {text}.", tone)
    if check.place is not None:
        yield _of_place(check.place)
    if together is not None:
        shift = together.difference
        ends = "" if shift.low is None else f" ({_ends(shift)})"
        yield m.Statement(
            f"In calls of {check.texts_per_call} instead of alone, {_changed(together)}, on "
            f"average by {_signed(shift)}{ends}.",
            "alarm" if excludes_0(shift) else "normal",
        )


def _of_place(place: PlaceEffect) -> m.Statement:
    slope = place.slope
    if slope.low is None:
        texts = f"{questions(slope.n)} with texts at several places"
        return m.Statement(f"Too few to tell whether the place matters: {texts}.", "open")
    found, verb, by = "No trend over the places is shown", "changes", _signed(slope)
    if excludes_0(slope):
        found, verb = "The place in a call matters", "raises" if slope.mean > 0 else "lowers"
        by = score(abs(slope.mean), digits=_digits(slope))
    what = f"each place further back {verb} the grade of the same text by {by} ({_ends(slope)})"
    return m.Statement(f"{found}: {what}.", "alarm" if excludes_0(slope) else "normal")


def _changed(change: GradeChange) -> str:
    return f"{change.n_changed:,} of {counted(change.n, 'grade', 'grades')} change"


def _share(change: GradeChange, confidence: float) -> str:
    share = change.changed
    if share.low is None or share.high is None:
        return ""
    ends = f"{whole_percent(share.low)} to {whole_percent(share.high)}"
    return f" ({whole_percent(share.mean)}; {percent(confidence)} interval {ends})"


def _ends(interval: MeanInterval) -> str:
    return f"interval {between(interval.low, interval.high, _digits(interval))}"


def _signed(interval: MeanInterval) -> str:
    return signed(interval.mean, digits=_digits(interval))


def _digits(interval: MeanInterval) -> int:
    return digits_for(interval.n, interval)
