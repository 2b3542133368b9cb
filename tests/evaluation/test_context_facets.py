"""Facets from other collections' files: TREC's diversity qrels, HotpotQA's supporting facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import Relevance, RetrievalDataset, score_rankings
from llama_index_rag_metrics.runtime.errors import FileFormatError

TOPICS = "1\tmoons?\n2\trings?\n3\tnothing?\n"
QRELS = """\
1 1 a 1
1 1 b 2
1 2 b 1
1 2 c 0
1 3 c 0
2 7 d 1
3 1 a 0
"""


def files(folder: Path, qrels: str) -> tuple[Path, Path]:
    paths = folder / "qrels.txt", folder / "topics.tsv"
    for path, text in zip(paths, (qrels, TOPICS), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_each_subtopic_is_a_facet(tmp_path: Path) -> None:
    dataset = RetrievalDataset.from_trec(*files(tmp_path, QRELS), subtopics=True)
    assert dataset.relevance == {
        "1": Relevance.facets({"1": ["a", "b"], "2": ["b"]}),
        "2": Relevance.facets({"7": ["d"]}),
        "3": Relevance(),
    }
    run = {"1": ["a", "c"], "2": ["d"], "3": []}
    # "a" supplies one of two subtopics that anything supplies
    scores = score_rankings(dataset.relevance, run, ["facet_recall", "complete"])
    assert scores.by_query("facet_recall") == {"1": 0.5, "2": 1.0}
    assert scores.by_query("complete") == {"1": 0.0, "2": 1.0}


def test_without_subtopics_a_document_is_judged_once(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="every judgement once"):
        RetrievalDataset.from_trec(*files(tmp_path, QRELS))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 1 a", "4 columns"),
        ("1 1 z much", "a grade"),
        ("1 1 a 0", "every judgement once"),
        ("9 1 a 1", "the id of a topic"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(FileFormatError, match=reason) as raised:
        RetrievalDataset.from_trec(*files(tmp_path, f"{QRELS}{line}\n"), subtopics=True)
    assert raised.value.line == 8


@pytest.mark.parametrize(
    "facts",
    [
        [["Enceladus", 0], ["Cassini", 2], ["Enceladus", 3]],
        {"title": ["Enceladus", "Cassini", "Enceladus"], "sent_id": [0, 2, 3]},
    ],
)
def test_supporting_facts_are_needed_together(tmp_path: Path, facts: Any) -> None:
    path = tmp_path / "hotpot.json"
    row = {"_id": "q", "question": "Which probe?", "supporting_facts": facts, "level": "hard"}
    path.write_text(json.dumps([row]), encoding="utf-8")
    dataset = RetrievalDataset.load(path)
    facets = {"Enceladus": ["Enceladus"], "Cassini": ["Cassini"]}
    assert dataset.relevance == {"q": Relevance.facets(facets)}
    assert dataset.metadata == {"q": {"level": "hard"}}


@pytest.mark.parametrize("facts", ["Enceladus", [[]], [[7, 0]], {"sent_id": [1]}])
def test_what_are_no_supporting_facts(tmp_path: Path, facts: Any) -> None:
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps([{"question": "?", "supporting_facts": facts}]), encoding="utf-8")
    with pytest.raises(FileFormatError, match="supporting facts"):
        RetrievalDataset.load(path)
