"""System: one retriever of a report, with all that is known of it; what was wanted, what came."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID, Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Items, Ranking, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.counted import PLAIN, Labels, Reading
from llama_index_rag_metrics.scores.kept_answers import (
    KEPT_ITEMS,
    KEPT_START,
    KeptAnswer,
    kept_answer,
    read_answer,
)
from llama_index_rag_metrics.scores.mappings import LazyMapping
from llama_index_rag_metrics.scores.scores import Scores

_TELLING = 40
"""Texts of fewer characters may be alike by chance."""

TextOf: TypeAlias = Callable[[str | Span], str | None]
"""The text of a passage, by its id or its place in a document; None where it isn't known."""


class System(NamedTuple):
    """One retriever of a report.

    Attributes:
        run: what it retrieved; empty where that isn't known.
        relevance: query id to what is relevant, by id.
        matched: metric name to what its matcher made of the run, of metrics that don't compare ids.
        about: what was evaluated and how, label to value.
        price_per_million: of tokens that a model reads, where it is known.
        text_of: the texts of passages that weren't retrieved, where they are known.
    """

    name: str
    scores: Scores
    run: Run
    relevance: Mapping[str, Relevance]
    matched: Mapping[str, Matched]
    about: Mapping[str, str]
    price_per_million: float | None = None
    text_of: TextOf | None = None

    @classmethod
    def of(cls, scores: Scores, name: str = "") -> System:
        """A system without rankings."""
        return cls(name or shown_name(scores, "score"), scores, Run(), {}, {}, {})

    def judged_by(self, metric: str) -> Matched:
        """Relevance and rankings as a metric sees them: by id, or as its matcher has them."""
        by_id = Matched(BY_ID, self.run, self.relevance, {}, {}, {})
        return self.matched.get(metric, by_id)

    def mean(self, metric: str) -> float | None:
        known = self.scores.is_measured and metric in self.scores and self.scores.n(metric)
        return self.scores.means[metric] if known else None

    @property
    def price(self) -> float | None:
        """Price of the tokens of 1,000 queries, if tokens and price are known."""
        tokens = self.run.mean_tokens
        if tokens is None or self.price_per_million is None:
            return None
        return tokens * self.price_per_million / 1000

    def by_query(self, metric: str) -> dict[str, float]:
        """Query id to score; empty where nothing was measured by the metric."""
        known = self.scores.is_measured and metric in self.scores
        return self.scores.by_query(metric) if known else {}


def best_first(means: Sequence[float | None], metric: str) -> list[int]:
    """Positions of systems: as given where they are few, else by their means, the best first."""
    order = list(range(len(means)))
    if len(means) <= MOST_ABREAST:
        return order
    sign = 1 if lower_is_better(metric) else -1
    keys = [math.inf if mean is None or math.isnan(mean) else sign * mean for mean in means]
    return sorted(order, key=lambda number: keys[number])


def shown_name(scores: Scores, unnamed: str) -> str:
    return plain(scores.name) or unnamed


def metrics_of(systems: Iterable[System]) -> list[str]:
    return list(dict.fromkeys(metric for system in systems for metric in system.scores))


def check_systems(systems: Sequence[System]) -> None:
    if not systems:
        raise InvalidInput("results", list(systems), "the results of at least one retriever")


def query_text(query_id: str, systems: Sequence[System]) -> str:
    """The text of a query, "" where no system knows it."""
    texts = (system.scores.queries.get(query_id) for system in systems)
    return next(filter(None, texts), "")


def query_answers(
    query_id: str,
    systems: Sequence[System],
    metric: str,
    scores: Sequence[Mapping[str, float]] = (),
    *,
    stages: bool = False,
) -> m.QueryAnswers:
    """What was asked, wanted and retrieved, as a metric sees it.

    Every report, page and gate takes it from here; a system without rankings has what its scores
    keep. `scores` are query id to score, one a system.
    """
    reading = Reading.of(metric)
    sights = [
        _sight(system, query_id, metric, reading, known.get(query_id))
        for system, known in zip(systems, scores or [{}] * len(systems), strict=True)
    ]
    query = _together(systems, sights)
    wanted = [[item._replace(text=query.text_of(item)) for item in need] for need in query.wanted]
    is_graded = any(system.judged_by(metric).relevance.get(query_id) for system in systems)
    short = f"No label reaches the grade {reading.least:g} that {metric} asks for."
    return m.QueryAnswers(
        query_id,
        query_text(query_id, systems),
        wanted,
        query.answers,
        [short] if is_graded and not wanted and not reading.permitted else [],
        reading.cutoff,
        stages,
        query.more,
    )


