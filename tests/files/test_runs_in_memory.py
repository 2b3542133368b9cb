"""Runs and qrels that other tools hold in memory: data frames, iterables, nested dicts."""

import sys
from typing import Any, NamedTuple

import pandas as pd
import pytest
from support.runs import ids_of

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    read_qrels,
    read_run,
    score_rankings,
)
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

pytestmark = pytest.mark.peers

pa = pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pl = pytest.importorskip("polars", reason="the extra batch isn't installed")

LONG = {"query_id": ["q", "q", "q"], "doc_id": ["a", "b", "c"], "score": [0.5, 0.5, 0.75]}
RANX = {"q_id": ["q", "q", "q"], "doc_id": ["a", "b", "c"], "score": [0.5, 0.5, 0.75]}
WIDE = {"query_id": ["q"], "retrieved_ids": [["c", "b", "a"]]}


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    made = [pd.DataFrame(columns), pl.DataFrame(columns)]
    return [*made, pa.table(columns), pa.RecordBatch.from_pydict(columns)]


@pytest.mark.parametrize("columns", [LONG, RANX, WIDE], ids=["long", "ranx", "wide"])
@pytest.mark.parametrize("kind", range(4), ids=["pandas", "polars", "table", "batch"])
def test_runs_of_data_frames(columns: dict[str, list[Any]], kind: int) -> None:
    assert ids_of(read_run(frames(columns)[kind])) == {"q": ["c", "b", "a"]}


@pytest.mark.parametrize("kind", range(4), ids=["pandas", "polars", "table", "batch"])
def test_qrels_of_data_frames(kind: int) -> None:
    long: dict[str, Any] = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "relevance": [2, 0]}
    wide: dict[str, Any] = {"query_id": ["q"], "expected_ids": [["a", "b"]], "grades": [[2.0, 0.0]]}
    binary = {"query_id": ["q"], "expected_ids": [["a"]]}
    expected = {"q": Relevance({"a": 2, "b": 0})}
    assert read_qrels(frames(long)[kind]) == read_qrels(frames(wide)[kind]) == expected
    assert read_qrels(frames(binary)[kind]) == {"q": Relevance(["a"])}  # type: ignore[arg-type]
    run: dict[str, Any] = {"query_id": ["q", "q"], "doc_id": ["b", "a"], "rank": [1, 2]}
    labels: Any = frames(long)[kind]
    assert score_rankings(labels, frames(run)[kind], ["mrr"]).means == {"mrr": 0.5}


def test_frame_with_a_missing_score_and_an_index() -> None:
    frame = pd.DataFrame({**LONG, "score": [0.5, None, 1.0]}).set_index("query_id")
    with pytest.raises(FileFormatError, match="frame, row 2: expected a score, a number, as in"):
        read_run(frame)


def test_datasets_of_polars_and_arrow_need_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"query_id": ["q"], "query": ["why?"], "relevance": [["a"]]}
    monkeypatch.setitem(sys.modules, "pandas", None)
    for frame in (pl.DataFrame(columns), pa.table(columns)):
        dataset = RetrievalDataset.load(frame)
        assert dataset.queries == {"q": "why?"}
        assert dataset.relevance == {"q": Relevance(["a"])}


class ScoredDoc(NamedTuple):
    """As ir_measures has it."""

    query_id: str
    doc_id: str
    score: float


