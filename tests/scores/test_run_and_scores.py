"""A Run is what was retrieved; Scores are what metrics say, with the counts beside the means."""

import copy
import json
import math
import operator
import pickle
import sys
from dataclasses import FrozenInstanceError
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.retrievers import Scripted, node

from llama_index_rag_metrics import (
    Ranking,
    RetrievalDataset,
    Run,
    Scores,
    compare,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.scores.counts import Reason, clusters_of
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import slice_table
from llama_index_rag_metrics.stories.story import query_answers


class TestRun:
    def test_run_is_a_mapping_in_the_order_given(self) -> None:
        run = Run({"q2": ["b", "a"], "q1": Ranking(["c"], scores=[0.5])}, name="bm25")
        assert list(run) == ["q2", "q1"]
        assert len(run) == 2
        assert run["q2"] == Ranking(["b", "a"])
        assert run["q1"].scores == [0.5]
        assert "q3" not in run

    def test_queries_that_failed(self) -> None:
        run = Run({"q1": [], "q2": Ranking(error="timeout"), "q3": ["a"]})
        assert run.failed == {"q2": "timeout"}

    def test_latency_counts_timed_queries_only(self) -> None:
        timed = {f"q{n}": Ranking(["a"], latency=n / 100) for n in range(101)}
        latency = Run({**timed, "untimed": ["a"]}).latency
        assert latency is not None
        # 0.00, 0.01, … 1.00: each percentile is its own hundredth
        assert latency.n == 101
        assert (latency.p50, latency.p95, latency.p99) == pytest.approx((0.5, 0.95, 0.99))
        assert Run({"q": ["a"]}).latency is None

    def test_latency_leaves_out_failed_queries(self) -> None:
        run = Run({"q1": Ranking(["a"], latency=1.0), "q2": Ranking(latency=0.001, error="no")})
        latency = run.latency
        assert latency is not None
        assert (latency.n, latency.p50) == (1, 1.0)
        assert run.select(["q2"]).latency is None

    def test_tokens_are_counted_once_a_passage_and_without_failures(self) -> None:
        rankings = {"q1": Ranking(["a", "b", "a"], tokens=[3, 2, 3]), "q2": Ranking(error="no")}
        assert Run({**rankings, "q3": Ranking(["c"], tokens=[1])}).mean_tokens == 3  # (5 + 1) / 2
        assert Run({"q1": ["a"]}).mean_tokens is Run({}).mean_tokens is None

    def test_select(self) -> None:
        run = Run({"q1": ["a"], "q2": ["b"]}, name="bm25")
        part = run.select(["q2"])
        assert list(part) == ["q2"]
        assert part.name == "bm25"

    def test_equality_is_of_the_rankings(self) -> None:
        assert Run({"q": ["a"]}, name="one") == Run({"q": ["a"]}, name="other")
        assert Run({"q": ["a"]}) != Run({"q": ["b"]})

    def test_pickle(self) -> None:
        run = Run({"q": Ranking(["a"], [None], ["text"], 0.1)})
        assert pickle.loads(pickle.dumps(run)) == run

    @pytest.mark.parametrize("column", ["scores", "texts"])
    def test_columns_have_one_value_an_id(self, column: str) -> None:
        columns: dict[str, Any] = {column: ["x"]}
        with pytest.raises(InvalidInput, match=f"{column}: expected one for each of the 2 ids"):
            Ranking(["a", "b"], **columns)

    @pytest.mark.parametrize("ranking", ["abc", 5, None])
    def test_ranking_is_a_list_of_ids(self, ranking: Any) -> None:
        with pytest.raises(InvalidInput, match="ranking of question 'q': expected a list of ids"):
            Run({"q": ranking})

    def test_repr_says_what_it_is(self) -> None:
        run = Run({"q1": ["a"], "q2": Ranking(error="x")}, name="bm25")
        assert repr(run) == "<Run bm25: 2 questions, 1 failed>"


SCORES = Scores(
    ["q1", "q2", "q3"],
    {"mrr": [1.0, 0.25, 0.5], "similarity": [math.nan, 0.5, 1.0]},
    excluded={"q4": "no_relevant", "q5": "unjudged"},
    failed={"q2": "timeout"},
    empty=["q3"],
    queries={"q1": "first?", "q2": "second?"},
    metadata={"q1": {"lang": "en"}, "q2": {"lang": "中文"}, "q4": {"lang": "en"}},
    name="bm25",
    notes=["a note"],
)


class TestScores:
    def test_means_leave_out_what_has_no_value(self) -> None:
        # (1 + 1/4 + 1/2) / 3 and (1/2 + 1) / 2
        assert dict(SCORES.means) == {"mrr": 1.75 / 3, "similarity": 0.75}
        assert (SCORES.n("mrr"), SCORES.n("similarity")) == (3, 2)
        assert SCORES["similarity"].tolist() == [0.5, 1.0]
        assert SCORES.by_query("similarity") == {"q2": 0.5, "q3": 1.0}
        assert SCORES.per_query["q1"] == {"mrr": 1.0}

    @pytest.mark.parametrize(
        ("write", "error"),
        [
            (lambda scores: setattr(scores, "name", ""), FrozenInstanceError),
            (lambda scores: delattr(scores, "notes"), FrozenInstanceError),
            (lambda scores: operator.setitem(scores.column("mrr"), 0, 0.0), ValueError),
        ],
    )
    def test_scores_cannot_be_written_into(self, write: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            write(SCORES)
        for twin in (copy.deepcopy(SCORES), pickle.loads(pickle.dumps(SCORES))):
            assert twin == SCORES

    def test_scores_dont_change_with_what_they_were_made_of(self) -> None:
        column, row = np.array([1.0, 0.5]), {"lang": "en"}
        excluded: dict[str, Reason] = {"q3": "failed"}
        scores = Scores(["q1", "q2"], {"m": column}, excluded=excluded, metadata={"q1": row})
        column[0], row["lang"] = 0.0, "fr"
        excluded.clear()
        assert scores.means["m"] == 0.75
        assert scores.counts.queries == 3
        assert scores.metadata["q1"] == {"lang": "en"}

    def test_replace_counts_anew(self) -> None:
        assert SCORES.counts.empty == 1
        more = SCORES.replace(empty=["q1", "q3"], name="more")
        assert (more.counts.empty, more.name) == (2, "more")
        assert (SCORES.counts.empty, SCORES.name) == (1, "bm25")
        assert more.replace(empty=SCORES.empty, name="bm25") == SCORES

    def test_counts_stand_beside_the_means(self) -> None:
        counts = SCORES.counts
        assert (counts.queries, counts.scored) == (5, 3)
        assert (counts.failed, counts.empty) == (1, 1)
        assert (counts.no_relevant, counts.unjudged) == (1, 1)

    def test_failed_and_empty_queries_count_wherever_they_stand(self) -> None:
        run = {"q1": [], "q2": Ranking(error="timeout"), "q3": ["a"]}
        counts = score_rankings({"q1": [], "q2": None, "q3": ["a"]}, run, "mrr").counts  # type: ignore[arg-type]
        assert (counts.queries, counts.scored) == (3, 1)
        assert (counts.failed, counts.empty, counts.no_relevant, counts.unjudged) == (1, 1, 1, 1)

    def test_metric_that_was_not_scored_is_not_called_unknown(self) -> None:
        words = "metric: expected a metric that was scored: mrr, similarity, got 'ndcg@5'"
        for lookup in (SCORES.__getitem__, SCORES.by_query, SCORES.n):
            with pytest.raises(InvalidInput, match=words):
                lookup("ndcg@5")

    def test_select_takes_the_counts_along(self) -> None:
        part = SCORES.select(["q4", "q1"])
        assert part.query_ids == ("q1",)
        assert part.excluded == {"q4": "no_relevant"}
        assert (part.counts.queries, part.counts.failed, part.counts.empty) == (2, 0, 0)
        assert part.notes == ("a note (of all 5 questions)",)
        assert SCORES.select(["q1", "q2", "q3", "q4", "q5"]).notes == ("a note",)

    def test_slices_by_metadata(self) -> None:
        slices = SCORES.slices("lang")
        assert list(slices) == ["en", "中文", None]
        assert slices["en"].query_ids == ("q1",)
        assert slices["en"].counts.no_relevant == 1
        assert dict(slices["中文"].means) == {"mrr": 0.25, "similarity": 0.5}
        assert slices[None].query_ids == ("q3",)

    def test_slices_by_what_cannot_be_hashed(self) -> None:
        scores = Scores(["q"], {"m": [1.0]}, metadata={"q": {"tags": ["a"]}})
        assert list(scores.slices("tags")) == ["['a']"]

    def test_values_that_print_alike_are_one_slice_and_true_is_not_one(self) -> None:
        values = [1, "1", 1.0, True, "True", 2.5, math.nan, None]
        ids = [f"q{number}" for number in range(len(values))]
        metadata = {key: {"hops": value} for key, value in zip(ids, values, strict=True)}
        scores = Scores(ids, {"m": [1.0] * len(ids)}, metadata=metadata)
        parts = {value: len(part.query_ids) for value, part in scores.slices("hops").items()}
        assert parts == {"1": 3, "True": 2, "2.5": 1, None: 2}
        pairs = clusters_of("hops", ids, metadata)
        assert pairs is not None
        assert pairs.tolist() == [0, 0, 0, 1, 1, 2, 3, 4]

    def test_systems_that_write_a_value_otherwise_share_the_row_of_its_slice(self) -> None:
        one, other = (
            Scores(["a", "b"], {"m": [1.0, 0.0]}, metadata={"a": {"n": n}, "b": {"n": 10 * n}})
            for n in (9, 9.0)
        )
        texts = other.replace(metadata={"a": {"n": "9"}, "b": {"n": "90"}})
        systems = [System.of(each) for each in (texts, one, other)]
        table = slice_table([*systems, System.of(one.select(["a"]))], "n", "m")
        assert list(table.head) == ["9 (1)", "90 (1)"]
        assert [cell.value for cell in table.rows[-1].cells] == [1.0, None]  # b isn't in the last

    def test_slices_by_an_unknown_key_name_the_known(self) -> None:
        with pytest.raises(InvalidInput, match=r"key: expected a key .*\['lang'\], got 'language'"):
            SCORES.slices("language")

    def test_pandas(self) -> None:
        pytest.importorskip("pandas", reason="pandas isn't installed")
        frame = SCORES.to_pandas()
        assert frame.index.tolist() == ["q1", "q2", "q3"]
        assert frame["mrr"].tolist() == [1.0, 0.25, 0.5]
        assert math.isnan(frame.loc["q1", "similarity"])

    def test_export_without_pandas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtra, match=r"to_pandas.* pip install pandas"):
            SCORES.to_pandas()

    def test_json_round_trip(self, tmp_path: Path) -> None:
        path = tmp_path / "scores.json"
        text = SCORES.to_json(path)
        assert json.loads(text)["scores"]["similarity"] == [None, 0.5, 1.0]
        for source in (text, path, str(path)):
            again = Scores.from_json(source)
            assert again == SCORES
            assert again.counts == SCORES.counts
            assert again.per_query == SCORES.per_query

    @given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5))
    def test_json_keeps_every_bit(self, column: list[float]) -> None:
        scores = Scores([str(n) for n in range(len(column))], {"m": column})
        assert Scores.from_json(scores.to_json())["m"].tobytes() == scores["m"].tobytes()

    def test_surrogate_half_in_an_id_is_escaped(self, tmp_path: Path) -> None:
        scores = Scores(["q\ud800", "é"], {"m": [0.5, 1.0]})
        scores.to_json(tmp_path / "scores.json")
        assert "q\\ud800" in (tmp_path / "scores.json").read_text("ascii")
        assert Scores.from_json(tmp_path / "scores.json") == scores

    @pytest.mark.parametrize(
        ("value", "plain"),
        [
            (np.int64(3), 3),
            (np.bool_(True), True),
            (np.float64(0.5), 0.5),
            (np.float32(0.5), 0.5),
            (math.nan, None),
            (np.float32("nan"), None),
            (date(2024, 2, 29), "2024-02-29"),
            (datetime(2024, 2, 29, 12, 30), "2024-02-29T12:30:00"),
            (np.datetime64("2024-02-29"), "2024-02-29"),
            (np.datetime64("NaT"), None),
            (np.array([[1, 2]]), [[1, 2]]),
            (np.array(7), 7),
            (np.array("a"), "a"),
            ({"at": (np.int64(1), date(2024, 1, 1))}, {"at": [1, "2024-01-01"]}),
            ({np.int64(1): "a", date(2024, 1, 1): "b"}, {"1": "a", "2024-01-01": "b"}),
        ],
        ids=repr,
    )
    def test_json_of_ordinary_metadata(self, value: Any, plain: Any) -> None:
        scores = Scores(["q"], {"m": [1.0]}, metadata={"q": {"key": value}})
        again = Scores.from_json(scores.to_json())
        assert again.metadata == {"q": {"key": plain}}
        assert type(again.metadata["q"]["key"]) is type(plain)

    def test_json_of_metadata_of_pandas(self) -> None:
        pd = pytest.importorskip("pandas", reason="pandas isn't installed")
        row = {"at": pd.Timestamp("2024-02-29 12:30"), "nat": pd.NaT, "na": pd.NA}
        scores = Scores(["q"], {"m": [1.0]}, metadata={"q": row})
        again = Scores.from_json(scores.to_json())
        assert again.metadata["q"] == {"at": "2024-02-29T12:30:00", "nat": None, "na": None}
        assert again == scores

    @pytest.mark.parametrize(
        ("row", "wording"),
        [
            ({"tags": {"a"}}, r"metadata\['q'\]\['tags'\]: .*what JSON can hold, got {'a'}\."),
            ({"tags": [1, b"x"]}, r"metadata\['q'\]\['tags'\]\[1\]: .*got b'x'\."),
            ({"share": math.inf}, r"metadata\['q'\]\['share'\]: .*got inf\."),
            ({"took": np.timedelta64(1, "D")}, r"\['q'\]\['took'\]: .*timedelta64"),
            ({("a", 1): 2}, r"metadata\['q'\]\[\('a', 1\)\]: .*got \('a', 1\)\."),
            ({b"a": 2}, r"metadata\['q'\]\[b'a'\]"),
        ],
    )
    def test_value_that_json_cannot_hold_is_named(self, row: dict[Any, Any], wording: str) -> None:
        scores = Scores(["q"], {"m": [1.0]}, metadata={"q": row})
        with pytest.raises(InvalidInput, match=wording):
            scores.to_json()
        assert scores == pickle.loads(pickle.dumps(scores))
        assert scores != Scores(["q"], {"m": [1.0]})

    def test_infinite_score_is_named(self) -> None:
        with pytest.raises(InvalidInput, match=r"scores\['m'\]\[1\]: .*got inf"):
            Scores(["q1", "q2"], {"m": [1.0, math.inf]}).to_json()

    @pytest.mark.parametrize("text", ["{", "{}", '{"format": "other"}'])
    def test_json_of_another_kind_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput, match="source: expected JSON"):
            Scores.from_json(text)

    @pytest.mark.parametrize(
        "part",
        [
            *({"columns": {"m": [0.5]}}, {"name": "x"}, {"notes": ["x"]}, {"failed": {"q": "x"}}),
            *({"empty": ["q"]}, {"excluded": {"p": "unjudged"}}, {"queries": {"q": "x"}}),
            {"metadata": {"q": {"lang": "en"}}},
        ],
        ids=lambda part: next(iter(part)),
    )
    def test_equality_sees_every_part(self, part: dict[str, Any]) -> None:
        scores = Scores(["q"], {"m": [1.0]})
        assert scores.replace(**part) != scores
        assert scores.replace(**part) == scores.replace(**part)

    def test_column_has_one_score_a_query(self) -> None:
        with pytest.raises(InvalidInput, match=r"scores of m: expected 2 numbers, got \(1,\)"):
            Scores(["q1", "q2"], {"m": [1.0]})

    def test_question_has_one_score(self) -> None:
        with pytest.raises(InvalidInput, match="query_ids: expected every question once, got 'q1'"):
            Scores(["q1", "q2", "q1"], {"m": [1.0, 0.0, 0.0]})

    def test_repr_shows_the_means(self) -> None:
        assert repr(SCORES) == "<Scores bm25: 3 questions; mrr: 0.5833, similarity: 0.7500>"

    def test_metric_without_a_value_has_no_mean(self) -> None:
        scores = Scores(["q1", "q2"], {"m": [math.nan, math.nan], "mrr": [1.0, 0.5]})
        assert math.isnan(scores.means["m"])
        assert scores.n("m") == 0
        assert repr(scores) == "<Scores unnamed: 2 questions; m: –, mrr: 0.7500>"
        assert json.loads(scores.to_json())["means"] == {"m": None, "mrr": 0.75}
        assert Scores.from_json(scores.to_json()) == scores
        assert math.isnan(scores.intervals()["m"].mean)

    def test_exports_of_a_comparison_leave_a_missing_mean_empty(self) -> None:
        columns = {"m": [math.nan, math.nan], "mrr": [1.0, 0.5]}
        systems = {name: Scores(["q1", "q2"], columns, name=name) for name in ("a", "b")}
        compared = compare(systems, baseline="a")
        for text in (str(compared), compared.to_markdown()):
            assert "nan" not in text.lower()
        assert json.loads(compared.to_json())[0]["mean"] is None

    def test_mean_is_exact_to_the_last_bit_over_many_queries(self) -> None:
        # a running sum of a million times 0.1 is off by 1e-6
        scores = Scores([str(n) for n in range(10**6)], {"m": np.full(10**6, 0.1)})
        assert scores.means["m"] == 0.1

    def test_join_adds_metrics_that_have_other_queries(self) -> None:
        joined = score_rankings({"q1": ["a"], "q2": None}, {"q1": ["a"], "q2": ["b"]}, "mrr").join(
            {"similarity": {"q2": 0.5}}, ["similarity", "mrr"]
        )
        assert joined.metric_names == ("similarity", "mrr")
        assert joined.per_query == {"q1": {"mrr": 1.0}, "q2": {"similarity": 0.5}}
        assert (joined.counts.queries, joined.counts.unjudged) == (2, 1)


