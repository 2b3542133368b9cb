"""`rag-metrics score --format trec` against trec_eval itself, as pytrec_eval carries it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.paths import SHARED
from typer.testing import CliRunner

from llama_index_rag_metrics import (
    RetrievalDataset,
    Run,
    Scores,
    read_qrels,
    read_run,
    score_rankings,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.demo.retrievers import bm25
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.scores.trec_eval import Column, columns, metrics_behind

CRANFIELD = SHARED / "data" / "cranfield"

pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval-terrier isn't installed")

ALL = columns(["all_trec"])

Qrels = Mapping[str, Mapping[str, int]]
Nested = Mapping[str, Mapping[str, float]]


def peer_of(qrels: Qrels, run: Nested, level: int) -> dict[str, dict[str, float]]:
    """Query id to trec_eval's name to value, of the queries that both have."""
    measures = {"official", "recall", "infAP", "gm_bpref", "ndcg", "ndcg_cut", "map_cut", "success"}
    measures |= {
        "set_P",
        "set_recall",
        "set_F",
        "set_map",
        "set_relative_P",
        "relative_P",
        "utility",
    }
    measures |= {"Rprec_mult", "11pt_avg", "binG", "num_nonrel_judged_ret"}
    values: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(
        qrels, measures, relevance_level=level
    ).evaluate(run)
    return values


def printed(folder: Path, *arguments: str) -> dict[tuple[str, str], str]:
    """(query id, measure) to what the command printed."""
    files = [str(folder / "run"), "--qrels", str(folder / "qrels")]
    result = CliRunner().invoke(app, ["score", *files, "--format", "trec", *arguments])
    assert result.exit_code == 0, result.output
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert all(len(label) >= 22 for label, _, _ in lines)
    return {(query_id, label.rstrip()): value for label, query_id, value in lines}


def assert_printed(text: str, value: float, is_count: bool) -> None:
    """Four decimals of the value; where it is a billionth from the next, either."""
    if is_count:
        assert text == f"{value:.0f}"
    else:
        assert text in {f"{value - 1e-9:6.4f}", f"{value + 1e-9:6.4f}"}


def write(folder: Path, qrels: Qrels, run: Nested) -> None:
    """Both as TREC files; the run with its own scores, ties and all, in no order of theirs."""
    write_qrels(qrels, folder / "qrels")
    lines = [
        f"{query_id} Q0 {item} 0 {score!r} tag\n"
        for query_id, documents in run.items()
        for item, score in documents.items()
    ]
    (folder / "run").write_text("".join(lines), "utf-8")


DOCUMENTS = [*(f"d{number}" for number in range(24)), "D", "Z9", "é", "中", "\U0001f600", "a-b"]
# 32-bit floats hold these exactly, so that pytrec_eval sees the ties that there are and no others
COARSE = st.integers(-8, 8).map(lambda number: number / 4)


@st.composite
def files(draw: st.DrawFn) -> tuple[Qrels, Nested]:
    """Graded judgements and rankings with ties and unjudged documents; each side may lack queries.

    Every judged query has something relevant, since pytrec_eval can't take others; at least one
    query is on both sides.
    """
    query_ids = st.lists(st.sampled_from(["1", "2", "10", "q", "é"]), min_size=1, unique=True)
    judged, asked = draw(query_ids), draw(query_ids)
    qrels = {}
    for query_id in dict.fromkeys([*judged, asked[0]]):
        items = draw(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=14, unique=True))
        grades = [draw(st.integers(-1, 4)) for _ in items[1:]]
        qrels[query_id] = dict(zip(items, [draw(st.integers(2, 4)), *grades], strict=True))
    run = {
        query_id: draw(st.dictionaries(st.sampled_from(DOCUMENTS), COARSE, min_size=1))
        for query_id in asked
    }
    return qrels, run


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=files())
def test_equal_to_trec_eval(tmp_path: Path, level: int, made: tuple[Qrels, Nested]) -> None:
    qrels, run = made
    write(tmp_path, qrels, run)
    assert_equal(tmp_path, qrels, run, level)


def assert_equal(folder: Path, qrels: Qrels, run: Nested, level: int) -> None:
    """To 1e-9 by query and on average, and to the four decimals that are printed."""
    peer = peer_of(qrels, run, level)
    measures = columns(["all_trec"], level)
    scores = score_rankings(
        read_qrels(folder / "qrels"),
        read_run(folder / "run"),
        metrics_behind(measures),
        no_relevant="zero",
    )
    texts = printed(folder, "-m", "all_trec", "-q", "-l", str(level))
    for measure in measures:
        if measure.metric is None:
            continue
        column = scores.by_query(measure.metric.metric_name)
        values = [values[measure.label] for values in peer.values()]
        if measure.summary == "geometric mean":
            # by query, trec_eval has the logarithm
            mine = [math.log(max(column[query_id], 1e-5)) for query_id in peer]
        else:
            mine = [column[query_id] for query_id in peer]
            for query_id in peer:
                text = texts[query_id, measure.label]
                assert_printed(text, peer[query_id][measure.label], measure.summary == "sum")
        np.testing.assert_allclose(mine, values, rtol=0, atol=1e-9, err_msg=measure.label)
        summary = pytrec_eval.compute_aggregated_measure(measure.label, values)
        assert_printed(texts["all", measure.label], summary, measure.summary == "sum")
    assert texts["all", "num_q"] == str(len(peer))
    assert texts["all", "runid"] == "tag"
    assert {query_id for query_id, _ in texts} == {*peer, "all"}