def placed_answers(
    systems: Sequence[System], metric: str, *, stages: bool = False
) -> Callable[[str], m.QueryAnswers]:
    """The same by query id, without what came: where each wanted passage was found or lost."""
    reading = Reading.of(metric)

    def answers(query_id: str) -> m.QueryAnswers:
        sights = [_sight(each, query_id, metric, reading, None, brief=True) for each in systems]
        query = _together(systems, sights)
        return m.QueryAnswers(
            query_id, "", query.wanted, query.answers, (), reading.cutoff, stages, query.more
        )

    return answers


class _Sight(NamedTuple):
    """What is wanted of one system, its answer, and what came.

    Attributes:
        parts: (id, names, text) of each item of the ranking, and of each call; empty without one.
        places: each name's place; None where nobody knows.
    """

    wanted: Sequence[Sequence[m.Item]]
    answer: m.Answer
    parts: Sequence[Sequence[tuple[str, Sequence[str], str | None]]] = ()
    places: Mapping[str, m.Found] | None = None
    more: int = 0


class _Together(NamedTuple):
    wanted: Sequence[Sequence[m.Item]]
    answers: Sequence[m.Answer]
    text_of: Callable[[m.Item], str | None]
    more: int


def _together(systems: Sequence[System], sights: Sequence[_Sight]) -> _Together:
    """The answers of all systems, with the texts that one of them knows."""
    wanted, more = next(((each.wanted, each.more) for each in sights if each.wanted), ([], 0))
    corpora = [system.text_of for system in systems if system.text_of is not None]

    def text_of(item: m.Item) -> str | None:
        places = (item.id,) if item.passage is None else (item.passage, item.id)
        known = (corpus(place) for place in places for corpus in corpora)
        came = chain.from_iterable(part for sight in sights for part in sight.parts)
        texts = (text for _, names, text in came if item.id in names)
        return item.text or next(filter(None, chain(known, texts)), None)

    answers = [_placed(sight, wanted, text_of) if sight.parts else sight.answer for sight in sights]
    return _Together(wanted, answers, text_of, more)


def _placed(
    sight: _Sight,
    wanted: Sequence[Sequence[m.Item]],
    text_of: Callable[[m.Item], str | None],
) -> m.Answer:
    """The answer, with where it has what is wanted: in the ranking, in a call, under another id."""
    if (places := sight.places) is None:
        return sight.answer
    items = {item.id: item for need in wanted for item in need if item.grade}
    lost = {name: item for name, item in items.items() if name not in places}
    ranking, *calls = sight.parts
    in_call: dict[str, int] = {}
    for number, call in enumerate(calls if lost else (), 1):
        for name in filter(lost.__contains__, chain.from_iterable(names for _, names, _ in call)):
            in_call.setdefault(name, number)
    # after a new ingestion, texts are under other ids
    missed = {name: text_of(item) for name, item in lost.items() if not item.passage}
    return sight.answer._replace(
        found={name: places[name] for name in items if name in places},
        in_call=in_call,
        same_text=_same_texts(missed, ((item, text) for item, _, text in ranking)),
    )


def _same_texts(
    missed: Mapping[str, str | None], came: Iterable[tuple[str, str | None]]
) -> dict[str, m.SameText]:
    known = {name: text.strip() for name, text in missed.items() if text}
    texts: dict[str, str | None] = {}
    for item, text in came if known else ():
        texts.setdefault(item, text)
    same: dict[str, m.SameText] = {}
    for rank, (item, text) in enumerate(texts.items(), 1):
        other = (text or "").strip()
        for wanted, own in known.items():
            if wanted not in same and _is_same(own, other):
                same[wanted] = m.SameText(rank, item)
    return same


