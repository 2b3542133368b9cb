"""TREC's qrels."""

from __future__ import annotations

from pathlib import Path

import pytest

from llama_index_rag_metrics import read_qrels
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError


def test_qrels(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 d1 2\n1\t0\td2\t-1\n\n2 Q0  d\u00a01 0\n", "utf-8")
    assert read_qrels(tmp_path / "qrels") == {
        "1": Relevance({"d1": 2, "d2": -1}),
        "2": Relevance({"d\u00a01": 0}),
    }


def test_comments_are_no_judgements(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("# judged by 3\n1 0 d1 2\n  # also 0 1\n#1 0 d2 1\n1 0 #d 1\n")
    assert read_qrels(tmp_path / "qrels") == {"1": Relevance({"d1": 2, "#d": 1})}


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("1 0 d1 1\n1 d1 1", 2, "4 columns: query id, 0, document id, grade, got '1 d1 1'"),
        ("1 0 d1 one", 1, "a grade, a finite number, got 'one'"),
        ("1 0 d1 1\n2 0 d1 1\n1 0 d1 0", 3, "one grade for each passage of a question"),
    ],
)
def test_errors_in_qrels(tmp_path: Path, text: str, line: int, expected: str) -> None:
    (tmp_path / "qrels").write_text(text)
    with pytest.raises(FileFormatError, match=f"qrels, line {line}: expected {expected}"):
        read_qrels(tmp_path / "qrels")