def test_alias_that_was_asked_for_is_shown() -> None:
    # q1: hit at rank 1; q2: at rank 2
    scores = score_rankings({"q1": ["a"], "q2": ["a"]}, {"q1": ["a"], "q2": ["x", "a"]}, "map@10")
    assert scores.metric_names == ("map@10",)
    assert scores.means["map@10"] == 0.75
    comparison = compare({"a": scores, "b": scores}, "a", metrics=["map@10"])
    assert comparison.decision == "b and a score the same on map@10, on all 2 questions."


LONG = "Enceladus has geysers at its south pole. " * 20


@pytest.mark.parametrize("matcher", [None, "text"])
def test_stored_scores_show_what_live_ones_show(matcher: str | None) -> None:
    dataset = RetrievalDataset(
        {"q1": "x?", "q2": "y?", "q3": "z?"},
        {"q1": {"a": 2, "b": 1}, "q2": ["c"], "q3": ["a"]},
        corpus={"a": LONG, "b": "b" * 60, "c": "c" * 60},
    )
    other = node("a2")
    other.node.text = LONG  # type: ignore[attr-defined]
    script: dict[str, Any] = {"x?": ["z", other], "y?": [], "z?": ConnectionError("refused")}
    results = evaluate(Scripted(script), dataset, ["recall@1"], matcher=matcher, name="s")
    live, scores = system_of(results), results.scores
    for stored in (Scores.from_json(scores.to_json()), pickle.loads(pickle.dumps(scores))):
        assert stored == scores
        for query_id in dataset.queries:
            ours = query_answers(query_id, [System.of(stored)], "recall@1")
            theirs = query_answers(query_id, [live], "recall@1")
            (answer,), (expected,) = ours.answers, theirs.answers
            assert list(map(str, ours.wanted)) == list(map(str, theirs.wanted))
            assert (ours.why, answer.error) == (theirs.why, expected.error)
            # of a text, the beginning is stored
            assert [*map(str, answer.retrieved or ())] == [*map(str, expected.retrieved or ())]