def _is_same(wanted: str, came: str) -> bool:
    """Whether a text has all of the wanted one, or is at least half of it."""
    if len(wanted) <= len(came):
        return len(wanted) >= _TELLING and wanted in came
    return len(came) >= max(_TELLING, len(wanted) / 2) and came in wanted


def _sight(
    system: System,
    query_id: str,
    metric: str,
    reading: Reading,
    score: float | None,
    *,
    brief: bool = False,
) -> _Sight:
    """What is wanted of one system, and its answer: its ranking, or what its scores keep of it."""
    cell = m.Cell.of(score, "score")
    matched, ranking = system.judged_by(metric), system.run.get(query_id)
    judged = matched.relevance.get(query_id) or Relevance()
    passages = {**(judged.spans or {}), **matched.passages.get(query_id, {})}
    wanted = reading.wanted(judged, passages, ranking.forbidden if ranking else None)
    if ranking is None:
        return _stored(system, query_id, reading, cell, wanted)
    in_calls = None
    if matched.matcher == BY_ID:
        names = reading.names(ranking, judged, None)
    else:
        names = list(matched.stands_for.get(query_id) or repeat((), len(ranking.ids)))
        in_calls = {
            **dict(zip(ranking.ids, names, strict=True)),
            **matched.in_calls.get(query_id, {}),
        }
    calls = ranking.calls or ()
    of_calls = [reading.names(call, judged, in_calls) for call in calls]
    placed = reading.placed(ranking, names)
    lists = zip((ranking, *calls), (names, *of_calls), strict=True)
    parts = [list(zip(items.ids, of, _texts(items, system), strict=True)) for items, of in lists]
    # where the matcher failed, nobody knows what was found
    is_known = ranking.error is None and query_id not in matched.errors
    places = placed.places if is_known else None
    answer = m.Answer(system.name, cell, None, ranking.error, ranking.latency)
    if brief:
        return _Sight(wanted, answer, parts, places)
    known = {name: m.Item(name, grade, passages.get(name)) for name, grade in judged.grades.items()}
    retrieved, *called = ([_reported(*each, known, reading) for each in items] for items in parts)
    n = len(ranking.ids)
    answer = answer._replace(
        retrieved=retrieved,
        calls=None if ranking.calls is None else list(_call_answers(calls, called, of_calls)),
        ranks=None if placed.ranks == list(range(1, n + 1)) else placed.ranks,
    )
    return _Sight(wanted, answer, parts, places)


def _stored(
    system: System, query_id: str, reading: Reading, cell: m.Cell, wanted: list[list[m.Item]]
) -> _Sight:
    error = system.scores.failed.get(query_id)
    answer = m.Answer(system.name, cell, error=error)
    if (kept := _kept_by(system.scores.answers, reading).get(query_id)) is None:
        return _Sight(wanted, answer)
    own, known, more = read_answer(kept, answer, reading.least)
    return _Sight(wanted, known) if wanted else _Sight(own, known, more=more)


def _texts(items: Items, system: System) -> Iterable[str | None]:
    if items.texts is not None:
        return items.texts
    return [system.text_of and system.text_of(item) for item in items.ids]


def _call_answers(
    calls: Sequence[Call],
    retrieved: Iterable[list[m.ReportedItem]],
    names: Iterable[Sequence[Sequence[str]]],
) -> Iterator[m.CallAnswer]:
    seen: set[str] = set()
    for call, items, of_items in zip(calls, retrieved, names, strict=True):
        is_new = []
        for item, of_item in zip(call.ids, of_items, strict=True):
            brought = set(of_item) or {f"{item} itself"}
            is_new.append(not brought <= seen)
            seen |= brought
        yield m.CallAnswer(call.query, call.asked_by, items, is_new, call.error, call.latency)


def _reported(
    item: str,
    names: Sequence[str],
    text: str | None,
    known: Mapping[str, m.Item],
    reading: Reading,
) -> m.ReportedItem:
    judged = [known[name] for name in names if name in known]
    grade = max((item.grade for item in judged), default=None)
    is_itself = list(names) == [item] or not judged
    return m.ReportedItem(item, grade, text, () if is_itself else judged, reading.least)


