"""System: one retriever of a report, with all that is known of it; what was wanted, what came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID, Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Items, Ranking, Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.query_lines import retrieved_name, wanted_names
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.scores.mappings import LazyMapping
from llama_index_rag_metrics.scores.scores import Scores

_KEPT_ITEMS = 5

KeptAnswer: TypeAlias = Mapping[str, Sequence[str]]
"""{"wanted": the items wanted, "got": those that came}, in words."""


class System(NamedTuple):
    """One retriever of a report.

    Attributes:
        run: what it retrieved; empty where that isn't known.
        relevance: query id to what is relevant, by id.
        matched: metric name to what its matcher made of the run, of metrics that don't compare ids.
        about: what was evaluated and how, label to value.
        price_per_million: of tokens that a model reads, where it is known.
    """

    name: str
    scores: Scores
    run: Run
    relevance: Mapping[str, Relevance]
    matched: Mapping[str, Matched]
    about: Mapping[str, str]
    price_per_million: float | None = None

    @classmethod
    def of(cls, scores: Scores, name: str = "") -> System:
        """A system without rankings."""
        return cls(name or shown_name(scores, "score"), scores, Run(), {}, {}, {})

    def judged_by(self, metric: str) -> Matched:
        """Relevance and rankings as a metric sees them: by id, or as its matcher has them."""
        by_id = Matched(BY_ID, self.run, self.relevance, {}, {}, {})
        return self.matched.get(metric, by_id)

    def mean(self, metric: str) -> float | None:
        known = metric in self.scores and self.scores.n(metric)
        return self.scores.means[metric] if known else None

    @property
    def price(self) -> float | None:
        """Price of the tokens of 1,000 queries, if tokens and price are known."""
        tokens = self.run.mean_tokens
        if tokens is None or self.price_per_million is None:
            return None
        return tokens * self.price_per_million / 1000

    def by_query(self, metric: str) -> dict[str, float]:
        """Query id to score; empty for a metric that wasn't computed."""
        return self.scores.by_query(metric) if metric in self.scores else {}


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
) -> m.QueryAnswers:
    """What was asked, wanted and retrieved, as the matcher of a metric sees it.

    Every report, page and gate takes it from here. `scores` are query id to score, one a system.
    """
    wanted = (_wanted(system, query_id, metric) for system in systems)
    answers = [
        _answer(system, query_id, metric, known.get(query_id))
        for system, known in zip(systems, scores or [{}] * len(systems), strict=True)
    ]
    text = query_text(query_id, systems)
    return m.QueryAnswers(query_id, text, next(filter(None, wanted), ()), answers)


def _wanted(system: System, query_id: str, metric: str) -> list[list[m.Item]]:
    """The needs of a query: its groups, or each relevant item, best grade first."""
    matched = system.judged_by(metric)
    judged, passages = matched.relevance.get(query_id), matched.passages.get(query_id, {})
    if judged is None:
        return []
    grades = judged.grades
    best_first = sorted(judged, key=lambda item: -grades[item])
    needs = judged.alternatives or [(item,) for item in best_first]
    return [
        [m.Item(item, grades[item], passages.get(item)) for item in need] for need in needs if need
    ]


def _answer(system: System, query_id: str, metric: str, score: float | None) -> m.Answer:
    cell = m.Cell.of(score, "score")
    ranking = system.run.get(query_id)
    if ranking is None:
        return m.Answer(system.name, cell)
    matched = system.judged_by(metric)
    grades = matched.relevance.get(query_id, Relevance()).grades
    stands_for = matched.stands_for.get(query_id, [[item] for item in ranking.ids])
    names = stands_for[: len(ranking.ids)]  # only the first items of a ranking may be kept
    retrieved = _retrieved(ranking, names, grades)
    calls = None
    if ranking.calls is not None:
        by_item = dict(zip(ranking.ids, names, strict=False))
        calls = list(_call_answers(ranking.calls, by_item, grades))
    return m.Answer(system.name, cell, retrieved, ranking.error, ranking.latency, calls)


def _call_answers(
    calls: Sequence[Call], by_item: Mapping[str, Sequence[str]], grades: Mapping[str, float]
) -> Iterator[m.CallAnswer]:
    seen: set[str] = set()
    for call in calls:
        names = [by_item.get(item, [item]) for item in call.ids]
        is_new = [item not in seen for item in call.ids]
        seen.update(call.ids)
        retrieved = _retrieved(call, names, grades)
        yield m.CallAnswer(call.query, call.asked_by, retrieved, is_new, call.error, call.latency)


def _retrieved(
    items: Items, stands_for: Sequence[Sequence[str]], grades: Mapping[str, float]
) -> list[m.ReportedItem]:
    texts: Sequence[str | None] = items.texts or [None] * len(items.ids)
    retrieved = []
    for item, text, names in zip(items.ids, texts, stands_for, strict=True):
        known = [m.Item(name, grades[name]) for name in names if name in grades]
        grade = max((item.grade for item in known), default=None)
        is_itself = list(names) == [item] or not known
        retrieved.append(m.ReportedItem(item, grade, text, () if is_itself else known))
    return retrieved


def keep_answers(system: System) -> dict[str, Mapping[str, KeptAnswer]]:
    """Matcher, the default first, to query id to what was wanted and what came, kept with scores.

    Only the first items of each ranking are kept, and put into words on demand.
    """
    examples: dict[str, str] = {}
    for metric in sorted(system.scores, key=lambda metric: _own_matcher(metric) is not None):
        examples.setdefault(system.judged_by(metric).matcher, metric)
    first = {
        query_id: Ranking(ranking.ids[:_KEPT_ITEMS]) for query_id, ranking in system.run.items()
    }
    kept = system._replace(run=Run(first))
    return {
        matcher: LazyMapping(system.scores.query_ids, partial(_answer_in_words, kept, metric))
        for matcher, metric in examples.items()
    }


def answer_of(system: System, query_id: str, metric: str) -> KeptAnswer:
    """What was wanted and what came for one query, from its ranking or as the scores keep it."""
    if query_id in system.run:
        return _answer_in_words(system, metric, query_id)
    kept = system.scores.answers
    by_query = kept.get(_own_matcher(metric) or "", next(iter(kept.values()), {}))
    return by_query.get(query_id, {})


def _answer_in_words(system: System, metric: str, query_id: str) -> KeptAnswer:
    query = query_answers(query_id, [system], metric)
    (answer,) = query.answers
    return {
        "wanted": wanted_names(query)[:_KEPT_ITEMS],
        "got": [retrieved_name(item) for item in (answer.retrieved or ())[:_KEPT_ITEMS]],
    }


def _own_matcher(metric: str) -> str | None:
    """The matcher that a metric names itself."""
    try:
        return getattr(resolve(metric), "match", None)
    except (RagMetricsError, ImportError):
        return None
