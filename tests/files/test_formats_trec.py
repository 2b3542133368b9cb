"""TREC's qrels and topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.files.trec import read_qrels, read_topics
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError, FormatTooNarrow

CLASSIC = """
<top>
<num> Number: 301
<title> International Organized
   Crime

<desc> Description:
Identify organizations that participate in crime.
</top>

<top>

<num>302</num>
<title> Topic: Is x < 5? </title>
</top>
"""


def test_classic_topics(tmp_path: Path) -> None:
    (tmp_path / "topics").write_text(CLASSIC)
    assert read_topics(tmp_path / "topics") == {
        "301": "International Organized Crime",
        "302": "Is x < 5?",
    }


@pytest.mark.parametrize("header", ["", "qid\tquery\n", "\ufeffquery_id\ttext\n"])
def test_topics_in_two_columns(tmp_path: Path, header: str) -> None:
    (tmp_path / "topics.tsv").write_text(f"{header}1\twhy is it?\r\n\n2\tid\tand query\n", "utf-8")
    assert read_topics(tmp_path / "topics.tsv") == {"1": "why is it?", "2": "id\tand query"}


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
        ("1 0 d1 1\n2 0 d1 1\n1 0 d1 0", 3, "every judgement once, got '1 d1'"),
    ],
)
def test_errors_in_qrels(tmp_path: Path, text: str, line: int, expected: str) -> None:
    (tmp_path / "qrels").write_text(text)
    with pytest.raises(FileFormatError, match=f"qrels, line {line}: expected {expected}"):
        read_qrels(tmp_path / "qrels")


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("1\tone\n1\tagain", 2, "every topic id once"),
        ("1 one", 1, "a topic id, a tab and a question"),
        ("1 2\tone", 1, "a topic id without spaces"),
        ("<top>\n<num> 1\n</top>", 1, "a topic with <num> and <title>"),
        ("<top><num>1<title>a</top>\n\n<top><num>1<title>b</top>", 3, "every topic id once"),
        ("<topics>none</topics>", 1, "<top> … <num> … <title> … </top>"),
    ],
)
def test_errors_in_topics(tmp_path: Path, text: str, line: int, expected: str) -> None:
    (tmp_path / "topics").write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_topics(tmp_path / "topics")
    assert str(caught.value).startswith(f"{tmp_path / 'topics'}, line {line}: expected {expected}")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "topics").write_text(CLASSIC)
    (tmp_path / "qrels.gz").write_text("")
    (tmp_path / "qrels").write_text("301 0 d1 2\n")
    return tmp_path


def test_a_dataset_of_qrels_and_topics(files: Path) -> None:
    dataset = RetrievalDataset.from_trec(files / "qrels", files / "topics", {"d1": "text"})
    assert dataset.relevance == {"301": Relevance({"d1": 2})}
    assert dataset.corpus == {"d1": "text"}
    assert dataset.check() == ["1 of 2 questions have no labels: '302'"]


def test_a_judgement_of_no_topic_names_the_line(files: Path) -> None:
    (files / "qrels").write_text("301 0 d1 1\n051 0 d1 1\n")
    with pytest.raises(FileFormatError, match="line 2: expected the id of a topic, got '051'"):
        RetrievalDataset.from_trec(files / "qrels", files / "topics")


def test_written_files_are_read_back(tmp_path: Path) -> None:
    dataset = RetrievalDataset(
        {"q1": "why?", "q2": ""},
        {"q1": {"d1": 3, "d2": 0, "d3": -1}},
        {"d1": "one"},
        titles={"d1": "Title"},
        document_metadata={"d1": {"year": 1957}},
    )
    dataset.to_trec(tmp_path)
    assert (tmp_path / "qrels.txt").read_text() == "q1 0 d1 3\nq1 0 d2 0\nq1 0 d3 -1\n"
    assert (tmp_path / "topics.tsv").read_text() == "q1\twhy?\nq2\t\n"
    assert RetrievalDataset.load(tmp_path) == dataset


@pytest.mark.parametrize(
    ("queries", "relevance", "wording"),
    [
        ({"q 1": "?"}, {}, "the id 'q 1'"),
        ({"q": "?"}, {"q": ["a b"]}, "the id 'a b'"),
        ({"#q": "?"}, {"#q": ["d"]}, "the id '#q', which begins a comment"),
        ({"q": "two\nlines"}, {}, "which isn't one line"),
        ({"q": "?"}, {"q": {"d": 0.5}}, "the grade 0.5, since trec_eval cuts it off"),
    ],
)
def test_what_would_break_the_files_is_refused(
    tmp_path: Path, queries: dict[str, str], relevance: dict[str, list[str]], wording: str
) -> None:
    with pytest.raises(FormatTooNarrow, match=wording) as caught:
        RetrievalDataset(queries, relevance).to_trec(tmp_path, lossy=True)
    assert "lossy" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_metadata_is_refused_unless_lossy(tmp_path: Path) -> None:
    dataset = RetrievalDataset({"q": "?"}, {"q": ["d"]}, metadata={"q": {"lang": "en"}})
    with pytest.raises(FormatTooNarrow, match=r"metadata of questions \('q'\).*lossy=True"):
        dataset.to_trec(tmp_path)
    dataset.to_trec(tmp_path, lossy=True)
    assert RetrievalDataset.load(tmp_path).metadata == {}
