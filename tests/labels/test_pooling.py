"""What to judge next: by depth, by what decides, and when it is enough."""

from __future__ import annotations

import gc
import itertools
import json
import random
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import reference

from llama_index_rag_metrics import Relevance, RetrievalDataset, Run, metric, pool, read_qrels
from llama_index_rag_metrics.labels import pooling as choose
from llama_index_rag_metrics.labels.decisive import Belief, PoolItems, checked_metric, queries_under
from llama_index_rag_metrics.labels.pooling import scores_if
from llama_index_rag_metrics.runtime.errors import InvalidInput

ORACLES: dict[str, Callable[..., float]] = {
    "precision@3": lambda grades, ranking: reference.precision(grades, ranking, k=3),
    "recall@3": lambda grades, ranking: reference.recall(grades, ranking, k=3),
    "recall": reference.recall,
    "ndcg@3": lambda grades, ranking: reference.ndcg(grades, ranking, k=3),
    "ap": reference.ap,
    "ap@3": lambda grades, ranking: reference.ap(grades, ranking, k=3),
}
TIGHT = {"precision@3", "recall@3", "recall", "ndcg@3"}
each_metric = pytest.mark.parametrize("name", ORACLES)


def two_runs(seed: int, n: int = 4) -> tuple[dict[str, dict[str, list[str]]], dict[str, float]]:
    """Two rankings of some of six items for one question, and judgements of some of these."""
    chance = random.Random(seed)
    items = list("abcdef")
    runs = {name: {"q": chance.sample(items, n)} for name in ("first", "second")}
    judged = {item: float(chance.random() < 0.5) for item in items if chance.random() < 0.3}
    return runs, judged


def outcomes(
    name: str, runs: dict[str, dict[str, list[str]]], judged: dict[str, float]
) -> Iterator[tuple[float, float]]:
    """The two scores for every way of judging the rest of what is in sight."""
    k = metric(name).model_dump()["k"]
    seen = sorted({item for run in runs.values() for item in run["q"][:k]} - set(judged))
    for grades in itertools.product((0.0, 1.0), repeat=len(seen)):
        full = {**judged, **dict(zip(seen, grades, strict=True))}
        yield (ORACLES[name](full, runs["first"]["q"]), ORACLES[name](full, runs["second"]["q"]))


class TestBounds:
    @each_metric
    @pytest.mark.parametrize("seed", range(30))
    def test_no_way_of_judging_the_rest_leaves_them(self, name: str, seed: int) -> None:
        runs, judged = two_runs(seed)
        differences = [first - second for first, second in outcomes(name, runs, judged)]

        (pair,) = pool(runs, {"q": Relevance(judged)}, metric=name, samples=100).pairs

        sign = 1 if pair.first == "first" else -1
        reached = [sign * difference for difference in differences]
        assert pair.low <= min(reached) + 1e-12
        assert pair.high >= max(reached) - 1e-12
        if name in TIGHT:
            assert (pair.low, pair.high) == pytest.approx((min(reached), max(reached)))

    @each_metric
    @pytest.mark.parametrize("seed", range(30))
    def test_a_certain_verdict_is_never_turned(self, name: str, seed: int) -> None:
        runs, judged = two_runs(seed, n=3)
        (pair,) = pool(runs, {"q": Relevance(judged)}, metric=name, samples=100).pairs
        sign = 1 if pair.first == "first" else -1

        reached = [sign * (first - second) for first, second in outcomes(name, runs, judged)]

        if pair.state == "certain":
            assert min(reached) >= -1e-12
            assert pair.chance == 0
        if name in TIGHT and min(reached) > 1e-9:
            assert pair.state == "certain"

    def test_grades_up_to_the_highest_one(self) -> None:
        # b and c are open; with grades 0 to 3 a > b is at most (1 + 3 / log2(3)) / ideal of 3, 1
        runs = {"x": {"q": ["a", "b"]}, "y": {"q": ["c", "d"]}}

        pooled = pool(runs, {"q": {"a": 1}}, metric="ndcg@2", highest_grade=3, samples=100)

        (pair,) = pooled.pairs
        for grades in itertools.product((0, 1, 2, 3), repeat=3):
            full = {"a": 1.0, **dict(zip("bcd", map(float, grades), strict=True))}
            first, second = (
                reference.ndcg(full, run["q"], k=2) for run in (runs[pair.first], runs[pair.second])
            )
            assert pair.low - 1e-12 <= first - second <= pair.high + 1e-12


