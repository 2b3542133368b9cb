"""Questions drawn where two systems retrieve something else, and decisions that rest on them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from llama_index_rag_metrics import (
    METRICS,
    Baseline,
    Call,
    Draw,
    Ranking,
    RetrievalDataset,
    Run,
    Scores,
    assert_retrieval,
    calibrate,
    check_rules,
    compare,
    draw_changed,
    metric,
    pool,
    score_rankings,
)
from llama_index_rag_metrics.decisions.comparison.pairing import stretched
from llama_index_rag_metrics.decisions.draws import _OF_ANY_ORDER, drawn_along
from llama_index_rag_metrics.decisions.gate.measuring import DrawnEvidence, PairedEvidence
from llama_index_rag_metrics.decisions.pytest_plugin import RetrievalAssertion
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

Rankings = Mapping[str, Sequence[str]]
QUERIES = [f"q{number}" for number in range(40)]


def two_runs(seed: int = 0, share: float = 0.5) -> dict[str, dict[str, list[str]]]:
    """Old and new rankings of 8 passages; in a share of them two passages change places."""
    rng = np.random.default_rng(seed)
    old = {query_id: [f"d{item}" for item in rng.permutation(8)] for query_id in QUERIES}
    new = {query_id: list(ids) for query_id, ids in old.items()}
    for ids in new.values():
        if rng.random() < share:
            first, second = rng.choice(8, 2, replace=False)
            ids[first], ids[second] = ids[second], ids[first]
    return {"old": old, "new": new}


RELEVANT = {query_id: {f"d{number % 8}": 1} for number, query_id in enumerate(QUERIES)}


def scored(
    runs: Mapping[str, Rankings], names: Sequence[str] = ("ndcg@8", "mrr@8"), **options: Any
) -> dict[str, Scores]:
    relevant = options.pop("relevant", RELEVANT)
    return {
        name: score_rankings(relevant, Run(run), list(names), **options)
        for name, run in runs.items()
    }


def test_changed_questions_are_those_whose_first_k_differ() -> None:
    old = {"a": ["1", "2", "3"], "b": ["1", "2", "3"], "c": ["1", "1", "2"], "d": []}
    new = {"a": ["1", "2", "4"], "b": ["2", "1", "3"], "c": ["1", "2"], "d": []}
    draws = {k: draw_changed({"old": old, "new": new}, k=k) for k in (1, 2, 3, None)}
    assert {k: draw.changed for k, draw in draws.items()} == {
        1: ("b",),
        2: ("b",),  # copies are dropped: c has 1, 2 in both
        3: ("a", "b"),
        None: ("a", "b"),
    }
    any_order = draw_changed({"old": old, "new": new}, k=2, order=False)
    assert (any_order.changed, any_order.share) == ((), 0.0)
    assert str(any_order).endswith(
        "retrieves other passages in the first 2: there is nothing to label."
    )


def test_what_is_known_beside_ids_counts_where_both_know_it() -> None:
    def changed(old: Ranking, new: Ranking, **options: Any) -> bool:
        return bool(
            draw_changed({"old": Run({"a": old}), "new": Run({"a": new})}, **options).changed
        )

    plain, text = Ranking(["1", "2"]), Ranking(["1", "2"], texts=["x", "y"])
    other = Ranking(["1", "2"], texts=["x", "other"])
    assert not changed(plain, text)
    assert changed(text, other)
    assert changed(text, other, order=False)
    assert not changed(text, other, k=1)
    long = Ranking(["1", "2"], tokens=[3, 4])
    assert changed(long, Ranking(["1", "2"], tokens=[3, 5]))
    # the same passages in other calls: combine="last" would see a change
    calls = [Ranking(["1", "2"], calls=[Call(["1"]), Call(["2"])]), Ranking(["1", "2"], calls=[])]
    assert changed(*calls)


def test_a_failure_counts_as_a_change() -> None:
    failed = Ranking(error="timeout")
    runs = {"old": Run({"a": failed, "b": ["1"]}), "new": Run({"a": failed, "b": ["1"]})}
    assert draw_changed(runs).changed == ("a",)


@given(seed=st.integers(0, 5), n=st.integers(1, 30), order=st.permutations(QUERIES))
@examples(30)
def test_the_draw_depends_on_neither_the_order_of_questions_nor_n(
    seed: int, n: int, order: list[str]
) -> None:
    runs = two_runs()
    shuffled = {name: {query_id: run[query_id] for query_id in order} for name, run in runs.items()}
    drawn = draw_changed(runs, k=8, n=n, seed=seed)
    assert drawn == draw_changed(shuffled, k=8, n=n, seed=seed)
    assert drawn.drawn == draw_changed(runs, k=8, n=n + 5, seed=seed).drawn[:n]
    assert set(drawn.drawn) <= set(drawn.changed)


def test_every_changed_question_is_drawn_as_often() -> None:
    runs = two_runs()
    counts = dict.fromkeys(draw_changed(runs, k=8).changed, 0)
    for seed in range(400):
        for query_id in draw_changed(runs, k=8, n=5, seed=seed).drawn:
            counts[query_id] += 1
    # 400 draws of 5 of m: a count is binomial with p = 5 / m; five standard deviations
    m = len(counts)
    mean, spread = 2000 / m, math.sqrt(400 * (5 / m) * (1 - 5 / m))
    assert all(abs(count - mean) < 5 * spread for count in counts.values())


def test_labels_and_metadata_of_a_dataset_are_known() -> None:
    runs = two_runs()
    labelled = {key: ["d1"] for key in QUERIES[:20]}
    dataset = RetrievalDataset(
        dict.fromkeys(QUERIES, "?"), labelled, metadata={"q1": {"language": "de"}}
    )
    draw = draw_changed(runs, k=8, n=10, dataset=dataset)
    assert draw.labelled == tuple(each for each in draw.drawn if each in labelled)
    assert draw.metadata == {"q1": {"language": "de"}}
    assert f", {len(draw.labelled)} of them labelled already." in str(draw)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"runs": {"old": {"a": ["1"]}}}, "two systems by name"),
        ({"runs": {"x": {"a": []}, "y": {"b": []}}}, r"x lacks 1 \(b\); y lacks 1 \(a\)"),
        ({"runs": {"x": {}, "y": {}}}, "rankings of the same questions"),
        ({"runs": {"x": {1: []}, "y": {1: []}}}, "query id: expected a text"),
        ({"runs": {"x": {"a": []}, "y": {"a": []}}, "k": 0}, "number of passages"),
        ({"runs": {"x": {"a": []}, "y": {"a": []}}, "n": 0}, "n: expected"),
    ],
)
def test_what_cant_be_drawn_from(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        draw_changed(**arguments)


def test_a_draw_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "draw.json"
    draw = draw_changed(two_runs(), k=8, n=10)
    draw.save(path)
    assert Draw.load(path) == draw
    content = json.loads(path.read_text())
    content["drawn"].append(content["unchanged"][0])
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="draw again"):
        Draw.load(path)
    picked = [each for each in draw.changed if each not in draw.drawn][: len(draw.drawn)]
    for drawn in (picked, list(draw.drawn)[1:], sorted(draw.drawn)):
        assert drawn != list(draw.drawn)
        path.write_text(json.dumps({**content, "drawn": drawn}))
        with pytest.raises(FileFormatError, match="other than those that seed 0 draws"):
            Draw.load(path)
    path.write_text("{}")
    with pytest.raises(FileFormatError, match="draw, version 1"):
        Draw.load(path)


def test_ends_lie_at_the_bound_of_the_share_that_widens_them() -> None:
    # 4 of 10 changed. Wilson's 95 % interval of 4 / 10, by hand with z = 1.96:
    # (0.4 + 0.192) / 1.384 ± 1.96 √(0.024 + 0.0096) / 1.384 = 0.428 ± 0.2595
    runs = {name: {f"q{number}": ["a"] for number in range(10)} for name in ("old", "new")}
    runs["new"].update({f"q{number}": ["b"] for number in range(4)})
    draw = draw_changed(runs)
    low, high = draw.share_between(0.975)
    assert [low, high] == pytest.approx([0.168, 0.687], abs=5e-4)
    assert stretched((-0.04, 0.08), draw, 0.975, None) == pytest.approx(
        (-0.04 * high / 0.4, 0.08 * high / 0.4)
    )
    assert stretched((0.04, 0.08), draw, 0.975, None) == pytest.approx(
        (0.04 * low / 0.4, 0.08 * high / 0.4)
    )
    assert stretched((-0.08, -0.04), draw, 0.975, None) == pytest.approx(
        (-0.08 * high / 0.4, -0.04 * low / 0.4)
    )


def test_the_interval_is_that_of_the_drawn_times_the_share() -> None:
    runs = two_runs(1)
    draw = draw_changed(runs, k=8, n=12)
    systems = scored(runs, ["ndcg@8"])
    found = compare(systems, "old", drawn=draw)["new", "ndcg@8"]
    alone = {name: scores.select(draw.drawn) for name, scores in systems.items()}
    plain = compare(alone, "old")["new", "ndcg@8"]
    assert plain.low is not None
    assert plain.high is not None
    # both ends are away from 0: the share's error moves them to its upper bound
    share, (_, most) = draw.share, draw.share_between(0.975)
    assert plain.low < 0 < plain.high
    down, up = plain.difference - plain.low, plain.high - plain.difference
    assert found.difference == pytest.approx(share * plain.difference)
    assert found.low == pytest.approx(
        share * plain.difference - math.hypot(share * down, (most - share) * plain.low)
    )
    assert found.high == pytest.approx(
        share * plain.difference + math.hypot(share * up, (most - share) * plain.high)
    )
    assert (found.n, found.mean) == (12, plain.mean)
    assert found.p_t == pytest.approx(plain.p_t)


@pytest.mark.slow
@given(seed=st.integers(0, 200), share=st.floats(0.05, 1))
@examples(40)
def test_drawing_all_changed_questions_gives_the_mean_of_all(seed: int, share: float) -> None:
    runs = two_runs(seed, share)
    draw = draw_changed(runs, k=8, n=1000)
    if not draw.changed:
        return
    systems = scored(runs)
    of_all, of_draw = compare(systems, "old"), compare(systems, "old", drawn=draw)
    for name in ("ndcg@8", "mrr@8"):
        everywhere, drawn = of_all["new", name], of_draw["new", name]
        assert drawn.difference == pytest.approx(everywhere.difference, abs=1e-12)
        assert (drawn.wins, drawn.losses) == (everywhere.wins, everywhere.losses)


def test_a_comparison_says_what_was_done() -> None:
    runs = two_runs(2)
    draw = draw_changed(runs, k=8, n=10)
    comparison = compare(scored(runs), "old", drawn=draw)
    used = (
        f"{draw.share:.0%} of 40 questions".replace("%", " %")
        + " retrieve something else in the first 8; 10 of them, labelled, show the difference "
        "over all 40."
    )
    assert comparison.decision.endswith(f" {used}")
    assert comparison.report().decision[-1].text == used
    assert len(comparison.query_ids) == 10
    assert any("means are those of the 10 questions drawn" in note for note in comparison.notes)


def test_questions_beyond_the_draw_dont_count() -> None:
    runs = two_runs(3)
    draw = draw_changed(runs, k=8, n=10)
    some = {query_id: RELEVANT[query_id] for query_id in (*draw.drawn, *draw.changed)}
    few = {query_id: RELEVANT[query_id] for query_id in draw.drawn}
    ways = [
        compare(scored(runs, relevant=relevant), "old", drawn=draw).differences
        for relevant in (RELEVANT, some, few)
    ]
    assert ways[0] == ways[1] == ways[2]


def test_a_question_without_anything_relevant_is_no_difference() -> None:
    runs = two_runs(4)
    draw = draw_changed(runs, k=8, n=6)
    relevant = {**RELEVANT, draw.drawn[0]: {"d0": 0}}
    comparison = compare(scored(runs, relevant=relevant), "old", drawn=draw)
    difference = comparison["new", "ndcg@8"]
    changes = {
        query_id: float(scores["new"] - scores["old"])
        for query_id in draw.drawn[1:]
        for scores in [
            {
                name: each.by_query("ndcg@8")[query_id]
                for name, each in scored(runs, relevant=relevant).items()
            }
        ]
    }
    assert difference.n == 6
    assert difference.difference == pytest.approx(draw.share * sum(changes.values()) / 6)
    assert any(note.endswith("which count as no difference: 1") for note in comparison.notes)


def test_less_is_better_where_nothing_is_relevant_is_no_zero() -> None:
    runs = two_runs(4)
    draw = draw_changed(runs, k=8, n=6)
    first = draw.drawn[0]
    systems = {
        name: each.replace(
            columns={**each.columns, "tokens@8": np.arange(len(each.query_ids), dtype=float)}
        )
        for name, each in scored(runs, relevant={**RELEVANT, first: {"d0": 0}}).items()
    }
    comparison = compare(systems, "old", drawn=draw)
    assert comparison.metric_names == ("ndcg@8", "mrr@8")
    left_out = "not compared: tokens@8, since it has no value where nothing is relevant"
    assert left_out in comparison.notes
    with pytest.raises(InvalidInput, match=rf"{first}\. Nothing is relevant there"):
        compare(systems, "old", drawn=draw, metrics=["tokens@8"])


def test_slices_have_shares_of_their_own() -> None:
    runs = two_runs(5)
    language = {query_id: "de" if number < 10 else "en" for number, query_id in enumerate(QUERIES)}
    for query_id in QUERIES[20:]:
        runs["new"][query_id] = runs["old"][query_id]
        language[query_id] = "fr"
    metadata = {query_id: {"language": value} for query_id, value in language.items()}
    dataset = RetrievalDataset(dict.fromkeys(QUERIES, "?"), RELEVANT, metadata=metadata)
    draw = draw_changed(runs, k=8, n=40, dataset=dataset)
    comparison = compare(scored(runs), "old", drawn=draw, slices="language")
    for value in ("de", "en"):
        ids = [query_id for query_id in QUERIES if language[query_id] == value]
        chosen = {name: scores.select(ids) for name, scores in scored(runs).items()}
        everywhere = compare(chosen, "old")["new", "ndcg@8"]
        found = comparison.slices[value]["new", "ndcg@8"]
        assert found.difference == pytest.approx(everywhere.difference)
        assert found.low is not None
        assert found.low <= found.difference
    same = comparison.slices["fr"]["new", "ndcg@8"]
    assert (same.n, same.difference, same.outcome) == (0, 0.0, "alike")
    assert same.verdict == (
        "None of 20 questions retrieves something else in the first 8, so ndcg@8 is the same."
    )
    few = replace(draw, drawn=tuple(each for each in draw.drawn if language[each] == "de"))
    undrawn = compare(scored(runs), "old", drawn=few, slices="language").slices["en"]
    assert undrawn["new", "ndcg@8"].outcome == "can't tell"
    assert undrawn["new", "ndcg@8"].verdict.endswith(
        " in the first 8, but none of these is drawn: draw more questions."
    )
    assert any("fr 0 of 20 and 0" in note for note in comparison.notes)
    assert "fr (0)" in str(comparison)
    grouped = compare(scored(runs), "old", drawn=draw, clusters="language")
    assert grouped["new", "ndcg@8"].method.startswith("cluster-robust")
    languages = {name: each.replace(metadata=metadata) for name, each in scored(runs).items()}
    with pytest.raises(InvalidInput, match="slices: expected a key of the questions' metadata"):
        compare(languages, "old", drawn=replace(draw, metadata={}), slices="language")


def test_clusters_widen_the_share() -> None:
    old = {query_id: ["a"] for query_id in QUERIES}
    new = {**old, **{key: ["b"] for key in QUERIES[:8]}}
    draw = draw_changed({"old": old, "new": new})
    groups = {query_id: number // 8 for number, query_id in enumerate(QUERIES)}
    plain, clustered = draw.share_between(0.975), draw.share_between(0.975, groups)
    assert clustered[1] > plain[1]
    relevant = {query_id: ["a"] for query_id in QUERIES}
    systems = scored({"old": old, "new": new}, ["hit_rate@1"], relevant=relevant)
    by_pair = {query_id: number // 2 for number, query_id in enumerate(QUERIES)}
    apart, together = (
        compare(systems, "old", drawn=draw, clusters=clusters)["new", "hit_rate@1"]
        for clusters in (None, by_pair)
    )
    assert apart.outcome == "worse"
    assert apart.low is not None
    assert together.low is not None
    assert together.low < apart.low < apart.difference == -0.2
    with pytest.raises(InvalidInput, match="one for each of 40 questions"):
        compare(systems, "old", drawn=draw, clusters={each: each for each in QUERIES[:8]})


@pytest.mark.parametrize("k", [1, 3])
def test_allowed_metrics_are_equal_where_nothing_changed(k: int) -> None:
    rng = np.random.default_rng(k)
    old = {query_id: [f"d{item}" for item in rng.permutation(9)] for query_id in QUERIES}
    ordered = {each: ids[:k] + [f"x{item}" for item in ids[k:]] for each, ids in old.items()}
    mixed = {each: [*rng.permutation(ids[:k]), *ids[k:][::-1]] for each, ids in old.items()}
    relevant = {each: {f"d{item}": int(rng.integers(0, 3)) for item in range(6)} for each in old}
    names = [f"{name}@{cutoff}" for name in METRICS for cutoff in (1, 3, 5)] + [*METRICS]
    allowed = set()
    for order, new in ((True, ordered), (False, mixed)):
        draw = draw_changed({"old": old, "new": new}, k=k, order=order)
        assert not draw.changed
        assert not draw.whole
        for name in names:
            if draw.unseen_by(name) or metric(name).needs:
                continue
            allowed.add((order, name))
            both = scored({"old": old, "new": new}, [name], relevant=relevant)
            assert both["old"].by_query(name) == both["new"].by_query(name), name
    assert {(True, f"ndcg@{k}"), (True, "hit_rate@1"), (False, f"recall@{k}")} <= allowed
    assert not {(True, "ndcg@5"), (True, "mrr"), (False, f"ndcg@{k}"), (False, "f1@5")} & allowed
    assert len({name for order, name in allowed if not order}) >= len(_OF_ANY_ORDER)


def test_whole_rankings_determine_metrics_without_a_cutoff() -> None:
    short = {"old": {"a": ["1", "2"]}, "new": {"a": ["2", "1"]}}
    assert draw_changed(short, k=10).unseen_by("mrr") == ""
    assert draw_changed(short, k=10, order=False).unseen_by("recall") == ""
    assert "reads the whole ranking" in draw_changed(short, k=1).unseen_by("mrr")
    assert draw_changed(short, k=None).unseen_by("recall@2000tokens") == ""
    assert "its tokens" in draw_changed(short, k=1).unseen_by("recall@2000tokens")
    assert "calls" in draw_changed(short, k=None).unseen_by("wasted_calls")
    assert "forbidden" in draw_changed(short, k=None).unseen_by("leak@1")
    assert "texts" in draw_changed(short, k=None).unseen_by("bm25_similarity")
    assert "nobody knows" in draw_changed(short, k=None).unseen_by("my own")
    assert isinstance(metric("recall@2000tokens"), RankingMetric)


def test_what_a_draw_cant_decide() -> None:
    runs = two_runs(6)
    draw, systems = draw_changed(runs, k=5, n=8), scored(runs, ["ndcg@5", "ndcg@8"])
    assert compare(systems, "old", drawn=draw).metric_names == ("ndcg@5",)
    with pytest.raises(InvalidInput, match=r"ndcg@8 .* reads 8 passages, and 5 were compared"):
        compare(systems, "old", drawn=draw, metrics=["ndcg@8"])
    with pytest.raises(InvalidInput, match="two that were drawn from"):
        compare({**systems, "third": systems["new"]}, "old", drawn=draw)
    lacking = {each: RELEVANT[each] for each in QUERIES if each != draw.drawn[3]}
    with pytest.raises(InvalidInput, match=rf"1 of the 8 drawn questions: {draw.drawn[3]}\. Label"):
        compare(scored(runs, ["ndcg@5"], relevant=lacking), "old", drawn=draw)
    with pytest.raises(InvalidInput, match="drawn: expected"):
        compare(systems, "old", drawn=3)  # type: ignore[arg-type]
    same = draw_changed({"old": runs["old"], "new": runs["old"]}, k=5)
    with pytest.raises(InvalidInput, match="there is nothing to compare"):
        compare(systems, "old", drawn=same)
    judged = {name: calibrate(each, each.select(draw.drawn)) for name, each in systems.items()}
    with pytest.raises(InvalidInput, match="uncalibrated"):
        compare(judged, "old", drawn=draw)


def test_other_runs_than_those_drawn_from_are_refused() -> None:
    runs = two_runs(7)
    draw = draw_changed(runs, k=8, n=10)
    other = {**runs, "new": {**runs["new"], draw.drawn[0]: ["d1"]}}
    with pytest.raises(InvalidInput, match=rf"something else for {draw.drawn[0]}\. Score the very"):
        compare(scored(other), "old", drawn=draw)
    back = compare(scored(runs), "new", drawn=draw)["old", "ndcg@8"]
    assert back.difference == pytest.approx(
        -compare(scored(runs), "old", drawn=draw)["new", "ndcg@8"].difference
    )
    unknown = {name: each.replace(rankings={}) for name, each in scored(runs).items()}
    assert any("isn't checked" in note for note in compare(unknown, "old", drawn=draw).notes)


def test_the_gate_decides_by_the_drawn_questions() -> None:
    runs = two_runs(8, share=0.2)
    draw = draw_changed(runs, k=8, n=5)
    systems = scored(runs)
    baseline = Baseline.of(systems["old"])
    report = check_rules(systems["new"], "ndcg@8 >= baseline - 0.3", baseline=baseline, drawn=draw)
    (verdict,) = report
    plain = compare(systems, "old", drawn=draw)["new", "ndcg@8"]
    assert verdict.n == 5
    assert verdict.difference == pytest.approx(plain.difference, abs=1e-9)
    assert report.drawn == draw.used == report.report().decision[-1].text
    assert json.loads(report.to_json())["drawn"] == draw.used
    undrawn = check_rules(systems["new"], "ndcg@8 >= baseline - 0.3", baseline=baseline).verdicts
    assert undrawn[0].n == 40
    assert (
        assert_retrieval(
            systems["new"], "ndcg@8 >= baseline - 0.9", baseline=baseline, drawn=draw
        ).outcome
        == "pass"
    )


@pytest.mark.parametrize("rule", ["ndcg@8 >= 0.1", "ndcg@8 >= anchor - 0.1", "failed <= 0"])
def test_rules_that_arent_of_differences_are_refused(rule: str) -> None:
    runs = two_runs(8)
    systems = scored(runs)
    with pytest.raises(InvalidInput, match="a rule against the baseline"):
        check_rules(systems["new"], rule, baseline=systems["old"], drawn=draw_changed(runs, k=8))


def test_where_nothing_changed_the_gate_is_kept_and_a_stale_draw_is_noticed() -> None:
    runs = two_runs(9)
    systems, same = scored(runs), draw_changed({"old": runs["old"], "new": runs["old"]}, k=8)
    rule = "ndcg@8 >= baseline - 0.02"
    report = check_rules(systems["old"], rule, baseline=systems["old"], drawn=same)
    assert (report.outcome, report.verdicts[0].n) == ("pass", 40)
    with pytest.raises(InvalidInput, match="aren't what was drawn from"):
        check_rules(systems["new"], rule, baseline=systems["old"], drawn=same)
    unknown = {name: each.replace(rankings={}) for name, each in systems.items()}
    with pytest.raises(InvalidInput, match="say what was retrieved"):
        check_rules(unknown["new"], rule, baseline=unknown["old"], drawn=same)


def test_passages_that_changed_under_their_ids_are_no_identical_rankings() -> None:
    # every passage has another text; the drawn ones score as before, which proves little of others
    old = {query_id: Ranking(["a"], texts=["old"]) for query_id in QUERIES}
    new = {query_id: Ranking(["a"], texts=["new"]) for query_id in QUERIES}
    draw = draw_changed({"old": Run(old), "new": Run(new)}, n=5)
    scores = scored({"new": {query_id: ["a"] for query_id in QUERIES}})["new"]
    (verdict,) = check_rules(scores, "ndcg@8 >= baseline - 0.02", baseline=scores, drawn=draw)
    assert (verdict.outcome, verdict.n) == ("inconclusive", 5)


def test_a_gain_of_less_is_better_keeps_its_sign() -> None:
    runs = two_runs(10)
    draw = draw_changed(runs, k=8, n=10)
    systems = scored(runs)
    cost = {
        name: Scores(
            each.query_ids,
            {"tokens@8": [index + (name == "new") for index in range(len(each.query_ids))]},
            rankings=dict(each.rankings),
        )
        for name, each in systems.items()
    }
    rule = "tokens@8 <= baseline + 5"
    (verdict,) = check_rules(cost["new"], rule, baseline=cost["old"], drawn=draw)
    assert verdict.difference == pytest.approx(draw.share)
    assert verdict.upper is not None
    assert verdict.upper >= draw.share


def test_a_pool_of_the_drawn_questions_alone() -> None:
    runs = two_runs(11)
    draw = draw_changed(runs, k=8, n=4)
    chosen = {name: draw.select(Run(run)) for name, run in runs.items()}
    items = pool(chosen, metric="precision@8", strategy="depth").items
    assert {item.query_id for item in items} == set(draw.drawn)
    assert len(items) == 8 * 4
    with pytest.raises(InvalidInput, match="a ranking for each drawn question"):
        draw.select(Run({}))


def test_questions_needed_are_no_more_than_there_are() -> None:
    runs = two_runs(12, share=0.3)
    draw = draw_changed(runs, k=8, n=6)
    systems = scored(runs)
    rules = ["ndcg@8 >= baseline - 0.05", "ndcg@8 >= baseline - 0.001"]
    found, hopeless = check_rules(
        systems["new"], rules, baseline=systems["old"], drawn=draw
    ).verdicts
    assert found.needed is not None
    assert len(draw.drawn) < found.needed <= len(draw.changed)
    # not even all that changed would show that so little is lost
    assert (hopeless.outcome, hopeless.needed) == ("inconclusive", None)
    assert replace(draw, drawn=()).used.startswith(draw.found)


def test_a_comparison_asks_for_no_more_questions_than_changed() -> None:
    # reckoned from the drawn ones, as if any number could be drawn
    runs = two_runs(8, share=0.9)
    systems = scored(runs, ["hit_rate@1", "ndcg@8"])
    draw = draw_changed(runs, k=8, n=30)
    said = [compare(systems, "old", drawn=drawn).notes for drawn in (None, draw)]
    assert ["would need" in " ".join(notes) for notes in said] == [True, False]


def test_the_tolerance_that_is_named_lets_an_unchanged_system_pass() -> None:
    # 80 % of the time: other drawn questions of the same kind, and another share that changed
    rng, passed = np.random.default_rng(5), []
    asked = tuple(f"q{number:03}" for number in range(300))

    def evidence(n: int) -> DrawnEvidence:
        changed = asked[: rng.binomial(300, 0.2)]
        draw = Draw(("old", "new"), 10, True, True, 0, asked, changed, changed[:n])
        drawn = PairedEvidence(rng.choice([-0.3, -0.1, 0.1, 0.3], n))
        return DrawnEvidence.of(drawn, draw, None)

    for _ in range(20):
        seen = evidence(40)
        loss = seen.decidable(0.95)
        assert loss is not None
        lows = [evidence(40).bounds(0.95)[0] for _ in range(20)]
        passed += [low is not None and low >= -loss for low in lows]
        needed = seen.needed(0.9 * loss, 0.95)
        assert needed is None or needed > 40
    assert 0.75 <= np.mean(passed) <= 0.85


def test_the_fixture_of_pytest_finds_a_draw_and_leaves_it_aside_to_update(tmp_path: Path) -> None:
    runs = two_runs(13, share=0.2)
    systems, rule = scored(runs), "ndcg@8 >= baseline - 0.9"
    draw_changed(runs, k=8, n=5).save(tmp_path / "draw.json")
    for update, name in ((True, "old"), (False, "new")):
        fixture = RetrievalAssertion(Path("base.json"), tmp_path, update=update, strict=False)
        report = fixture(systems[name], rule, drawn="draw.json")
        assert report.verdicts[0].n == (40 if update else 5)


class TestAlongScores:
    SCORES: ClassVar = {f"q{number:02}": number // 10 / 9 for number in range(100)}

    def test_a_larger_draw_only_adds_to_a_smaller_one_until_all_are_drawn(self) -> None:
        turned = dict(reversed(self.SCORES.items()))
        every = drawn_along(self.SCORES, 200, seed=3)
        assert sorted(every) == [*self.SCORES]
        for n in (1, 20, 99):
            assert drawn_along(turned, n, seed=3) == every[:n]
        assert drawn_along(self.SCORES, 20, seed=4) != every[:20]
        assert drawn_along({}, 5, seed=0) == []

    def test_each_is_as_likely_as_any_other(self) -> None:
        draws = 3000
        drawn = Counter(q for seed in range(draws) for q in drawn_along(self.SCORES, 30, seed))
        # binomial, of 3,000 draws with a share of 30 in 100: 900, give or take 4.5 times √630
        assert len(drawn) == 100
        assert all(abs(times - 900) < 4.5 * math.sqrt(630) for times in drawn.values())

    @pytest.mark.parametrize("seed", range(5))
    def test_they_are_spread_over_the_scores(self, seed: int) -> None:
        # 20 steps of the golden ratio: a tenth of the circle holds 1, 2 or 3 of them
        drawn = Counter(self.SCORES[query] for query in drawn_along(self.SCORES, 20, seed))
        assert len(drawn) == 10
        assert {*drawn.values()} <= {1, 2, 3}
