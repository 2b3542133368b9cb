"""Our names in LlamaIndex's registry, and a metric of the user's own among them."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from llama_index.core.evaluation import RetrieverEvaluator, resolve_metrics
from llama_index.core.evaluation.retrieval import metrics as core
from pydantic import Field, model_validator
from support.retrievers import Scripted
from support.strategies import NAMES

from llama_index_rag_metrics import (
    METRICS,
    MRR,
    BinaryMetric,
    GainMetric,
    Relevance,
    Run,
    Scores,
    compare,
    metric,
    register,
    score_rankings,
)
from llama_index_rag_metrics.metrics.metric_names import ALIASES
from llama_index_rag_metrics.rankings.judging.judged import Hits
from llama_index_rag_metrics.runtime.containers import FloatArray, ratio
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning

REGISTRY: dict[str, Any] = core.METRIC_REGISTRY


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Leaves registry and table as the test found them."""
    registry, entries = dict(REGISTRY), dict(METRICS)
    yield
    REGISTRY.clear()
    REGISTRY.update(registry)
    METRICS.clear()
    METRICS.update(entries)


def evaluate(names: list[str], expected: list[str], retrieved: list[str]) -> dict[str, float]:
    """What LlamaIndex's own evaluator says."""
    evaluator = RetrieverEvaluator.from_metric_names(names, retriever=Scripted({"?": retrieved}))
    return evaluator.evaluate("?", expected_ids=expected).metric_vals_dict


class TestImport:
    def test_stock_evaluator_knows_our_names(self) -> None:
        values = evaluate(["ndcg@10", "f1@5", "granular_hit_rate"], ["a", "b"], ["x", "a"])
        assert values == {
            "ndcg@10": pytest.approx(0.386853, abs=5e-7),  # .630930 / (1 + .630930)
            "f1@5": pytest.approx(2 / 7),  # P 1/5, R 1/2: 2(1/10) / (7/10)
            "granular_hit_rate": 0.5,  # 1 of R = 2
        }

    def test_questions_in_a_row_that_find_nothing_warn_once(self) -> None:
        MRR().compute("?", ["a"], ["a"])  # whatever was asked before, a row begins behind it
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number in range(9):
                evaluate(["recall", "ndcg@10"], [f"doc-{number}"], [str(number)])
            MRR().compute("?", ["a"], ["b", "a"])
            for number in range(30):
                evaluate(["recall", "ndcg@10"], [f"doc-{number}"], [str(number)])
        [message] = [str(row.message) for row in caught if row.category is LabelWarning]
        start = "10 questions in a row found no label"
        assert message == f"{start} ('doc-9', got '9'): evaluate() says why"

    def test_names_that_are_usual_are_there(self) -> None:
        for name in {*NAMES, *ALIASES} - {"accuracy"}:
            assert name in REGISTRY
            entry = METRICS[ALIASES.get(name, name)]
            for k in (1, 3, 5, 10, 20, 50, 100):
                assert (f"{name}@{k}" in REGISTRY) == ("k" in entry.parameters)
        # which needs the size of the corpus
        assert not [name for name in REGISTRY if name.startswith("accuracy")]
        assert 150 < len(REGISTRY) < 400
        assert REGISTRY["hit_rate"] is core.HitRate

    def test_entries_are_called_without_arguments_and_have_their_names(self) -> None:
        ours = [name for name in REGISTRY if "@" in name]
        assert len(ours) > 100
        for name, made in zip(ours, resolve_metrics(ours), strict=True):
            assert made().metric_name == metric(name).metric_name


class TestRegister:
    def test_entries_of_others_are_never_replaced(self) -> None:
        REGISTRY["f1"] = core.MRR
        register()
        assert REGISTRY["f1"] is core.MRR

    def test_replace_lets_ours_answer(self) -> None:
        register(replace=True)
        assert isinstance(REGISTRY["mrr"](), MRR)
        assert evaluate(["mrr"], ["a"], ["b", "b", "a"]) == {"mrr": 0.5}
        assert evaluate(["hit_rate", "ndcg"], ["a"], []) == {"hit_rate": 0, "ndcg": 0}

    def test_replace_of_one_leaves_the_others(self) -> None:
        register("mrr", replace=True)
        assert isinstance(REGISTRY["mrr"](), MRR)
        assert REGISTRY["hit_rate"] is core.HitRate

    def test_warning_names_what_stays_registered(self) -> None:
        with pytest.warns(UserWarning, match="has mrr already, which stays"):
            register("mrr", "ndcg@7")
        assert REGISTRY["mrr"] is core.MRR
        assert "ndcg@7" in REGISTRY


class TestMixedLists:
    def test_warning_on_names_of_the_core_comes_once_from_the_list(self) -> None:
        names = ["mrr", "ndcg@10", "f1@5", "recall"]
        with pytest.warns(UserWarning, match="LlamaIndex's for mrr, recall, this") as warned:
            evaluate(names, ["a"], ["a"])
        told = [each for each in warned if "LlamaIndex's for" in str(each.message)]
        assert [Path(str(each.filename)).name for each in told] == [Path(__file__).name]

    @pytest.mark.parametrize("names", [["mrr", "recall"], ["ndcg@10", "f1@5"]])
    def test_list_of_one_kind_says_nothing(self, names: list[str]) -> None:
        with warnings.catch_warnings(record=True) as warned:
            evaluate(names, ["a"], ["a"])
            register(replace=True)
            evaluate([*names, "mrr@10", "hit_rate"], ["a"], ["a"])
        assert not warned

    def test_error_without_ids_names_the_matcher_of_texts(self) -> None:
        evaluator = RetrieverEvaluator.from_metric_names(
            ["ndcg@10"], retriever=Scripted({"?": ["a"]})
        )
        with pytest.raises(InvalidInput, match="matcher='text'"):
            evaluator.evaluate("?", expected_ids=[], expected_texts=["text of a"])