@each_metric
@pytest.mark.parametrize("seed", range(20))
def test_weights_and_divisors_come_to_the_score_of_the_metric(name: str, seed: int) -> None:
    runs, _ = two_runs(seed)
    chance = random.Random(seed)
    highest = 3 if name == "ndcg@3" else 1
    grades = {item: float(chance.randint(0, highest)) for item in "abcdef"}
    rankings = [Run(of_system) for of_system in runs.values()]
    k = metric(name).model_dump()["k"]
    items = PoolItems.of(rankings, ["q"], {"q": Relevance(grades)}, k)
    chosen = checked_metric(name)

    (query,) = queries_under(chosen, items, np.zeros(len(items.ids)), 3.0)

    gains = np.sort(query.grade[query.grade > 0])[::-1]
    first, second = query.grade @ query.weight
    if query.has_pairs:  # each pair of relevant items weighs 1 / the lower rank
        first, second = (
            score + sum(1 / max(pair) for pair in itertools.combinations(ranks[ranks > 0], 2))
            for score, ranks in zip((first, second), items.rank[query.grade > 0].T, strict=True)
        )
    divisor = query.divisor(gains) or 1.0
    scores = scores_if(chosen, items, items.known[None])[0, 0]
    assert [first / divisor, second / divisor] == pytest.approx(scores)