def test_slices_keep_their_own_questions() -> None:
    dataset = RetrievalDataset({"q1": "x?", "q2": "y?"}, {"q1": ["a"], "q2": ["b"]})
    scores = evaluate(Scripted({"x?": ["a"], "y?": []}), dataset, ["mrr"]).scores
    part = scores.select(["q1"])
    assert part.retrieval is not None
    assert list(part.retrieval.run) == ["q1"]
    assert part == Scores.from_json(part.to_json())


def test_rankings_are_those_of_the_run_that_was_scored() -> None:
    run = Run({"q": ["a", "b"]})
    scores = score_rankings({"q": ["a"]}, run, "mrr")
    for kept in (scores, pickle.loads(pickle.dumps(scores)), Scores.from_json(scores.to_json())):
        assert kept.rankings("q") == [("a", "b")]
    # what may change isn't kept
    assert score_rankings({"q": ["a"]}, {"q": ["a", "b"]}, "mrr").rankings("q") == []


_KEYS = {"q1": "hunter22-acme", "q2": "hunter22-blue"}


def test_value_that_its_name_calls_a_secret_is_not_kept(tmp_path: Path) -> None:
    metadata = {
        query_id: {"tenant": query_id, "api_key": key, "login": {"password": key, "user": "u"}}
        for query_id, key in _KEYS.items()
    }
    run = Run({"q1": ["a"], "q2": ["x"]}, metadata=metadata)
    scores = score_rankings({"q1": ["a"], "q2": ["b"]}, run, "mrr")
    login = {"password": "***", "user": "u"}
    assert scores.metadata["q1"] == {"tenant": "q1", "api_key": "***", "login": login}
    page = scores.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "hunter22" not in scores.to_json() + page
    assert Scores.from_json(scores.to_json()) == scores
    assert metadata["q1"]["api_key"] == "hunter22-acme"
