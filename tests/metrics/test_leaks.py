"""What was retrieved although the asker may not see it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reference import leak, leaked, permitted_recall
from support.strategies import OF_LEAKS, Query, queries

from llama_index_rag_metrics import (
    METRICS,
    Ranking,
    Run,
    metric,
    read_run,
    score_rankings,
    score_table,
    write_run,
)
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.rankings.judging.arrow import judge_table
from llama_index_rag_metrics.rankings.judging.columns import Forbidden
from llama_index_rag_metrics.rankings.judging.judged import Selection
from llama_index_rag_metrics.rankings.judging.judged_column import TokenCounts
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.runtime.errors import IdTypeMismatch, InvalidInput, LabelWarning

FORBIDDEN = {"q1": ["x"], "q2": ["y", "z"], "q3": ["x", "a"]}
EXPECTED = {"q1": ["a"], "q3": ["a", "x"], "q4": ["b", "x"]}
RETRIEVED = {
    "q1": ["x", "a", "x"],
    "q2": ["w", "z", "y"],  # unjudged
    "q3": ["x", "b"],  # all that is relevant is forbidden
    "q4": ["b", "x"],  # nothing is forbidden
}


@dataclass(frozen=True)
class Asked:
    """A query with what its asker may not see."""

    query: Query
    forbidden: set[str]

    @property
    def retrieved(self) -> Ranking:
        ids = self.query.ranking
        return Ranking(ids, tokens=[1] * len(ids), forbidden=self.forbidden)


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    query = draw(queries())
    ids = [*query.ranking, *query.relevance.grades, "elsewhere"]
    return Asked(query, set(draw(st.lists(st.sampled_from(ids), max_size=6))))


def oracle(name: str, case: Asked, **parameters: Any) -> float:
    """What the reference says; 0 where there is no value."""
    if name == "permitted_recall":
        value = permitted_recall(
            case.query.relevance.grades, case.forbidden, case.query.ranking, **parameters
        )
        return 0.0 if value is None else value
    reference = {"leak": leak, "leaked": leaked}[name]
    return reference(case.forbidden, case.query.ranking, **parameters)


@pytest.mark.parametrize("name", sorted(OF_LEAKS))
@given(data=st.data())
@examples(100)
def test_as_the_oracle_says(name: str, data: st.DataObject) -> None:
    batch = data.draw(st.lists(asked(), min_size=1, max_size=6))
    parameters: dict[str, Any] = {"k": data.draw(st.none() | st.integers(1, 12))}
    if name == "permitted_recall":
        parameters["min_grade"] = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    built = METRICS[name].build(parameters)
    relevance = [case.query.relevance for case in batch]
    judged = judge(relevance, [case.retrieved for case in batch], [TokenCounts, Forbidden])
    scores = built.score_queries(judged)  # type: ignore[attr-defined]
    expected = [oracle(name, case, **parameters) for case in batch]
    assert scores.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    # a score never depends on its batch
    alone = [
        built.score_queries(  # type: ignore[attr-defined]
            judge([case.query.relevance], [case.retrieved], [Forbidden])
        )
        for case in batch
    ]
    assert np.concatenate(alone).tobytes() == scores.tobytes()
    # items of one token each: a cutoff by tokens is one by rank
    if parameters["k"] is not None:
        by_tokens = built.model_copy(update={"k": None, "tokens": parameters["k"]})
        assert by_tokens.score_queries(judged).tobytes() == scores.tobytes()  # type: ignore[attr-defined]


@given(batch=st.lists(asked(), min_size=1, max_size=6), data=st.data())
@examples(100)
def test_a_table_gives_what_lists_give(batch: list[Asked], data: st.DataObject) -> None:
    relevance = [dict(case.query.relevance.grades) for case in batch]
    frame = pl.DataFrame(
        {
            "retrieved_ids": [case.query.ranking for case in batch],
            "expected_ids": [list(grades) for grades in relevance],
            "grades": [list(grades.values()) for grades in relevance],
            "forbidden_ids": [sorted(case.forbidden) * 2 or None for case in batch],
        },
        schema={
            "retrieved_ids": pl.List(pl.String),
            "expected_ids": pl.List(pl.String),
            "grades": pl.List(pl.Float64),
            "forbidden_ids": pl.List(pl.String),
        },
    )
    by_lists = judge(relevance, [case.retrieved for case in batch], [Forbidden])
    by_table = judge_table(frame, [Forbidden])
    selection = Selection(data.draw(st.none() | st.integers(1, 5)), data.draw(st.booleans()))
    for judged in (by_lists, selection.of(by_lists)):
        other = by_table if judged is by_lists else selection.of(by_table)
        for name in ("leak", "leak@3", "leaked@2", "permitted_recall@3"):
            built = metric(name)
            assert built.score_queries(judged).tobytes() == built.score_queries(other).tobytes()  # type: ignore[attr-defined]


@given(batch=st.lists(asked(), min_size=1, max_size=4))
@examples(60)
def test_judged_only_closes_the_ranks_up(batch: list[Asked]) -> None:
    relevance = [case.query.relevance for case in batch]
    whole = judge(relevance, [case.retrieved for case in batch], [Forbidden])
    selected = Selection(judged_only=True).of(whole)
    closed_up = [
        Ranking(
            [item for item in case.query.ranking if case.query.relevance.grades.get(item, -1) >= 0],
            forbidden=case.forbidden,
        )
        for case in batch
    ]
    anew = judge(relevance, closed_up, [Forbidden])
    for name in ("leak@2", "leaked@1", "permitted_recall@2"):
        built = metric(name)
        assert built.score_queries(selected).tobytes() == built.score_queries(anew).tobytes()  # type: ignore[attr-defined]


@given(case=asked(), k=st.integers(1, 9))
@examples(60)
def test_invariants(case: Asked, k: int) -> None:
    def scores(forbidden: set[str]) -> list[float]:
        ranking = Ranking(case.query.ranking, forbidden=forbidden)
        judged = judge([case.query.relevance], [ranking], [Forbidden])
        names = (f"leak@{k}", f"leaked@{k}", "permitted_recall", "recall")
        return [float(metric(name).score_queries(judged)[0]) for name in names]  # type: ignore[attr-defined]

    share, any_leak, permitted, recall = scores(set())
    assert (share, any_leak) == (0.0, 0.0)
    assert permitted == recall
    share, any_leak, *_ = scores(case.forbidden)
    assert (share > 0) == (any_leak == 1)
    more, *_ = scores({*case.forbidden, *case.query.ranking})
    assert more >= share
    assert more == (1.0 if case.query.ranking else 0.0)


def test_which_queries_have_a_value() -> None:
    """Leaks need no relevance; permitted_recall needs something relevant that is permitted."""
    names = ["mrr", "leak@2", "leaked@1", "permitted_recall"]
    scores = score_rankings(EXPECTED, RETRIEVED, names, forbidden=FORBIDDEN)
    assert scores.per_query == {
        "q1": {"mrr": 1 / 2, "leak@2": 1 / 2, "leaked@1": 1, "permitted_recall": 1},
        "q2": {"leak@2": 1 / 2, "leaked@1": 0},
        "q3": {"mrr": 1, "leak@2": 1 / 2, "leaked@1": 1},
        "q4": {"mrr": 1, "leak@2": 0, "leaked@1": 0, "permitted_recall": 1},
    }
    assert scores.excluded == {"q2": "unjudged"}
    assert scores.details["leak@2"] == {
        "q1": {"forbidden_ranks": [1], "forbidden_ids": ["x"]},
        "q2": {"forbidden_ranks": [2], "forbidden_ids": ["z"]},
        "q3": {"forbidden_ranks": [1], "forbidden_ids": ["x"]},
    }


def test_ids_are_those_at_the_ranks_among_labelled_passages() -> None:
    # of x, f and y only f and y are labelled: f is first
    labels, retrieved = {"q": {"f": 0, "y": 1}}, {"q": ["x", "f", "y"]}
    scores = score_rankings(labels, retrieved, "leaked@5", forbidden={"q": ["f"]}, judged_only=True)
    assert scores.details["leaked@5"] == {"q": {"forbidden_ranks": [1], "forbidden_ids": ["f"]}}


def test_tables_and_their_totals() -> None:
    names = ["mrr", "leak@2", "leaked@1", "permitted_recall"]
    rows = [
        {
            "query_id": query_id,
            "retrieved_ids": RETRIEVED[query_id],
            "expected_ids": EXPECTED.get(query_id),
            "forbidden_ids": FORBIDDEN.get(query_id),
        }
        for query_id in RETRIEVED
    ]
    scores = score_rankings(EXPECTED, RETRIEVED, names, forbidden=FORBIDDEN)
    scored = score_table(pa.Table.from_pylist(rows), names)
    for row in scored.to_pylist():
        known = {name: row[name] for name in names if row[name] is not None}
        assert known == scores.per_query[row["query_id"]]


def test_files(tmp_path: Path) -> None:
    names = ["mrr", "leak@2", "permitted_recall"]
    scores = score_rankings(EXPECTED, RETRIEVED, names, forbidden=FORBIDDEN)
    run = Run(
        {
            query_id: Ranking(ids, forbidden=FORBIDDEN.get(query_id))
            for query_id, ids in RETRIEVED.items()
        }
    )
    for ending in ("jsonl", "parquet", "arrow"):
        path = tmp_path / f"run.{ending}"
        write_run(run, path)
        kept = {query_id: ranking.forbidden for query_id, ranking in read_run(path).items()}
        assert kept == {query_id: FORBIDDEN.get(query_id) for query_id in RETRIEVED}, ending
        read = score_rankings(EXPECTED, read_run(path), names)
        assert dict(read.means) == dict(scores.means), ending


def test_a_failed_query_has_kept_nothing_back() -> None:
    run = {"q1": Ranking(error="refused"), "q2": Ranking(["a"])}
    scores = score_rankings({}, run, ["leaked", "mrr"], forbidden={"q2": ["a"]})
    assert scores.by_query("leaked") == {"q2": 1.0}
    assert math.isnan(scores.means["mrr"])


def test_one_query() -> None:
    result = metric("leak@2").compute(None, None, ["a", "x", "y"], forbidden_ids=["x", "y"])
    assert result.score == 1 / 2
    assert result.metadata == {"forbidden_ranks": [2]}
    with pytest.raises(InvalidInput, match="leave something relevant permitted"):
        metric("permitted_recall").compute(None, ["a"], ["a"], forbidden_ids=["a"])


def test_what_can_not_be() -> None:
    with pytest.raises(InvalidInput, match="forbidden: expected the ids that the asker"):
        score_rankings([["a"]], [["a"]], "leak")
    with pytest.raises(InvalidInput, match="forbidden: expected the ids that the asker"):
        metric("leak").compute(None, ["a"], ["a"])
    table = pl.DataFrame({"retrieved_ids": [["a"]], "expected_ids": [["a"]]})
    with pytest.raises(InvalidInput, match="a column forbidden_ids"):
        score_table(table, "leak")
    with pytest.raises(InvalidInput, match="only ids of the questions"):
        score_rankings({"q": ["a"]}, {"q": ["a"]}, "leak", forbidden={"other": ["a"]})
    with pytest.raises(InvalidInput, match="1 collections of ids, one a question"):
        score_rankings([["a"]], [["a"]], "leak", forbidden=[["a"], ["b"]])
    with pytest.raises(InvalidInput, match=r"Write one id as \['id'\]"):
        score_rankings([["a"]], [["a"]], "leak", forbidden=["a"])
    numbers: Any = [[1]]
    with pytest.raises(IdTypeMismatch):
        score_rankings([["a"]], [["a"]], "leak", forbidden=numbers)
    with pytest.raises(IdTypeMismatch):
        score_table(table.with_columns(forbidden_ids=pl.Series(numbers)), "leak")


def test_for_which_metrics_less_is_better() -> None:
    assert {name for name in METRICS if lower_is_better(name)} >= {"leak", "leaked"}
    assert not any(map(lower_is_better, ["ndcg@10", "permitted_recall@5", "unknown"]))


def test_the_ids_of_leaks_go_through_json() -> None:
    scores = score_rankings(EXPECTED, RETRIEVED, "leak@2", forbidden=FORBIDDEN)
    kept = json.loads(scores.to_json())["details"]["leak@2"]["q1"]
    assert kept == {"forbidden_ranks": [1], "forbidden_ids": ["x"]}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_what_nobody_knows_is_noted_where_rankings_are_read(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{ending}"
    write_run(Run({"q": Ranking(["a", "b"], forbidden=["b"], forbidden_unknown=["a"])}), path)
    scored = score_rankings({"q": ["a"]}, read_run(path), "leak@2")
    assert any(
        "leak@2: 1 retrieved passage is unknown, such as 'a'" in note for note in scored.notes
    )
    table = pa.table(
        {
            "query_id": ["q"],
            "retrieved_ids": [["a", "b"]],
            "expected_ids": [["a"]],
            "forbidden_ids": [["b"]],
            "forbidden_unknown_ids": [["a"]],
        }
    )
    with pytest.warns(LabelWarning, match="1 retrieved passage is unknown"):
        assert score_table(table, "leak@2")["leak@2"].to_pylist() == [0.5]
