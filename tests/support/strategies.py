"""Random judgements, rankings and metrics for hypothesis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from llama_index_rag_metrics import METRICS, RankingMetric, Relevance, metric
from llama_index_rag_metrics.metrics.base import GroupMetric
from support.reference import REFERENCE

CORPUS = 200
"""More than the items that any random query holds."""

BESIDE_IDS = {"span_recall", "span_precision", "span_f1", "span_iou"}
"""Metrics that need more than ids: token counts, places in documents."""

OF_UNANSWERABLE = {"abstained", "returned"}
"""Metrics of the questions that others leave out."""

NAMES = [
    name
    for name, entry in METRICS.items()
    if issubclass(entry.metric_class, RankingMetric) and name not in BESIDE_IDS | OF_UNANSWERABLE
]
PARAMETERS: Mapping[str, st.SearchStrategy[Any]] = {
    "k": st.none() | st.integers(1, 25),
    "min_grade": st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0, 3.0]),
    "beta": st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0]) | st.floats(0.01, 100),
    "p": st.sampled_from([0.5, 0.8, 0.95]) | st.floats(0.01, 0.99),
    "max_grade": st.sampled_from([4.0, 4.5, 8.0]),
    "corpus_size": st.integers(CORPUS, 10 * CORPUS),
    "mode": st.sampled_from(["linear", "exponential"]),
    "ideal": st.sampled_from([None, "all"]),
    "use_granular_hit_rate": st.booleans(),
    "use_granular_mrr": st.booleans(),
    "alpha": st.sampled_from([0.0, 0.5, 0.9]),
}

OF_GROUPS = [name for name in NAMES if issubclass(METRICS[name].metric_class, GroupMetric)]

OF_TEXTS = {"match", "tokens"}
"""Parameters that need texts; everything here is judged by id."""


@dataclass(frozen=True)
class Query:
    """A query's judgements and ranking."""

    relevance: Relevance
    ranking: list[str]


@dataclass(frozen=True)
class Chosen:
    """A metric of the table, by name and parameters."""

    name: str
    parameters: Mapping[str, Any]

    @property
    def metric(self) -> RankingMetric:
        entry = METRICS[self.name]
        built = entry.metric_class(**{**entry.preset, **self.parameters})
        assert isinstance(built, RankingMetric)
        return built

    def oracle(self, query: Query) -> float:
        """What the reference says."""
        name, parameters = self.name, dict(self.parameters)
        for variant in ("granular_hit_rate", "granular_mrr"):
            if parameters.pop(f"use_{variant}", False):
                name = variant
        if name not in OF_GROUPS:
            return REFERENCE[name](query.relevance.grades, query.ranking, **parameters)
        min_grade = parameters.pop("min_grade", 1)
        groups = query.relevance.alternatives
        if groups is None:
            grades = query.relevance.grades
            groups = tuple((item,) for item, grade in grades.items() if grade >= min_grade)
        elif min_grade > 1:
            return 0.0  # groups are binary: no member reaches a higher grade
        elif name == "facet_recall":
            parameters["weights"] = query.relevance.weights
        return REFERENCE[name](groups, query.ranking, **parameters)


ids = st.lists(st.text(min_size=1, max_size=3), unique=True, min_size=1, max_size=16)
grades = st.integers(-2, 4).map(float) | st.integers(-128, 256).map(lambda n: n / 64)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Judgements with 0, negative and fractional grades, or groups that may overlap; a ranking
    with repeated and unjudged ids, possibly empty."""
    pool = draw(ids)
    judged_ids = st.lists(st.sampled_from(pool), unique=True, max_size=10)
    if draw(st.integers(0, 3)):
        judgements = {item: draw(grades) for item in draw(judged_ids)}
        relevance = Relevance(judgements)
    else:
        group = st.lists(st.sampled_from(pool), min_size=1, max_size=4)
        groups = draw(st.lists(group, min_size=1, max_size=4))
        relevance = Relevance(groups=groups)
        if draw(st.booleans()):
            names = [f"facet {number}" for number, _ in enumerate(groups)]
            weights = {name: draw(st.sampled_from([0.5, 1, 3])) for name in names}
            facets = dict(zip(names, groups, strict=True))
            relevance = Relevance(facets=facets, weights=weights)
    return Query(relevance, draw(st.lists(st.sampled_from(pool), max_size=24)))


@st.composite
def chosen(draw: st.DrawFn, name: str | None = None) -> Chosen:
    """Any metric of the table, or the one of that name, with any parameters."""
    chosen_name = draw(st.sampled_from(NAMES)) if name is None else name
    fields = METRICS[chosen_name].parameters
    required = [field for field, info in fields.items() if info.is_required()]
    optional = [field for field in fields if field not in {*required, *OF_TEXTS}]
    also = draw(st.lists(st.sampled_from(optional), unique=True)) if optional else []
    parameters = {field: draw(PARAMETERS[field]) for field in (*required, *also)}
    if parameters.get("k") is not None:
        parameters.pop("ideal", None)
    return Chosen(chosen_name, parameters)


def plain_metrics() -> list[RankingMetric]:
    """Every metric of the table without optional parameters, and at 5 where there is a cutoff."""
    metrics = {}
    for name in NAMES:
        size = f"corpus_size={10**6}" if "corpus_size" in METRICS[name].parameters else ""
        for cutoff in ("", "@5") if "k" in METRICS[name].parameters else ("",):
            plain = metric(f"{name}({size}){cutoff}")
            assert isinstance(plain, RankingMetric)
            metrics[plain.metric_name] = plain
    return list(metrics.values())