class FirstThree(BinaryMetric):
    """The share of the first three ranks that are hits.

    Args:
        bonus: what the very first rank counts on top.
    """

    name = "first_three"
    variants: ClassVar[dict[str, dict[str, Any]]] = {"generous_three": {"bonus": 1.0}}
    bonus: float = Field(0.0, ge=0, le=1, description="what the first rank counts on top")

    def score(self, hits: Hits) -> FloatArray:
        worth = (hits.rank <= 3) + self.bonus * (hits.rank == 1)
        return ratio(hits.sum_by_query(worth), 3 + self.bonus)


class TestOwnMetric:
    def test_metric_of_a_user_takes_part_in_everything(self) -> None:
        assert score_rankings([["a"]], [["a"]], FirstThree()).means["first_three"] == 1 / 3
        register(FirstThree)
        expected, retrieved = ["a", "b"], ["a", "x", "b", "y"]
        # ranks 1 and 3 of three; with the bonus (2 + 1) / 4; at 2 only rank 1
        values = {"first_three": 2 / 3, "generous_three": 0.75, "first_three@2": 1 / 3}
        for name, value in values.items():
            made = metric(name)
            assert type(made) is FirstThree
            assert made.metric_name == name
            assert made.compute("", expected, retrieved).score == pytest.approx(value)
        scores = score_rankings([expected, ["y"]], [retrieved, retrieved], [*values, "mrr"])
        assert scores["first_three"].tolist() == [pytest.approx(2 / 3), 0]
        assert evaluate(["first_three@3", "generous_three"], expected, retrieved) == {
            "first_three@3": pytest.approx(2 / 3),
            "generous_three": 0.75,
        }
        assert list(METRICS)[-2:] == ["first_three", "generous_three"]
        assert METRICS["first_three"].definition.startswith("The share of the first three ranks")

    def test_direction_and_cutoff_of_an_unregistered_metric_count(self) -> None:
        class Misses(BinaryMetric):
            """How many relevant passages were missed."""

            name, bounds, lower_is_better = "misses", (0.0, float("inf")), True

            def score(self, hits: Hits) -> FloatArray:
                return (hits.n_relevant - hits.count).astype(float)

        # found within 2, and at ranks 3 and 4: two misses more on each of thirty questions
        labels = {f"q{n}": ["a", "b"] for n in range(30)}
        runs = {"old": Run({key: ["a", "b"] for key in labels})}
        runs["new"] = Run({key: ["x", "y", "a", "b"] for key in labels})
        scores = {name: score_rankings(labels, run, Misses(k=2)) for name, run in runs.items()}
        known = compare(scores, "old")["new", "misses@2"]
        assert known.outcome == "worse"
        assert "rank 3, below the cutoff 2" in str(scores["new"].worst(n=1))
        # a file says so where the class isn't known
        files = {name: scores[name].to_json() for name in scores}
        del METRICS["misses"]
        stored = {name: Scores.from_json(text) for name, text in files.items()}
        assert compare(stored, "old")["new", "misses@2"] == known

    def test_its_parameters_are_part_of_its_name(self) -> None:
        register(FirstThree)
        made = FirstThree(bonus=0.5, min_grade=2, k=2)
        assert made.metric_name == "first_three(min_grade=2, bonus=0.5)@2"
        assert metric(made.metric_name) == made
        expected = r"first_three: bonus must be less than or equal to 1, got 2\."
        with pytest.raises(InvalidInput, match=expected):
            metric("first_three(bonus=2)")

    def test_name_of_any_case_reads_back(self) -> None:
        class MyGain(GainMetric):
            """The grade of the first item."""

            name = "My-Gain"

            def score(self, hits: Hits) -> FloatArray:
                return hits.sum_by_query(hits.grade * (hits.rank == 1)) / 4

        register(MyGain)
        assert metric("My-Gain@1").metric_name == "My-Gain@1"
        assert evaluate(["My-Gain"], Relevance({"a": 2}), ["a"]) == {"My-Gain": 0.5}

    def test_score_beyond_the_declared_range_is_clipped(self) -> None:
        class Count(BinaryMetric):
            """How many hits, wrongly declared to be at most 1."""

            name = "count"

            def score(self, hits: Hits) -> FloatArray:
                return hits.count  # type: ignore[return-value]

        assert Count().compute("", ["a", "b"], ["a", "b"]).score == 1

    def test_check_of_several_parameters_keeps_its_words(self) -> None:
        class Window(BinaryMetric):
            """Hits from one rank to another."""

            name = "window"
            low: int = Field(1, description="first rank")
            high: int = Field(9, description="last rank")

            @model_validator(mode="after")
            def _in_order(self) -> "Window":
                if self.low > self.high:
                    raise ValueError("low to be at most high")
                return self

            def score(self, hits: Hits) -> FloatArray:
                return hits.sum_by_query((hits.rank >= self.low) & (hits.rank <= self.high))

        register(Window)
        with pytest.raises(InvalidInput, match="parameters of window: expected low to be at most"):
            metric("window(low=5, high=2)")