def test_complete_averages_over_all_judged_queries(tmp_path: Path) -> None:
    # q: the hit is at rank 1 of 1; p: judged, not asked; x: asked, not judged
    qrels = {"q": {"a": 1, "b": 1}, "p": {"a": 1}}
    write(tmp_path, qrels, {"q": {"a": 1.0}, "x": {"a": 1.0}})
    measures = ("-m", "map", "-m", "num_q", "-m", "num_rel", "-m", "gm_map", "-m", "P.1")
    short, full = printed(tmp_path, *measures), printed(tmp_path, *measures, "-c")
    # map of q: 1/2; with p, 1/4. gm_map with p: sqrt(0.5 * 0.00001)
    assert [short["all", label] for label in ("num_q", "num_rel", "map", "P_1", "gm_map")] == [
        "1", "2", "0.5000", "1.0000", "0.5000",
    ]  # fmt: skip
    assert [full["all", label] for label in ("num_q", "num_rel", "map", "P_1", "gm_map")] == [
        "2", "3", "0.2500", "0.5000", "0.0022",
    ]  # fmt: skip
    assert {query_id for query_id, _ in printed(tmp_path, *measures, "-c", "-q")} == {"q", "all"}


def test_queries_with_nothing_relevant_score_0_and_count(tmp_path: Path) -> None:
    write(tmp_path, {"q": {"a": 1}, "none": {"a": 0}}, {"q": {"a": 1.0}, "none": {"a": 1.0}})
    texts = printed(tmp_path, "-m", "map", "-m", "num_q", "-q")
    assert (texts["all", "num_q"], texts["all", "map"]) == ("2", "0.5000")
    assert texts["none", "map"] == "0.0000"


def test_ties_that_only_64_bit_floats_part(tmp_path: Path) -> None:
    # as 32-bit floats both are 1.0, and the tie puts b first
    write(tmp_path, {"q": {"a": 1}}, {"q": {"a": 1.00000000002, "b": 1.00000000001}})
    assert printed(tmp_path, "-m", "recip_rank")["all", "recip_rank"] == "1.0000"
    assert (
        peer_of({"q": {"a": 1}}, {"q": {"a": 1.00000000002, "b": 1.00000000001}}, 1)["q"][
            "recip_rank"
        ]
        == 0.5
    )


# The lines as trec_eval 9.0.8 lays them out: %-22s, a tab, the query, a tab, %6.4f.
# q1: b and a tie, so b, a, c; hits at 2 and 3: map (1/2 + 2/3) / 2 = 0.5833; ndcg of grades 2, 1:
# (2 / log2 3 + 1 / log2 4) / (2 + 1 / log2 3) = 1.76186 / 2.63093 = 0.6697
GOLDEN = """\
num_ret               \tq1\t3
map                   \tq1\t0.5833
P_5                   \tq1\t0.4000
ndcg                  \tq1\t0.6697
num_ret               \tq2\t1
map                   \tq2\t0.0000
P_5                   \tq2\t0.0000
ndcg                  \tq2\t0.0000
runid                 \tall\tbm25
num_q                 \tall\t2
num_ret               \tall\t4
map                   \tall\t0.2917
P_5                   \tall\t0.2000
ndcg                  \tall\t0.3348
"""


