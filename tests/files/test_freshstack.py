"""FreshStack's questions and nuggets, as their data has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import Nuggets, RetrievalDataset, read_qrels, score_rankings
from llama_index_rag_metrics.runtime.errors import FieldsUnread, FileFormatError

NUGGETS = [
    {
        "_id": "7_nugget_0",
        "text": "Set the loader's mode.",
        "relevant_corpus_ids": ["docs/a.md_0_100", "docs/b.md_0_90"],
        "non_relevant_corpus_ids": ["docs/c.md_0_80"],
    },
    {
        "_id": "7_nugget_1",
        "text": "Pass the key.",
        "relevant_corpus_ids": ["docs/c.md_0_80"],
        "non_relevant_corpus_ids": ["docs/a.md_0_100"],
    },
]
ROW = {
    "query_id": "7",
    "query_title": "Why does it fail?",
    "query_text": "It says 401.",
    "nuggets": NUGGETS,
    "answer_id": "9",
    "answer_text": "Set the mode and pass the key.",
}
RUN = {"7": ["docs/b.md_0_90", "docs/x.md_0_10", "docs/c.md_0_80"]}


def write(path: Path, row: dict[str, Any] = ROW) -> Path:
    path.write_text(json.dumps(row))
    return path


def test_nuggets_are_facets_and_what_supports_none_is_judged(tmp_path: Path) -> None:
    path = write(tmp_path / "langchain.jsonl")
    dataset = RetrievalDataset.load(path)
    # as FreshStack's own loader joins them
    assert dataset.queries == {"7": "Why does it fail? It says 401."}
    relevance = dataset.relevance["7"]
    assert relevance.facet_names == ("Set the loader's mode.", "Pass the key.")
    assert dict(relevance.grades) == {
        "docs/a.md_0_100": 1,
        "docs/b.md_0_90": 1,
        "docs/c.md_0_80": 1,
    }
    for judged in (dataset.relevance, read_qrels(path), Nuggets.load(path).relevance()):
        scores = score_rankings(judged, RUN, ["facet_recall@1", "facet_recall@20", "recall@50"])
        # coverage@20 is 2 of 2 nuggets, recall@50 two of three passages
        assert list(scores.means.values()) == pytest.approx([1 / 2, 1, 2 / 3])


def test_what_supports_no_nugget_has_grade_0(tmp_path: Path) -> None:
    row = {**ROW, "nuggets": NUGGETS[:1]}
    relevance = RetrievalDataset.load(write(tmp_path / "q.jsonl", row)).relevance["7"]
    assert relevance.grades["docs/c.md_0_80"] == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"relevant_corpus_ids": "docs/a.md"}, "relevant_corpus_ids of a nugget, a list of ids"),
        ({"non_relevant_corpus_ids": ["docs/a.md_0_100"]}, "or don't, not both"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    row = {**ROW, "nuggets": [{**NUGGETS[0], **changed}]}
    with pytest.raises(FileFormatError, match=message):
        RetrievalDataset.load(write(tmp_path / "q.jsonl", row))


def test_nuggets_without_passages_judge_nothing(tmp_path: Path) -> None:
    """Whoever names the lists otherwise hasn't said that nothing is relevant."""
    row = {**ROW, "nuggets": [{"text": "Pass the key.", "relevant_ids": ["docs/a.md_0_100"]}]}
    with pytest.warns(FieldsUnread, match="no labels"):
        dataset = RetrievalDataset.load(write(tmp_path / "q.jsonl", row))
    assert (list(dataset.queries), dict(dataset.relevance)) == (["7"], {})


def test_nuggets_as_a_text_are_no_id(tmp_path: Path) -> None:
    """As a CSV file has them."""
    path = write(tmp_path / "q.jsonl", {**ROW, "nuggets": json.dumps(NUGGETS)})
    for read in (RetrievalDataset.load, read_qrels):
        with pytest.raises(FileFormatError, match="expected one id"):
            read(path)


def test_a_title_of_other_datasets_stays_metadata(tmp_path: Path) -> None:
    row = {"query": "Why?", "query_title": "Moons", "expected_ids": ["a"]}
    dataset = RetrievalDataset.load(write(tmp_path / "q.jsonl", row))
    assert dataset.queries == {"q1": "Why?"}
    assert dataset.metadata["q1"] == {"query_title": "Moons"}
    both = {"query": "Why?", "query_text": "Why is it so?", "query_title": "Moons"}
    dataset = RetrievalDataset.load(write(tmp_path / "both.jsonl", {**both, "expected_ids": []}))
    assert dataset.queries == {"q1": "Why?"}