class Qrel(NamedTuple):
    """As ir_measures has it."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


def test_iterables_of_scored_documents_and_judgements() -> None:
    scored = (ScoredDoc("q", item, score) for item, score in [("a", 0.5), ("b", 0.5), ("c", 1)])
    assert ids_of(read_run(scored)) == {"q": ["c", "b", "a"]}
    judged = [Qrel("q", "a", 2), Qrel("q", "b", 0)]
    assert read_qrels(iter(judged)) == {"q": Relevance({"a": 2, "b": 0})}
    assert ids_of(read_run([{"query_id": "q", "retrieved_ids": ["a"]}])) == {"q": ["a"]}
    assert read_qrels([judged[0], judged[0]]) == {"q": Relevance({"a": 2})}
    with pytest.raises(FileFormatError, match=r"record 2: expected one grade .* there are 2 and 1"):
        read_qrels([judged[0], Qrel("q", "a", 1)])


def test_ir_measures_itself() -> None:
    peer = pytest.importorskip("ir_measures", reason="ir_measures isn't installed")
    text = "q Q0 a 1 0.5 t\nq Q0 b 2 0.5 t\nq Q0 c 3 0.7 t\n"
    assert ids_of(read_run(peer.read_trec_run(text))) == {"q": ["c", "b", "a"]}
    assert read_qrels(peer.read_trec_qrels("q 0 a 2\n")) == {"q": Relevance({"a": 2})}


def test_ranx_itself() -> None:
    ranx = pytest.importorskip("ranx", reason="ranx isn't installed: it needs numba")
    nested = {"q": {"a": 0.5, "b": 0.5, "c": 0.75}}
    run = read_run(ranx.Run(nested, name="bm25"))
    assert (ids_of(run), run.name) == ({"q": ["c", "b", "a"]}, "bm25")
    assert read_qrels(ranx.Qrels({"q": {"a": 2}})) == {"q": Relevance({"a": 2})}
    assert ids_of(read_run(ranx.Run(nested).to_dataframe())) == {"q": ["c", "b", "a"]}
    qrels = ranx.Qrels({"q1": {"d1": 2, "d7": 1}})
    run = ranx.Run({"q1": {"d7": 0.9, "d4": 0.8, "d1": 0.1}}, name="bm25")
    theirs = ranx.evaluate(qrels, run, ["ndcg@10", "map"])
    scores = score_rankings(qrels, run, ["ndcg@10", "map"])
    assert scores.means == pytest.approx(theirs)
    assert scores.name == "bm25"
    with pytest.raises(InvalidInput, match="read_run"):
        score_rankings(qrels.to_dict(), run.to_dict(), ["map"])


def test_nested_dicts() -> None:
    run = read_run({1: {10: 0.5, 20: 0.7}, "q": ["b", "a"], "r": Ranking(["x"])}, name="mine")
    assert ids_of(run) == {"1": ["20", "10"], "q": ["b", "a"], "r": ["x"]}
    assert run.name == "mine"
    assert read_run(run) == run
    assert read_run(run, name="other").name == "other"
    judged = read_qrels({"q": {"a": 1, "b": 0}, "r": ["x"], "g": [["x", "y"]]})
    assert judged["g"].alternatives == (("x", "y"),)
    assert read_qrels(judged) is judged


@pytest.mark.parametrize(
    ("nested", "wording"),
    [
        ({"q": {"a": float("nan")}}, "question 'q': expected a score, a number, .*, got nan"),
        (
            {"q": {"a": "high"}},
            "question 'q': expected a score, a number, of each document, or ids",
        ),
        ({"q": {1: 0.5, "1": 0.7}}, "question 'q': expected every document once"),
        ({1: ["a"], "1": ["b"]}, "question '1': expected every query id once"),
        ({"q": "a"}, "question 'q': expected a score, a number, .*, got 'a'"),
        ({"q": None}, "question 'q': expected a score, a number, .*, got None"),
        # MTEB's predictions, and what rank_eval takes and returns
        ({"mteb_model_meta": {"name": "x"}}, "write {query id: {document id: score}}"),
        ({"requests": [{"id": "q", "ratings": []}]}, "write {query id: {document id: score}}"),
        ({"metric_score": 0.4, "details": {}}, "write {query id: {document id: score}}"),
    ],
)
def test_errors_in_nested_dicts(nested: dict[Any, Any], wording: str) -> None:
    with pytest.raises(FileFormatError, match=wording):
        read_run(nested)