def test_the_lines_are_trec_evals(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 a 2\nq1 0 c 1\nq1 0 z 0\nq2 0 x 1\nq3 0 y 1\n")
    (tmp_path / "run").write_text(
        "q2 Q0 a 1 1 bm25\nq1 Q0 a 1 3.0 bm25\nq1 Q0 b 2 3.0 bm25\nq1 Q0 c 3 1.5 bm25\n"
    )
    files = [str(tmp_path / "run"), "--qrels", str(tmp_path / "qrels")]
    names = ["P.5", "ndcg", "map", "runid", "num_q", "num_ret"]
    measures = [part for name in names for part in ("-m", name)]
    result = CliRunner().invoke(app, ["score", *files, "--format", "trec", "-q", *measures])
    assert result.stdout == GOLDEN


def labels(*names: str) -> list[str]:
    return [column.label for column in columns(names)]


def test_names_as_trec_eval_takes_and_prints_them() -> None:
    assert labels("ndcg_cut.10,5", "P.5") == ["P_5", "ndcg_cut_5", "ndcg_cut_10"]
    assert labels("P_5", "map_cut_10", "iprec_at_recall_0.10") == [
        "iprec_at_recall_0.10", "P_5", "map_cut_10",
    ]  # fmt: skip
    assert labels("map,num_q,P.05,10", "ndcg.1=3,2=9") == [
        "num_q", "map", "P_5", "P_10", "ndcg_1=3,2=9",
    ]  # fmt: skip
    assert labels("success") == ["success_1", "success_5", "success_10"]
    assert labels("set_F", "set_F.0.5") == ["set_F", "set_F_0.5"]
    assert labels("official")[:6] == ["runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "map"]
    assert labels("official")[-1] == "P_1000"
    assert len(labels("official")) == 10 + 11 + 9


def test_our_own_names_become_trec_evals_where_it_has_the_measure() -> None:
    ours = ["ndcg@10", "precision@5", "ap@3", "hit_rate@2", "recall@7", "precision", "f1", "mrr"]
    assert labels(*ours, "ndcg(ideal=all)", "r_precision", "infap") == [
        "Rprec", "recip_rank", "P_5", "recall_7", "infAP", "ndcg", "ndcg_cut_10", "map_cut_3",
        "success_2", "set_P", "set_F",
    ]  # fmt: skip
    assert labels("rbp(p=0.9)@5", "judged@10", "map") == ["map", "rbp(p=0.9)@5", "judged@10"]


def meaning(column: Column) -> str:
    return "" if column.metric is None else column.metric.metric_name


def test_what_a_name_means_is_what_trec_eval_means_by_it() -> None:
    (ndcg,), (recall, *_) = columns(["ndcg"]), columns(["recall"])
    assert (meaning(ndcg), meaning(recall)) == ("ndcg(ideal=all)", "recall@5")
    at_level_2 = columns(["P.5", "ndcg", "set_F.4", "judged"], 2)
    meanings = {column.label: meaning(column) for column in at_level_2}
    assert meanings == {
        "P_5": "precision(min_grade=2)@5",
        "ndcg": "ndcg(ideal=all)",
        "set_F_4": "f(min_grade=2, beta=2)",
        "judged": "judged",
    }


@pytest.mark.parametrize(
    ("name", "wording"),
    [
        ("P.0", "a number above 0|greater than 0"),
        ("P.x", "valid integer"),
        ("map.5", "-m: expected map alone, got 'map.5'"),
        ("iprec_at_recall.1.5", "a number from 0 to 1"),
        ("set_F.x", "set_F with a number"),
        ("ndcg.1=x", r"gains: expected whole grades from 0 on and gains, as in 1:3;2:9, got '1:x'"),
        ("ndcg.0.5=1", "gains: expected whole grades"),
        ("11pt_avg.0.5,0.2", "levels: expected ascending numbers from 0 to 1"),
        ("rbp.q=1", "-m: expected p and a number, as in rbp.p=0.8, got 'q=1'"),
        ("rbp.p=1", r"graded_rbp: p must be less than 1"),
        ("Rndcg", "-m: expected a measure other than relstring, G, ndcg_rel, Rndcg"),
        ("bm25_similarity", "-m: expected a metric of rankings"),
    ],
)
def test_measures_that_cannot_be(name: str, wording: str) -> None:
    with pytest.raises(InvalidInput, match=wording):
        columns([name])


def test_unknown_measures_name_the_nearest() -> None:
    with pytest.raises(UnknownMetric, match=r"unknown metric 'ndgc_cut'. Did you mean 'ndcg_cut'"):
        columns(["ndgc_cut"])


@pytest.fixture(scope="module")
def cranfield() -> tuple[RetrievalDataset, Run]:
    pytest.importorskip("llama_index.retrievers.bm25", reason="the extra demo isn't installed")
    dataset = RetrievalDataset.load(CRANFIELD)
    retriever = bm25(dataset.to_nodes(), 50)
    retrieved = {query_id: retriever.retrieve(text) for query_id, text in dataset.queries.items()}
    nested = {
        query_id: {node.node_id: float(np.float32(node.score)) for node in nodes}
        for query_id, nodes in retrieved.items()
    }
    return dataset, read_run(nested, name="tag")


@pytest.mark.skipif(
    not CRANFIELD.is_dir() and "RAG_METRICS_CI" not in os.environ,
    reason="the Cranfield collection isn't beside the project",
)
def test_bm25_on_cranfield(tmp_path: Path, cranfield: tuple[RetrievalDataset, Run]) -> None:
    dataset, run = cranfield
    write_run(run, tmp_path / "run")
    dataset_grades = {
        query_id: {item: int(grade) for item, grade in relevance.grades.items()}
        for query_id, relevance in dataset.relevance.items()
    }
    write_qrels(dataset.relevance, tmp_path / "qrels")
    assert read_run(tmp_path / "run") == run
    nested: dict[str, dict[str, Any]] = {
        query_id: dict(zip(ranking.ids, ranking.scores or (), strict=True))
        for query_id, ranking in run.items()
    }
    assert_equal(tmp_path, dataset_grades, nested, 1)
    assert_equal(tmp_path, dataset_grades, nested, 2)


def test_scores_of_the_report_are_ordinary_scores() -> None:
    scores = score_rankings(
        {"q": ["a"]}, {"q": ["x", "a"]}, metrics_behind(ALL), no_relevant="zero"
    )
    assert isinstance(scores, Scores)
    assert scores.means["num_ret"] == 2.0
    assert scores.means["iprec_at_recall(recall=0.5)"] == 0.5