def readings_of(systems: Sequence[System], metrics: Iterable[str]) -> list[Hashable]:
    """Of each metric how it reads the systems' labels: equal where two see the same of a query."""
    labels: dict[tuple[int, str], Labels] = {}
    readings: list[Hashable] = []
    for metric in metrics:
        reading, seen = Reading.of(metric), []
        for number, system in enumerate(systems):
            matched = system.judged_by(metric)
            place = number, matched.matcher
            if place not in labels:
                labels[place] = Labels.of(matched.relevance.values())
            seen.append((matched.matcher, reading.on(labels[place])))
        readings.append(tuple(seen))
    return readings


def keep_answers(system: System) -> dict[str, Mapping[str, KeptAnswer]]:
    """Matcher, the default first, to query id to what was wanted and what came, kept with scores.

    Metrics that read the labels otherwise than passage by passage, of every grade, have answers of
    their own. Of each ranking the first items are kept with the beginnings of their texts.
    """
    labels: dict[str, Labels] = {}
    examples: dict[str, str] = {}
    for metric in sorted(system.scores, key=lambda metric: Reading.of(metric).matcher is not None):
        matched, reading = system.judged_by(metric), Reading.of(metric)
        if matched.matcher not in labels:
            labels[matched.matcher] = Labels.of(matched.relevance.values())
        known = labels[matched.matcher]
        is_plain = reading.on(known) == PLAIN.on(known)
        examples.setdefault(matched.matcher if is_plain else reading.key(matched.matcher), metric)
    first = {query_id: _first(ranking) for query_id, ranking in system.run.items()}
    kept = system._replace(run=Run(first))
    same = {query_id: _kept_same_texts(system, query_id) for query_id in first}
    return {
        key: LazyMapping(
            system.scores.query_ids,
            partial(_kept_answer, kept, metric, same if metric not in system.matched else {}),
        )
        for key, metric in examples.items()
    }


def _kept_by(
    kept: Mapping[str, Mapping[str, KeptAnswer]], reading: Reading
) -> Mapping[str, KeptAnswer]:
    first = next(iter(kept), "")
    matcher = reading.matcher or first.partition(";")[0]
    return next((kept[key] for key in (reading.key(matcher), matcher, first) if key in kept), {})


def _first(ranking: Ranking) -> Ranking:
    """A ranking with the beginnings of the first texts alone, and calls only with ids it lacks."""
    texts = ranking.texts
    if texts is not None:
        first = [text and text[:KEPT_START] for text in texts[:KEPT_ITEMS]]
        texts = [*first, *repeat("", len(texts) - KEPT_ITEMS)]
    calls = [Call(list(call.ids), spans=call.spans) for call in ranking.calls or ()]
    is_sum = set(ranking.ids).issuperset(chain.from_iterable(call.ids for call in calls))
    return Ranking(
        list(ranking.ids),
        texts=texts,
        error=ranking.error,
        spans=ranking.spans,
        tokens=ranking.tokens,
        calls=None if is_sum else calls,
        forbidden=ranking.forbidden,
    )


def _kept_same_texts(system: System, query_id: str) -> dict[str, m.SameText]:
    """Of the labels by id; seen before the texts are cut."""
    ranking, judged = system.run[query_id], system.relevance.get(query_id)
    if judged is None or judged.spans or system.text_of is None or ranking.error is not None:
        return {}
    missed = {item: system.text_of(item) for item in judged if item not in ranking.ids}
    texts = ranking.texts or map(system.text_of, ranking.ids)
    return _same_texts(missed, zip(ranking.ids, texts, strict=True))


def _kept_answer(
    system: System, metric: str, same: Mapping[str, Mapping[str, m.SameText]], query_id: str
) -> KeptAnswer:
    story = query_answers(query_id, [system], metric)
    answers = [answer._replace(same_text=same.get(query_id, {})) for answer in story.answers]
    return kept_answer(story._replace(answers=answers))