class TestOutlook:
    @each_metric
    def test_samples_are_scored_by_the_metric(self, name: str) -> None:
        chance = np.random.default_rng(16)
        runs = [
            Run({f"q{n}": chance.permutation(list("abcdefg"))[:5].tolist() for n in range(4)})
            for _ in range(2)
        ]
        k = metric(name).model_dump()["k"]
        items = PoolItems.of(runs, [f"q{n}" for n in range(4)], {"q1": Relevance({"z": 1})}, k)
        grades = chance.integers(0, 2, (3, len(items.ids))).astype(float)

        scores = scores_if(metric(name), items, grades)  # type: ignore[arg-type]

        for sample, query, system in itertools.product(range(3), range(4), range(2)):
            own = {
                item: grade
                for item, grade, position in zip(
                    items.ids, grades[sample], items.query, strict=True
                )
                if position == query
            }
            expected = ORACLES[name](own, runs[system][f"q{query}"].ids)
            assert scores[sample, query, system] == pytest.approx(expected)

    @each_metric
    def test_blocks_of_samples_change_nothing(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chance = random.Random(24)
        ids = list("abcdefghij")
        runs = {who: {f"q{n}": chance.sample(ids, 6) for n in range(8)} for who in "xyz"}
        judged = {f"q{n}": {item: chance.randrange(3) for item in "abc"} for n in range(4)}
        at_once = pool(runs, judged, metric=name, samples=100)
        monkeypatch.setattr(choose, "_GRADES_AT_ONCE", 300)
        assert pool(runs, judged, metric=name, samples=100) == at_once

    @pytest.mark.slow
    def test_memory_does_not_grow_with_samples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chance = random.Random(24)
        ids = [f"d{n}" for n in range(100)]
        runs = {who: {f"q{n}": chance.sample(ids, 20) for n in range(30)} for who in "vwxyz"}
        monkeypatch.setattr(choose, "_GRADES_AT_ONCE", 20_000)

        def peak(samples: int) -> int:
            tracemalloc.start()
            pool(runs, metric="recall", samples=samples)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            return most

        gc.disable()  # what refers back to itself would stay
        try:
            peak(100)
            assert peak(1000) < 1.2 * peak(100)
        finally:
            gc.enable()

    def test_rates_follow_what_was_judged(self) -> None:
        # of forty questions, what stands first is relevant and what stands last isn't
        ids = [f"d{n}" for n in range(6)]
        run = Run({f"q{n}": ids for n in range(60)})
        judged = {f"q{n}": Relevance({"d0": 1, "d1": 1, "d4": 0, "d5": 0}) for n in range(40)}
        items = PoolItems.of([run], list(run), judged, 6)

        rate = Belief(items, np.random.default_rng(0)).rate.reshape(60, 6)

        assert (rate[:40, 0] == 1).all()
        assert (rate[:40, 5] == 0).all()
        assert (rate[40:, 0] > 0.8).all()
        assert (rate[40:, 5] < 0.2).all()


class TestOrder:
    def test_what_all_rank_alike_tells_nothing(self) -> None:
        runs = {"x": {"q": ["a", "b", "c"]}, "y": {"q": ["a", "b", "d"]}}

        pooled = pool(runs, metric="precision@3", samples=100)

        assert {item.id for item in pooled.items} == {"c", "d"}
        assert pooled.n_unjudged == 4

    def test_the_larger_the_effect_the_sooner(self) -> None:
        # only the first rank of each differs by a whole 1 / log2(2), the others by less
        runs = {"x": {"q": ["a", "b", "c"]}, "y": {"q": ["d", "c", "b"]}}

        order = [item.id for item in pool(runs, metric="ndcg@3", samples=100).items]

        assert set(order[:2]) == {"a", "d"}

    def test_depth_asks_for_the_highest_ranks_first(self) -> None:
        runs = {"x": {"q": ["a", "b", "c"]}, "y": {"q": ["b", "a", "d"]}}

        pooled = pool(runs, metric="ndcg@3", strategy="depth", samples=100)

        assert [item.id for item in pooled.items] == ["a", "b", "c", "d"]

    def test_decided_comparisons_ask_for_nothing(self) -> None:
        runs = {"x": {"q": ["a"]}, "y": {"q": ["b"]}}

        pooled = pool(runs, {"q": {"a": 1, "b": 0}}, metric="precision@1", samples=100)

        assert pooled.is_enough
        assert (pooled.items, pooled.pairs[0].first, pooled.pairs[0].state) == ([], "x", "certain")

    def test_equal_rankings_tie_for_certain(self) -> None:
        pooled = pool({"x": {"q": ["a", "b"]}, "y": {"q": ["a", "b"]}}, metric="ap", samples=100)

        assert (pooled.is_enough, pooled.items, pooled.n_unjudged) == (True, [], 2)
        assert (pooled.pairs[0].state, pooled.pairs[0].difference) == ("certain", 0)

    def test_no_verdict_is_likely_before_what_is_judged_shows_it(self) -> None:
        # whatever is relevant, y finds it more often, since it retrieves more: that is no evidence
        runs = {
            "x": {f"q{n}": [f"a{n}"] for n in range(30)},
            "y": {f"q{n}": [f"b{n}.{rank}" for rank in range(5)] for n in range(30)},
        }

        unseen = pool(runs, metric="recall@5", samples=100)
        assert (unseen.n_judged, unseen.pairs[0].state, unseen.is_enough) == (0, "open", False)
        assert len(unseen.items) == unseen.n_unjudged

        relevant_only = {f"q{n}": {f"b{n}.0": 1} for n in range(5)}
        assert pool(runs, relevant_only, metric="recall@5", samples=100).pairs[0].state == "open"

        judged = {f"q{n}": {f"a{n}": 0, f"b{n}.0": 1} for n in range(5)}
        seen = pool(runs, judged, metric="recall@5", samples=100)
        assert (seen.pairs[0].first, seen.pairs[0].state) == ("y", "likely")

    def test_only_with_the_baseline(self) -> None:
        runs = {name: {"q": [name]} for name in "xyz"}

        pooled = pool(runs, metric="precision@1", baseline="y", samples=100)

        assert [{pair.first, pair.second} for pair in pooled.pairs] == [{"x", "y"}, {"y", "z"}]

    def test_the_same_seed_the_same_pool(self) -> None:
        runs, judged = two_runs(5)
        assert pool(runs, {"q": judged}, seed=3) == pool(runs, {"q": judged}, seed=3)


def test_the_file_tells_nothing_of_systems_and_comes_back_as_judgements(tmp_path: Path) -> None:
    dataset = RetrievalDataset(
        {"q": "Which moon?"}, corpus={"a": "Io, 木衛一", "b": "Triton"}, titles={"a": "Moons"}
    )
    runs = {"secret one": {"q": ["a"]}, "secret two": {"q": ["b"]}}

    pooled = pool(runs, dataset=dataset, metric="precision@1", samples=100)
    pooled.to_jsonl(tmp_path / "pool.jsonl")

    text = (tmp_path / "pool.jsonl").read_text(encoding="utf-8")
    records = {record["doc_id"]: record for record in map(json.loads, text.splitlines())}
    assert records["a"] == {
        "query_id": "q", "query": "Which moon?", "doc_id": "a", "text": "Moons\nIo, 木衛一",
    }  # fmt: skip
    assert "secret" not in text
    graded = [json.dumps({**record, "grade": 2}) for record in records.values()]
    (tmp_path / "judgements.jsonl").write_text("\n".join(graded), encoding="utf-8")
    judged = read_qrels(tmp_path / "judgements.jsonl")
    assert judged["q"].grades == {"a": 2, "b": 2}
    assert pool(runs, judged, metric="precision@1", samples=100).n_unjudged == 0


def test_texts_come_from_runs_too() -> None:
    from llama_index_rag_metrics import Ranking

    runs = {"x": Run({"q": Ranking(["a"], texts=["text of a"])}), "y": Run({"q": ["b"]})}

    assert pool(runs, metric="precision@1", samples=100).texts == {("q", "a"): "text of a"}
    # what was retrieved is what is judged; the dataset has the texts of what came as bare ids
    dataset = RetrievalDataset({"q": "?"}, corpus={"a": "another text of a", "b": "text of b"})
    texts = pool(runs, dataset=dataset, metric="precision@1", samples=100).texts
    assert texts == {("q", "a"): "text of a", ("q", "b"): "text of b"}


def test_the_report_names_verdicts_and_items(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    pooled = pool({evil: {"q": ["a"]}, "y": {"q": [evil]}}, metric="precision@1", samples=100)

    label = "Label these 2 passages (to_jsonl() writes them), then rerun."
    assert pooled.report().decision[0].text == f"1 comparison is undecided. {label}"
    kept = replace(pooled, file="my pool.jsonl")
    assert " rag-metrics labels review 'my pool.jsonl' -o judgements.jsonl" in str(kept)
    assert evil not in pooled.to_html(tmp_path / "pool.html").read_text()
    assert {record["doc_id"] for record in json.loads(pooled.to_json())} == {"a", evil}


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("metric", {"metric": "mrr"}),
        ("metric", {"metric": "ndcg"}),
        ("metric", {"metric": "ndcg@100tokens"}),
        ("metric", {"metric": "ndcg(mode=exponential)@5"}),
        ("metric", {"metric": "embedding_similarity"}),
        ("baseline", {"baseline": "z"}),
        ("n", {"n": 0}),
        ("level", {"level": 1}),
        ("samples", {"samples": 10}),
        ("strategy", {"strategy": "best"}),
    ],
)
def test_wrong_arguments(argument: str, options: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=f"^{argument}: "):
        pool({"x": {"q": ["a"]}, "y": {"q": ["b"]}}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("runs", [{}, {"x": {"q": ["a"]}}, [Run({"q": ["a"]})], 5])
def test_fewer_than_two_systems(runs: object) -> None:
    with pytest.raises(InvalidInput, match="runs"):
        pool(runs)  # type: ignore[arg-type]
