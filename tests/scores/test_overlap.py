"""Labels and rankings that have no ids in common: one note says so, at every door."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from llama_index_rag_metrics import evaluate, score_rankings, score_table, write_run
from llama_index_rag_metrics.runtime.errors import LabelWarning

ALIKE = "write them alike on both sides"
BY_TEXT = "match by text with match_run()"


def notes_of_doors(
    tmp_path: Path, expected: Mapping[str, Any], retrieved: Mapping[str, Any]
) -> list[Sequence[str]]:
    """What score_rankings and score_table say of the same rankings."""
    write_run(retrieved, tmp_path / "run.jsonl")
    notes = [score_rankings(expected, retrieved, "mrr").notes]
    rows = [*{**expected, **retrieved}]
    table = pl.DataFrame(
        {
            "query_id": rows,
            "retrieved_ids": [retrieved.get(row) for row in rows],
            "expected_ids": [expected.get(row) for row in rows],
        }
    )
    with pytest.warns(LabelWarning) as warned:
        score_table(table, "mrr")
    notes.append(tuple(str(warning.message) for warning in warned))
    return notes


def test_questions_that_are_called_otherwise() -> None:
    expected = {f"q{n}": [f"d{n}"] for n in range(20)}
    retrieved = {f"Q{n}": [f"d{n}"] for n in range(20)}
    (note,) = score_rankings(expected, retrieved, "mrr").notes
    assert note.startswith(
        "0 of 20 judged questions have a ranking, beside 20 rankings of others: a judged question "
        "is 'q0', a ranked one 'Q0'."
    )
    assert ALIKE in note


def test_next_to_nothing_is_in_common(tmp_path: Path) -> None:
    questions = {f"q{n:03}": [f"d{n}"] for n in range(200)}
    others = {query_id.upper(): ids for query_id, ids in questions.items()}
    notes = notes_of_doors(tmp_path, questions, {**others, "q000": ["d0"]})
    assert all(ALIKE in of_door[0] and of_door[0].startswith("1 of 200") for of_door in notes)
    passages = {query_id: [f"{item}0"] for query_id, (item,) in questions.items()}
    notes = notes_of_doors(tmp_path, questions, {**passages, "q000": ["d0"]})
    assert all(BY_TEXT in of_door[0] and of_door[0].startswith("1 of 200") for of_door in notes)


@pytest.mark.parametrize(
    ("expected", "retrieved"),
    [
        ({"q1": ["d1"], "q2": ["d2"]}, {"q1": ["x"], "q2": ["d2"]}),
        ({"q1": ["d1"]}, {"q1": ["d1"], "q3": ["x"]}),  # a pool judged in part
        ({"q1": ["d1"]}, {"q1": []}),
        ({"q1": {"d1": 0}}, {"q1": ["x"]}),
        ({"q1": ["d1"]}, {}),
        ({"q1": None}, {"q1": ["x"]}),
        ({f"q{n}": [f"d{n}"] for n in range(1000)}, {f"q{n}": [f"d{n}"] for n in range(5)}),
    ],
)
def test_nothing_is_said_where_ids_meet_or_a_side_has_none(expected: Any, retrieved: Any) -> None:
    notes = score_rankings(expected, retrieved, "mrr").notes
    assert not [note for note in notes if ALIKE in note or BY_TEXT in note]


def test_an_evaluation_says_it_once() -> None:
    dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
    notes = evaluate(lambda _: ["x"], dataset, ["mrr"]).scores.notes
    assert len([note for note in notes if "'d1'" in note]) == 1
