"""One table of metrics, and names with parameters that read back as what they came from."""

import time
from typing import Any

import pytest
from llama_index.core.evaluation.retrieval import metrics as core

from llama_index_rag_metrics import (
    MRR,
    NDCG,
    BinaryMetric,
    FScore,
    HitRate,
    Precision,
    RankingMetric,
    metric,
)
from llama_index_rag_metrics.metrics.metric_names import ALIASES, METRICS, metrics, register
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric


def test_order_of_the_table_is_that_of_reports() -> None:
    names = list(METRICS)
    of_rankings = [issubclass(row.metric_class, RankingMetric) for row in METRICS.values()]
    assert names[:3] == ["hit_rate", "granular_hit_rate", "mrr"]
    assert of_rankings == sorted(of_rankings, reverse=True)  # those of texts, which cost, are last
    for row in METRICS.values():  # the variants of a metric follow it
        start = names.index(row.metric_class.name)
        family = [row.metric_class.name, *row.metric_class.variants]
        assert names[start : start + len(family)] == family


@pytest.mark.parametrize("name", METRICS)
def test_rows_say_what_they_are(name: str) -> None:
    entry = METRICS[name]
    assert entry.definition.endswith(".")
    assert "\n" not in entry.definition
    assert all(field.description for field in entry.parameters.values())
    low, high = entry.metric_class.bounds
    assert low < high


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("ndcg@10", "ndcg@10"),
        ("ndcg_cut_10", "ndcg_cut@10"),
        ("ndcg_10", "ndcg@10"),
        (" ndcg @ 10 ", "ndcg@10"),
        ("ndcg(mode=exponential)@10", "ndcg(mode=exponential)@10"),
        ("ndcg(mode='exponential')", "ndcg(mode=exponential)"),
        ("ndcg(k=10)", "ndcg@10"),
        ("alpha-nDCG@10", "alpha_ndcg@10"),
        ("recall@2000tokens", "recall@2000tokens"),
        ("recall(tokens=2000)", "recall@2000tokens"),
        ("ndcg(mode=linear)", "ndcg"),
        ("ndcg(ideal=all, mode=exponential)", "ndcg(mode=exponential, ideal=all)"),
        ("ndcg()", "ndcg"),
        ("MAP@100", "map@100"),
        ("success@5", "success@5"),
        ("hit_rate(use_granular_hit_rate=true)@5", "granular_hit_rate@5"),
        ("mrr(use_granular_mrr=false)", "mrr"),
        ("P_5", "P@5"),
        ("set_P", "set_P"),
        ("recall_1000", "recall@1000"),
        ("f", "f1"),
        ("f(beta=1)@3", "f1@3"),
        ("r-precision", "r_precision"),
        ("RBP(p=0.8)", "rbp"),
        ("accuracy(corpus_size=1000)@10", "accuracy(corpus_size=1000)@10"),
        ("precision(min_grade=1.0)", "precision"),
        ("precision(min_grade=1e-3)", "precision(min_grade=0.001)"),
        ("Group MRR@3", "group_mrr@3"),
    ],
)
def test_spellings(spelling: str, canonical: str) -> None:
    assert metric(spelling).metric_name == canonical
    assert metric(canonical).metric_name == canonical


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_stand_for_metrics_of_the_table(alias: str) -> None:
    assert metric(alias).name in METRICS


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ngcd@10", "Did you mean 'ndcg@10'?"),
        ("r_precison", "Did you mean 'r_precision'"),
        ("NDCG10", "Did you mean 'ndcg@10'?"),
        ("hit_rate_at_5", "Did you mean 'hit_rate@5'?"),
        ("exponential_ndcg@10", "Did you mean 'ndcg(mode=exponential)@10'?"),
        ("FBeta@5", "Did you mean 'f(beta=2)@5'?"),
        ("ndcg@", "Did you mean 'ndcg'"),
        ("ndcg(", "Did you mean 'ndcg'"),
        ("", "unknown metric ''"),
        ("qqq", "unknown metric 'qqq'. `rag-metrics metrics` lists every metric"),
    ],
)
def test_error_of_an_unknown_name_lists_the_nearest(name: str, words: str) -> None:
    with pytest.raises(UnknownMetric) as caught:
        metric(name)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ndcg(mod=linear)", "Did you mean 'mode'"),
        ("r_precision@5", r"r_precision\(k\)"),
        ("ndcg(min_grade=2)", r"ndcg\(min_grade\)"),
        ("f1(beta=2)", r"f1\(beta\)"),
        ("granular_mrr(use_granular_mrr=false)", r"use_granular_mrr"),
    ],
)
def test_error_of_an_unknown_parameter_lists_the_nearest(name: str, words: str) -> None:
    with pytest.raises(UnknownMetric, match=words):
        metric(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ndcg@0", r"ndcg: k must be greater than 0, got 0"),
        ("ndcg@99999999999999999999", r"ndcg: k must be less than or equal to 4611686018427387904"),
        ("ndcg@x", r"ndcg: k must be a valid integer, got 'x'"),
        ("ndcg(mode=log)", r"ndcg: mode must be 'linear' or 'exponential', got 'log'"),
        ("ndcg(ideal=all)@5", "ideal can't be given with k=5"),
        ("ndcg(mode)", "parameters written as name=value"),
        ("ndcg(k=10)@5", "each once"),
        ("precision(min_grade=0)", "greater than 0"),
        ("precision(min_grade=inf)", "a finite number"),
        ("rbp(p=1)", "less than 1"),
        ("rbp(p=nan)", r"rbp: p must be"),
        ("accuracy", r"Write accuracy\(corpus_size=...\)"),
    ],
)
def test_value_out_of_range(name: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        metric(name)


class TestMetrics:
    def test_names_and_metrics_in_order(self) -> None:
        made = metrics(["hit_rate@5", Precision(k=3), "f1@5"])
        assert [metric.metric_name for metric in made] == ["hit_rate@5", "precision@3", "f1@5"]
        assert isinstance(made[0], HitRate)

    @pytest.mark.parametrize("name", ["mrr", MRR()], ids=str)
    def test_metric_alone_needs_no_list(self, name: Any) -> None:
        assert [made.metric_name for made in metrics(name)] == ["mrr"]

    def test_metrics_of_llama_index_stay_as_they_are(self) -> None:
        theirs = core.MRR()
        assert metrics([theirs])[0] is theirs

    @pytest.mark.parametrize(
        "names",
        # the same metric twice; no metrics; no metric
        [["mrr", "recip_rank"], ["mrr", core.MRR()], ["f1", "f"], [], (), None, [None], [3], [MRR]],
    )
    def test_metrics_are_some_of_different_names(self, names: Any) -> None:
        with pytest.raises(InvalidInput):
            metrics(names)


class TestNamesOnClasses:
    def test_class_has_the_bare_name_and_the_instance_its_own(self) -> None:
        assert NDCG.metric_name == "ndcg"
        assert NDCG(k=10).metric_name == "ndcg@10"
        assert str(NDCG(mode="exponential")) == "ndcg(mode=exponential)"
        assert FScore.metric_name == "f"
        assert FScore().metric_name == "f1"

    def test_metric_cannot_be_changed(self) -> None:
        ndcg = NDCG(k=10)
        for field, value in {"ideal": "all", "k": 5, "mode": "log", "other": 1}.items():
            with pytest.raises(ValueError):
                setattr(ndcg, field, value)
        assert ndcg.metric_name == "ndcg@10"

    def test_alias_names_no_other_variant(self) -> None:
        granular = metric("success(use_granular_hit_rate=true)@5")
        assert granular.metric_name == "granular_hit_rate@5"
        assert metric("map@10").model_copy(update={"k": 5}).metric_name == "map@5"


class TestTable:
    @pytest.mark.parametrize("bad", ["", "a@5", "a(b)", "1st", " a", "@", "a,b"])
    def test_name_that_could_not_be_read_back_is_refused(self, bad: str) -> None:
        class Unreadable(BinaryMetric):
            name = bad

        with pytest.raises(InvalidInput, match="name of Unreadable: expected letters, digits"):
            register(Unreadable)

    def test_class_without_a_name_is_refused(self) -> None:
        class Nameless(BinaryMetric):
            pass

        with pytest.raises(InvalidInput, match="name of Nameless"):
            register(Nameless)

    def test_name_is_held_by_one_class(self) -> None:
        class Other(BinaryMetric):
            name = "mrr"

        with pytest.raises(InvalidInput, match="'mrr'"):
            register(Other)
        assert METRICS["mrr"].metric_class is MRR


@pytest.mark.parametrize(
    "name",
    [
        "ndcg" + " " * 50_000 + "!",
        "ndcg" + "_1" * 50_000,
        "a" * 100_000,
        "a - " * 30_000 + "!",
        "ndcg(" + "a=" * 50_000,
        "ndcg(" + "," * 50_000,
        "ndcg@" + "9" * 5_000,
        "ndcg_" + "9" * 5_000,
        "f" + "9" * 5_000,
    ],
    ids=lambda name: f"{name[:8]}…",
)
def test_text_of_any_kind_is_refused_as_a_metric_at_once(name: str) -> None:
    begin = time.thread_time()
    with pytest.raises((UnknownMetric, InvalidInput)) as caught:
        metric(name)
    assert time.thread_time() - begin < 2  # 400 spaces took 9 s, 800 took 175 s
    assert len(str(caught.value)) < 1_000
