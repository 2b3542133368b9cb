"""Lists that stand as text in the cells of a table, and text that only looks like a list."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics.files.fields import TABLE
from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.files.sources import read_cell
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError

LIKE_LISTS = ['{"name": "x"}', '["a"]', "['a']", "[2020]", "{1,2}", "[]", "{}", "{{}}", "[1] a"]


SEVERAL = [
    "['d1', 'd2']",
    "{'d1': 2, 'd2': 1}",
    "d2,d3",
    "d2, d3",
    "d4|d5",
    "d4;d5",
    "d4 d5",
    "doc-a doc-b",
    "[d4, d5]",
    "[d4]",
    "array(['d1'])",
]
ONE = ["d1", "Saturn's moons", "annual report 2023.pdf", "Good, the Bad and the Ugly", "{5F1A-09}"]


@pytest.mark.parametrize("text", LIKE_LISTS)
@pytest.mark.parametrize("form", ["in memory", "records.json", "lines.jsonl"])
def test_json_says_itself_what_is_a_text(tmp_path: Path, form: str, text: str) -> None:
    record = {"query_id": "q1", "query": "why?", "expected_texts": text}
    assert _json(tmp_path, form, record).expected_texts == {"q1": [text]}


@pytest.mark.parametrize("form", ["in memory", "records.json", "lines.jsonl"])
@pytest.mark.parametrize("name", ["expected_ids"])
def test_one_id_in_json(tmp_path: Path, form: str, name: str) -> None:
    for text in [*ONE, "{}", "[1] a"]:
        dataset = _json(tmp_path, form, {"query_id": "q1", "query": "why?", name: text})
        assert dict(dataset.relevance) == {"q1": [text]}
    for text in [*SEVERAL, "{1,2}", '["a"]', "['a']", "[2020]", "[]", '{"name": "x"}']:
        with pytest.raises(FileFormatError, match="one id, a list such as"):
            _json(tmp_path, form, {"query_id": "q1", "query": "why?", name: text})


def _json(tmp_path: Path, form: str, record: dict[str, str]) -> RetrievalDataset:
    source: Any = [record]
    if form != "in memory":
        source = tmp_path / form
        content = record if form == "lines.jsonl" else [record]
        source.write_text(json.dumps(content))
    return RetrievalDataset.load(source)


def _csv(tmp_path: Path, names: list[str], cells: list[str]) -> RetrievalDataset:
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, cells])
    return RetrievalDataset.load(path)


def _pandas(tmp_path: Path, names: list[str], cells: list[str]) -> RetrievalDataset:
    pd = pytest.importorskip("pandas", reason="the extra pandas")
    return RetrievalDataset.load(pd.DataFrame([cells], columns=names))


def _polars(tmp_path: Path, names: list[str], cells: list[str]) -> RetrievalDataset:
    pl = pytest.importorskip("polars", reason="the extra batch")
    return RetrievalDataset.load(pl.DataFrame([cells], schema=names, orient="row"))


def _arrow(tmp_path: Path, names: list[str], cells: list[str]) -> RetrievalDataset:
    pa = pytest.importorskip("pyarrow", reason="the extra batch")
    return RetrievalDataset.load(
        pa.table(dict(zip(names, [[cell] for cell in cells], strict=True)))
    )


TABLES = pytest.mark.parametrize("table", [_csv, _pandas, _polars, _arrow])
Table = Callable[[Path, list[str], list[str]], RetrievalDataset]


@TABLES
def test_texts_as_python_prints_a_list_are_refused(tmp_path: Path, table: Table) -> None:
    with pytest.raises(FileFormatError, match="expected texts as JSON writes a list"):
        table(tmp_path, ["query_id", "query", "expected_texts"], ["q1", "why?", "['a', 'b']"])


@TABLES
@pytest.mark.parametrize("name", ["expected_texts", "reference_contexts"])
@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ('["a", "b"]', ["a", "b"]),
        ("[]", []),  # no text at all, as a data frame writes it into CSV
        *((text, [text]) for text in ['{"k": 1}', "[2020]", "{1,2}", "{}", "{{}}", '["a", 1]']),
    ],
)
def test_texts(tmp_path: Path, table: Table, name: str, text: str, texts: list[str]) -> None:
    assert table(tmp_path, ["query_id", "query", name], ["q1", "why?", text]).expected_texts == {
        "q1": texts
    }


@TABLES
@pytest.mark.parametrize(
    ("text", "relevance"),
    [
        ('["d1", "d2"]', Relevance(["d1", "d2"])),
        ("[1, 2]", Relevance(["1", "2"])),
        ('{"d1": 2, "d2": 0.5}', Relevance({"d1": 2, "d2": 0.5})),
        ('[["a", "b"], ["c"]]', Relevance(groups=[["a", "b"], ["c"]])),
        ("[]", Relevance([])),
        *((text, Relevance([text])) for text in [*ONE, "{{}}", "{['a']}"]),
        *((json.dumps([text]), Relevance([text])) for text in SEVERAL),
    ],
)
def test_ids(tmp_path: Path, table: Table, text: str, relevance: Relevance) -> None:
    names = ["query_id", "query", "expected_ids"]
    dataset = table(tmp_path, names, ["q1", "why?", text])
    assert dataset.relevance == {"q1": relevance}
    assert dataset.relevance["q1"].alternatives == relevance.alternatives


@TABLES
@pytest.mark.parametrize("name", ["expected_ids", "relevance"])
def test_several_ids_in_one_cell_are_refused(tmp_path: Path, table: Table, name: str) -> None:
    for text in [*SEVERAL, '{"name": "x"}', "[[]]"]:
        with pytest.raises(FileFormatError, match=r"(line 2|row 1): expected"):
            table(tmp_path, ["query_id", "query", name], ["q1", "why?", text])


def test_the_cell_and_the_reading_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError) as caught:
        _csv(tmp_path, ["query_id", "query", "expected_ids"], ["q1", "why?", "d2,d3"])
    assert str(caught.value) == (
        f"{tmp_path / 'table.csv'}, line 2: expected one id, a list such as "
        '["d1", "d2"], or ["d2,d3"] if it is one id, got \'d2,d3\'.'
    )


@TABLES
def test_a_question_is_text_whatever_it_looks_like(tmp_path: Path, table: Table) -> None:
    dataset = table(tmp_path, ["query_id", "query", "expected_ids"], ["q1", "[1, 2]", "d1"])
    assert dataset.queries == {"q1": "[1, 2]"}


def test_text_beside_lists_in_a_column_is_text() -> None:
    pd = pytest.importorskip("pandas", reason="the extra pandas")
    frame = pd.DataFrame(
        {"id": ["q1", "q2"], "query": ["why?", "who?"], "expected_texts": ['["a"]', ["b", "c"]]}
    )
    dataset = RetrievalDataset.load(frame)
    assert dataset.expected_texts == {"q1": ['["a"]'], "q2": ["b", "c"]}


@pytest.mark.parametrize(
    ("relevance", "wording"),
    [
        ({"facets": {"a": 1}}, "group: expected a collection of ids, got 1"),
        ({"facets": {"a": "d1"}}, "group: expected a collection of ids"),
        ({"groups": ["d1"]}, "group: expected a collection of ids"),
        ({"facets": {"a": ["d1"]}, "weights": [1]}, "expected weights, {facet: weight}, got [1]"),
    ],
)
def test_groups_are_lists(tmp_path: Path, relevance: dict[str, Any], wording: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        RetrievalDataset.load([{"query_id": "q1", "query": "why?", "relevance": relevance}])
    assert wording in str(caught.value)
    with pytest.raises(FileFormatError) as caught:
        _csv(tmp_path, ["query_id", "query", "relevance"], ["q1", "why?", json.dumps(relevance)])
    assert wording in str(caught.value)


@pytest.mark.parametrize("text", ["{{}}", "{['a']}", "[" + "-" * 200_000 + "1]", "[" * 200_000])
def test_what_python_cant_read_stays_text(text: str) -> None:
    assert read_cell("a", text, TABLE, Location("x")) == text
