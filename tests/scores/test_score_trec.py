"""Scores of TREC files against trec_eval itself, as pytrec_eval carries it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.paths import SHARED
from support.trec_eval_program import name_of

from llama_index_rag_metrics import (
    RetrievalDataset,
    Run,
    read_qrels,
    read_run,
    score_rankings,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.demo.retrievers import bm25

CRANFIELD = SHARED / "data" / "cranfield"

pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval-terrier isn't installed")

Qrels = Mapping[str, Mapping[str, int]]
Nested = Mapping[str, Mapping[str, float]]


def peer_of(qrels: Qrels, run: Nested, level: int) -> dict[str, dict[str, float]]:
    """Query id to trec_eval's name to value, of the queries that both have."""
    measures = {"official", "recall", "infAP", "ndcg", "ndcg_cut", "map_cut", "success"}
    measures |= {"set_P", "set_recall", "set_F"}
    values: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(
        qrels, measures, relevance_level=level
    ).evaluate(run)
    return values


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
    """To 1e-9, by query."""
    peer = peer_of(qrels, run, level)
    labels = {label for values in peer.values() for label in values}
    names = {label: name for label in labels if (name := name_of(label, level))}
    judged, ranked = read_qrels(folder / "qrels"), read_run(folder / "run")
    scores = score_rankings(judged, ranked, dict.fromkeys(names.values()), no_relevant="zero")
    assert len(names) > 40
    for label, name in names.items():
        column = scores.by_query(name)
        ours = [column[query_id] for query_id in peer]
        theirs = [values[label] for values in peer.values()]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9, err_msg=label)


def test_ties_that_only_64_bit_floats_part(tmp_path: Path) -> None:
    # as 32-bit floats both are 1.0, and the tie puts b first
    write(tmp_path, {"q": {"a": 1}}, {"q": {"a": 1.00000000002, "b": 1.00000000001}})
    scores = score_rankings(read_qrels(tmp_path / "qrels"), read_run(tmp_path / "run"), "mrr")
    assert scores.by_query("mrr") == {"q": 1.0}
    assert (
        peer_of({"q": {"a": 1}}, {"q": {"a": 1.00000000002, "b": 1.00000000001}}, 1)["q"][
            "recip_rank"
        ]
        == 0.5
    )


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
