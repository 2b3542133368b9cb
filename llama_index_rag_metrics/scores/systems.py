"""System: one retriever of a report, with all that is known of it; what was wanted, what came."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.rankings.judging.judged import TokenBudget
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID, Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Items, Ranking, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
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
    """What was asked, wanted and retrieved, as the matcher of a metric sees it.

    Every report, page and gate takes it from here; a system without rankings has what its scores
    keep. `scores` are query id to score, one a system.
    """
    stories = [
        _story(system, query_id, metric, known.get(query_id))
        for system, known in zip(systems, scores or [{}] * len(systems), strict=True)
    ]
    answers = [answer for _, _, answer in stories]
    wanted, more = next(((wanted, more) for wanted, more, _ in stories if wanted), ([], 0))
    text_of = _texts(systems, answers)
    wanted = [[item._replace(text=item.text or text_of(item)) for item in need] for need in wanted]
    answers = [
        answer._replace(same_text=_under_other_ids(wanted, answer)) if system.run else answer
        for system, answer in zip(systems, answers, strict=True)
    ]
    return m.QueryAnswers(
        query_id,
        query_text(query_id, systems),
        wanted,
        answers,
        cutoff=cutoff_of(metric),
        stages=stages,
        more=more,
    )


def _under_other_ids(wanted: Sequence[Sequence[m.Item]], answer: m.Answer) -> dict[str, m.SameText]:
    """Where the texts are that were missed by their ids: after a new ingestion, under others."""
    missed = {
        item.id: item.text
        for item in chain.from_iterable(wanted)
        if answer.found is not None and item.id not in answer.found and not item.passage
    }
    return _same_texts(missed, [(item.id, item.text) for item in answer.retrieved or ()])


def _same_texts(
    missed: Mapping[str, str | None], came: Iterable[tuple[str, str | None]]
) -> dict[str, m.SameText]:
    texts: dict[str, str | None] = {}
    for item, text in came:
        texts.setdefault(item, text)
    same: dict[str, m.SameText] = {}
    for wanted, text in missed.items():
        for rank, (item, other) in enumerate(texts.items(), 1):
            if text and other and _is_same(text.strip(), other.strip()):
                same[wanted] = m.SameText(rank, item)
                break
    return same


def _is_same(wanted: str, came: str) -> bool:
    """Whether a text has all of the wanted one, or is at least half of it."""
    if len(wanted) <= len(came):
        return len(wanted) >= _TELLING and wanted in came
    return len(came) >= max(_TELLING, len(wanted) / 2) and came in wanted


def cutoff_of(metric: str) -> m.Cutoff | None:
    """Where a metric stops reading a ranking; None where it reads all of it, or isn't known."""
    cutoff = getattr(known_metric(metric), "cutoff", None)
    if isinstance(cutoff, TokenBudget):
        return m.Cutoff(cutoff.tokens, "tokens")
    return m.Cutoff(cutoff) if isinstance(cutoff, int) else None


def _story(
    system: System, query_id: str, metric: str, score: float | None
) -> tuple[list[list[m.Item]], int, m.Answer]:
    """What was wanted of one system, how many needs more, and its answer.

    The answer is its ranking, or what its scores keep of it.
    """
    cell = m.Cell.of(score, "score")
    wanted = _wanted(system, query_id, metric)
    ranking = system.run.get(query_id)
    if ranking is not None:
        return wanted, 0, _answer(system, ranking, query_id, metric, cell)
    kept = system.scores.answers
    by_query = kept.get(own_matcher(metric) or "", next(iter(kept.values()), {}))
    error = system.scores.failed.get(query_id)
    if (answer := by_query.get(query_id)) is None:
        return wanted, 0, m.Answer(system.name, cell, error=error)
    read = read_answer(answer)
    known = m.Answer(
        system.name,
        cell,
        read.got,
        error,
        found=read.found,
        same_text=read.same_text,
        more=read.further,
    )
    return (wanted, 0, known) if wanted else (read.wanted, read.more, known)


def _wanted(system: System, query_id: str, metric: str) -> list[list[m.Item]]:
    """The needs of a query: its groups, or each relevant item, best grade first."""
    matched = system.judged_by(metric)
    judged, passages = matched.relevance.get(query_id), matched.passages.get(query_id, {})
    if judged is None:
        return []
    grades = judged.grades
    best_first = sorted(judged, key=lambda item: -grades[item])
    needs = judged.alternatives or [(item,) for item in best_first]
    spans = judged.spans or {}
    return [
        [_item(item, grades[item], passages.get(item) or spans.get(item)) for item in need]
        for need in needs
        if need
    ]


def _item(item: str, grade: float, passage: str | Span | None) -> m.Item:
    return m.Item(item, grade, passage, passage if isinstance(passage, str) else None)


def _texts(
    systems: Sequence[System], answers: Sequence[m.Answer]
) -> Callable[[m.Item], str | None]:
    """The texts of wanted items: from a corpus, or from any system that retrieved them."""
    corpora = [system.text_of for system in systems if system.text_of is not None]

    def text_of(item: m.Item) -> str | None:
        places = (item.id,) if item.passage is None else (item.passage, item.id)
        known = (text_of(place) for place in places for text_of in corpora)
        came = (
            retrieved.text
            for answer in answers
            for retrieved in answer.retrieved or ()
            if item.id in ([wanted.id for wanted in retrieved.stands_for] or [retrieved.id])
        )
        return next(filter(None, chain(known, came)), None)

    return text_of


