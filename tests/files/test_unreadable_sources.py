"""What can't be read as a dataset, and what the error says to write instead."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    read_qrels,
    read_run,
    read_traces,
    score_rankings,
)
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

READERS: list[Callable[[Path], object]] = [RetrievalDataset.load, read_run, read_qrels, read_traces]


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "tsv", "parquet", "trec", "x"])
def test_a_file_that_isnt_there(tmp_path: Path, ending: str) -> None:
    for read in READERS:
        with pytest.raises(FileNotFoundError, match="absent"):
            read(tmp_path / f"absent.{ending}")


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv", "txt"])
@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file(tmp_path: Path, ending: str, content: str) -> None:
    path = tmp_path / f"empty.{ending}"
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
    with pytest.raises(FileFormatError) as caught:
        RetrievalDataset.load(path)
    assert '{"query": "Why?", "ex' in str(caught.value)


@pytest.mark.parametrize("corpus", [5, [5], ["a text"]])
def test_what_is_no_corpus(corpus: Any) -> None:
    frame = pytest.importorskip("pandas", reason="the extra pandas").DataFrame({"query": ["why?"]})
    with pytest.raises(InvalidInput, match=r"corpus: expected {document id: text}, a data frame"):
        RetrievalDataset.load(frame, corpus=corpus)


PAIRS = [("d1", 2), ("d2", 0.5)]
LABELLED: list[Callable[[Any], object]] = [
    Relevance,
    lambda pairs: RetrievalDataset({"q1": "why?"}, {"q1": pairs}),
    lambda pairs: RetrievalDataset.load([{"query": "why?", "expected_ids": pairs}]),
    lambda pairs: RetrievalDataset.load({"queries": {"q1": "why?"}, "relevance": {"q1": pairs}}),
    lambda pairs: read_qrels({"q1": pairs}),
    lambda pairs: score_rankings([pairs], [["d1"]], ["mrr"]),
]


@pytest.mark.parametrize("label", LABELLED)
@pytest.mark.parametrize("pairs", [PAIRS, PAIRS[:1], [list(pair) for pair in PAIRS]])
def test_grades_in_pairs(label: Callable[[Any], object], pairs: Any) -> None:
    with pytest.raises((InvalidInput, FileFormatError), match=r"Write grades as {'d1': 2"):
        label(pairs)


def test_pairs_elsewhere() -> None:
    with pytest.raises(InvalidInput, match=r"such as {'q1': \['d1'\]}"):
        RetrievalDataset({"q1": "why?"}, [("q1", "d1")])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"such as {'q1': 'Why\?'}"):
        RetrievalDataset([("q1", "why?")])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"grades are written as {id: grade}"):
        RetrievalDataset({"q1": "why?"}, {"q1": ("d1", 2)})  # type: ignore[dict-item]
    with pytest.raises(FileFormatError, match=r'such as {"query": "Why\?", "expected_ids"'):
        RetrievalDataset.load([("why?", "d1")])
    with pytest.raises(FileFormatError, match=r'such as {"query": "Why\?", "expected_ids"'):
        read_qrels([("q1", "d1", 1)])
    with pytest.raises(FileFormatError, match=r"an id, a text that isn't empty, got \('d1', 1.5\)"):
        read_run({"q1": [("d1", 1.5)]})
