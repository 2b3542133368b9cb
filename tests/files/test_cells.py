"""Lists in the cells of a table, and texts that only look like a list."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError

SEVERAL = [
    *("['d1', 'd2']", "{'d1': 2, 'd2': 1}", "d2,d3", "d2, d3", "d4|d5", "d4;d5", "d4 d5"),
    *("doc-a doc-b", "[d4, d5]", "[d4]", "array(['d1'])", "{{}}"),
]
ONE = ["d1", "Saturn's moons", "annual report 2023.pdf", "5F1A-09"]


def load(tmp_path: Path, form: str, name: str, text: str) -> RetrievalDataset:
    record = {"query_id": "q1", "query": "why?", name: text}
    path = tmp_path / form
    if form == "memory":
        return RetrievalDataset.load([record])
    if form == "pandas":
        pd = pytest.importorskip("pandas", reason="the extra pandas")
        return RetrievalDataset.load(pd.DataFrame([record]))
    if form == "arrow":
        pa = pytest.importorskip("pyarrow", reason="the extra batch")
        return RetrievalDataset.load(pa.Table.from_pylist([record]))
    if form == "table.csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([record.keys(), record.values()])
    else:
        path.write_text(json.dumps(record))
    return RetrievalDataset.load(path)


FORMS = pytest.mark.parametrize("form", ["memory", "lines.jsonl", "pandas", "arrow", "table.csv"])


@FORMS
@pytest.mark.parametrize("name", ["expected_ids", "relevance"])
def test_one_id_or_several(tmp_path: Path, form: str, name: str) -> None:
    for text in ONE:
        assert load(tmp_path, form, name, text).relevance == {"q1": Relevance([text])}
    for text in SEVERAL:
        with pytest.raises(FileFormatError, match=r"(line \d|row 1|record 1): expected one id, a"):
            load(tmp_path, form, name, text)


@FORMS
def test_one_text_or_several(tmp_path: Path, form: str) -> None:
    for name in ("expected_texts", "reference_contexts"):
        for text in ("why", "[1] a", "{{}}"):
            assert load(tmp_path, form, name, text).expected_texts == {"q1": [text]}
        with pytest.raises(FileFormatError, match="expected a list of texts, or"):
            load(tmp_path, form, name, "['a', 'b']")


@pytest.mark.parametrize(
    ("text", "relevance"),
    [
        ('["d1", "d2"]', Relevance(["d1", "d2"])),
        ("[1, 2]", Relevance(["1", "2"])),
        ('{"d1": 2, "d2": 0.5}', Relevance({"d1": 2, "d2": 0.5})),
        ('[["a", "b"], ["c"]]', Relevance(groups=[["a", "b"], ["c"]])),
        ("[]", Relevance([])),
        *((json.dumps([text]), Relevance([text])) for text in SEVERAL),
    ],
)
def test_json_in_csv(tmp_path: Path, text: str, relevance: Relevance) -> None:
    assert load(tmp_path, "table.csv", "expected_ids", text).relevance == {"q1": relevance}
    with pytest.raises(FileFormatError, match="expected one id, a list such as"):
        load(tmp_path, "pandas", "expected_ids", text)
    texts = load(tmp_path, "table.csv", "expected_texts", '["a", "b"]').expected_texts
    assert texts == {"q1": ["a", "b"]}
    assert load(tmp_path, "table.csv", "query", "[1, 2]").queries == {"q1": "[1, 2]"}
    assert load(tmp_path, "table.csv", "note", '{"a": 1}').metadata == {"q1": {"note": {"a": 1}}}
    for odd in ("{['a']}", "[" + "-" * 200_000 + "1]", "[" * 200_000):
        assert load(tmp_path, "table.csv", "note", odd).metadata == {"q1": {"note": odd}}


def test_the_cell_and_the_reading_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError) as caught:
        load(tmp_path, "table.csv", "expected_ids", "d2,d3")
    assert str(caught.value) == (
        f"{tmp_path / 'table.csv'}, line 2: expected one id, a list such as "
        '["d1", "d2"], or ["d2,d3"] if it is one id, got \'d2,d3\'.'
    )


@pytest.mark.parametrize(
    ("relevance", "wording"),
    [
        ({"facets": {"a": 1}}, "group: expected a collection of ids, got 1"),
        ({"facets": {"a": "d1"}}, "group: expected a collection of ids"),
        ({"groups": ["d1"]}, "group: expected a collection of ids"),
        ({"facets": {"a": ["d1"]}, "weights": [1]}, "expected spans, ids, {id: grade}, groups"),
    ],
)
def test_groups_are_lists(tmp_path: Path, relevance: Any, wording: str) -> None:
    for form, labels in (("memory", relevance), ("table.csv", json.dumps(relevance))):
        with pytest.raises(FileFormatError) as caught:
            load(tmp_path, form, "relevance", labels)
        assert wording in str(caught.value)
