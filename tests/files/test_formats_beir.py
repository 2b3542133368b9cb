"""BEIR folders, read and written."""

import gzip
from pathlib import Path

import pytest
from support.paths import SHARED

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

CRANFIELD = SHARED / "data" / "cranfield"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "geysers?"}\n\n'
        '{"_id": 2, "text": "first?", "metadata": {"lang": "en"}}\n'
    )
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "Enceladus", "text": "has geysers", "metadata": {"url": "u"}}\n'
        '{"_id": "d2", "title": "", "text": "nothing here"}\n'
    )
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n")
    return tmp_path


def test_reads_every_part(folder: Path) -> None:
    dataset = RetrievalDataset.load(folder)
    assert dataset.queries == {"q1": "geysers?", "2": "first?"}
    assert dataset.metadata == {"2": {"lang": "en"}}
    assert dataset.relevance == {"q1": Relevance({"d1": 2, "d2": 0})}
    assert dataset.corpus == {"d1": "has geysers", "d2": "nothing here"}
    assert dataset.titles == {"d1": "Enceladus"}
    assert dataset.document_metadata == {"d1": {"url": "u"}}
    assert dataset.name == folder.name


def test_gzipped_files_with_byte_order_marks_and_carriage_returns(folder: Path) -> None:
    plain = RetrievalDataset.load(folder)
    for path in [*folder.glob("*.jsonl"), folder / "qrels" / "test.tsv"]:
        raw = b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(raw))
        path.unlink()
    assert RetrievalDataset.load(folder) == plain


def test_test_is_the_default_split(folder: Path) -> None:
    (folder / "qrels" / "dev.tsv").write_text("2\td2\t1\n")
    assert list(RetrievalDataset.load(folder).relevance) == ["q1"]
    assert list(RetrievalDataset.load(folder, split="dev").relevance) == ["2"]


def test_questions_of_other_splits_are_left_out(folder: Path) -> None:
    with (folder / "queries.jsonl").open("a") as queries:
        queries.write('{"_id": "q3", "text": "in no split"}\n')
    (folder / "qrels" / "train.tsv").write_text("2\td2\t1\n")
    dataset = RetrievalDataset.load(folder)
    assert list(dataset.queries) == ["q1", "q3"]
    assert dataset.metadata == {}


def test_splits_of_which_there_are_several_need_a_choice(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    (folder / "qrels" / "train.tsv").write_text("2\td2\t1\n")
    with pytest.raises(InvalidInput, match=r"split: expected one of \['dev', 'train'\], got None"):
        RetrievalDataset.load(folder)
    with pytest.raises(InvalidInput, match="got 'test'"):
        RetrievalDataset.load(folder, split="test")


def test_folder_without_qrels_judges_no_query(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").unlink()
    dataset = RetrievalDataset.load(folder)
    assert dataset.relevance == {}
    assert len(dataset) == 2


def test_columns_are_those_of_the_header(folder: Path) -> None:
    ids = '{"_id": "1", "text": "a"}\n{"_id": "2", "text": "b"}'
    for name in ("queries.jsonl", "corpus.jsonl"):
        (folder / name).write_text(ids)
    (folder / "qrels/test.tsv").write_text("corpus-id\tquery-id\tscore\n2\t1\t3\n")
    assert RetrievalDataset.load(folder).relevance == {"1": Relevance({"2": 3})}


@pytest.mark.parametrize(
    ("name", "text", "line", "expected"),
    [
        (
            "queries.jsonl",
            '{"_id": "q", "text": "a"}\n{"_id": "q", "text": "b"}',
            2,
            "query id once",
        ),
        ("queries.jsonl", '\n{"_id": "q1"}', 2, "a question"),
        ("queries.jsonl", '{"_id": "q1", "text": "a"', 1, "JSON"),
        ("queries.jsonl", '{"_id": "", "text": "a"}', 1, "an id"),
        (
            "corpus.jsonl",
            '{"_id": "d", "text": ""}\n{"_id": "d", "text": ""}',
            2,
            "document id once",
        ),
        ("corpus.jsonl", '{"_id": "d", "title": "a"}', 1, "a text under"),
        ("corpus.jsonl", '{"_id": "d", "text": "a", "text": "b"}', 1, "every key once"),
        ("qrels/test.tsv", "q1\td1\t1\nq1\td2\t1\nq1\td1\t2", 3, "one grade for each passage"),
        ("qrels/test.tsv", "q1 d1 1", 1, "4 columns"),
        ("qrels/test.tsv", "q1\td1\thigh", 1, "a grade, a finite number, got"),
        ("qrels/test.tsv", "q1\td1\tnan", 1, "a finite number, got 'nan'"),
    ],
)
def test_errors_name_the_line(folder: Path, name: str, text: str, line: int, expected: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(FileFormatError) as caught:
        RetrievalDataset.load(folder)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{folder / name}, line {line}: expected ")
    assert expected in str(caught.value)


def test_labels_of_no_question(folder: Path) -> None:
    (folder / "qrels/test.tsv").write_text("q1\td1\t1\nq9\td1\t1")
    with pytest.raises(FileFormatError, match=r"relevance: expected only ids of queries, .*'q9'"):
        RetrievalDataset.load(folder)


@pytest.mark.skipif(
    not CRANFIELD.is_dir(), reason="the Cranfield collection isn't beside the project"
)
def test_cranfield() -> None:
    dataset = RetrievalDataset.load(CRANFIELD)
    judgements = [len(relevance.grades) for relevance in dataset.relevance.values()]
    assert (len(dataset), sum(judgements), len(dataset.corpus)) == (225, 1837, 1400)
    assert dataset.relevance["1"].grades["12"] == 2
    assert dataset.indexed_text("1").startswith("experimental investigation of the aerodynamics")
    assert dataset.check() == ["2 of 1,400 passages have no text: '471', '995'"]