def _answer(system: System, ranking: Ranking, query_id: str, metric: str, cell: m.Cell) -> m.Answer:
    matched = system.judged_by(metric)
    judged = matched.relevance.get(query_id, Relevance())
    passages = {**(judged.spans or {}), **matched.passages.get(query_id, {})}
    known = {name: m.Item(name, grade, passages.get(name)) for name, grade in judged.grades.items()}
    names = matched.stands_for.get(query_id) or _by_place(ranking, judged, metric)
    retrieved = _retrieved(ranking, names, known, system.text_of)
    calls = None
    if ranking.calls is not None:
        by_item = dict(zip(ranking.ids, names, strict=False))
        calls = list(_call_answers(ranking.calls, by_item, known, system.text_of))
    # where the matcher failed, nobody knows what was found
    is_known = ranking.error is None and query_id not in matched.errors
    return m.Answer(
        system.name,
        cell,
        retrieved,
        ranking.error,
        ranking.latency,
        calls,
        ranking.tokens,
        _found(ranking, names, set(judged)) if is_known else None,
    )


def _by_place(ranking: Ranking, judged: Relevance, metric: str) -> list[list[str]]:
    """The ids that each item stands for: its own; for a metric of spans, those that it overlaps."""
    if not (
        judged.spans and ranking.spans and "spans" in getattr(known_metric(metric), "needs", ())
    ):
        return [[item] for item in ranking.ids]
    return [
        [name for name, wanted in judged.spans.items() if span and _overlap(span, wanted)] or [item]
        for item, span in zip(ranking.ids, ranking.spans, strict=True)
    ]


def _overlap(one: Span, other: Span) -> bool:
    return one.source == other.source and one.start < other.end and other.start < one.end


def _found(
    ranking: Ranking, stands_for: Sequence[Sequence[str]], wanted: Collection[str]
) -> dict[str, m.Found]:
    """The rank of each wanted item as metrics count ranks: what repeats counts once."""
    found: dict[str, m.Found] = {}
    seen: set[str] = set()
    paid: set[str] = set()
    spent = 0
    for item, names, cost in zip(
        ranking.ids, stands_for, ranking.tokens or repeat(0), strict=False
    ):
        spent += 0 if item in paid else cost
        paid.add(item)
        for name in names:
            if name not in seen:
                seen.add(name)
                if name in wanted:
                    tokens = None if ranking.tokens is None else spent
                    found[name] = m.Found(len(seen), tokens)
    return found


def _call_answers(
    calls: Sequence[Call],
    by_item: Mapping[str, Sequence[str]],
    known: Mapping[str, m.Item],
    text_of: TextOf | None,
) -> Iterator[m.CallAnswer]:
    seen: set[str] = set()
    for call in calls:
        names = [by_item.get(item, [item]) for item in call.ids]
        is_new = [item not in seen for item in call.ids]
        seen.update(call.ids)
        retrieved = _retrieved(call, names, known, text_of)
        yield m.CallAnswer(call.query, call.asked_by, retrieved, is_new, call.error, call.latency)


def _retrieved(
    items: Items,
    stands_for: Sequence[Sequence[str]],
    known: Mapping[str, m.Item],
    text_of: TextOf | None,
) -> list[m.ReportedItem]:
    texts: Sequence[str | None] = items.texts or [text_of and text_of(item) for item in items.ids]
    retrieved = []
    for item, text, names in zip(items.ids, texts, stands_for, strict=True):
        judged = [known[name] for name in names if name in known]
        grade = max((item.grade for item in judged), default=None)
        is_itself = list(names) == [item] or not judged
        retrieved.append(m.ReportedItem(item, grade, text, () if is_itself else judged))
    return retrieved


def keep_answers(system: System) -> dict[str, Mapping[str, KeptAnswer]]:
    """Matcher, the default first, to query id to what was wanted and what came, kept with scores.

    Of each ranking the first items are kept with the beginnings of their texts.
    """
    examples: dict[str, str] = {}
    for metric in sorted(system.scores, key=lambda metric: own_matcher(metric) is not None):
        examples.setdefault(system.judged_by(metric).matcher, metric)
    first = {query_id: _first(ranking) for query_id, ranking in system.run.items()}
    kept = system._replace(run=Run(first))
    same = {query_id: _kept_same_texts(system, query_id) for query_id in first}
    return {
        matcher: LazyMapping(
            system.scores.query_ids,
            partial(_kept_answer, kept, metric, same if metric not in system.matched else {}),
        )
        for matcher, metric in examples.items()
    }


def _first(ranking: Ranking) -> Ranking:
    """A ranking without its calls, and with the beginnings of the first texts alone."""
    texts = ranking.texts
    if texts is not None:
        first = [text and text[:KEPT_START] for text in texts[:KEPT_ITEMS]]
        texts = [*first, *repeat("", len(texts) - KEPT_ITEMS)]
    return Ranking(
        list(ranking.ids),
        texts=texts,
        error=ranking.error,
        spans=ranking.spans,
        tokens=ranking.tokens,
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


def own_matcher(metric: str) -> str | None:
    """The matcher that a metric names itself."""
    return getattr(known_metric(metric), "match", None)


def known_metric(metric: str) -> object:
    """The metric of a name; None for one that the package doesn't know."""
    try:
        return resolve(metric)
    except (RagMetricsError, ImportError):
        return None
