"""Lines that can't be read, and judgements of unknown queries: skipped, listed, counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from llama_index_rag_metrics import Ranking, RetrievalDataset, Run
from llama_index_rag_metrics.runtime.errors import FileFormatError, LinesSkipped


def beir(folder: Path) -> Path:
    """Two good queries, a broken one, and judgements of a query that isn't there."""
    (folder / "qrels").mkdir()
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "one?"}\nbroken\n{"_id": "q2", "text": "two?"}\n'
    )
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "one"}\n{"_id": "d1"}\n')
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td1\t1\nq9\td1\t1\nq2\td1\tx\n"
    )
    return folder


def mapping(folder: Path) -> Path:
    path = folder / "old.json"
    data = {"queries": {"q1": "one?", "q2": 2}, "relevant_docs": {"q1": ["d1"], "q9": ["d1"]}}
    path.write_text(json.dumps({**data, "corpus": {"d1": "one"}}))
    return path


def lines(folder: Path) -> Path:
    path = folder / "questions.jsonl"
    path.write_text('{"query_id": "q1", "query": "one?", "relevance": ["d1"]}\n{"query": 2}\n')
    return path


def examples(folder: Path) -> Path:
    path = folder / "ragas.json"
    path.write_text(json.dumps([{"user_input": "one?", "reference_context_ids": ["d1"]}, {}]))
    return path


def table(folder: Path) -> Path:
    path = folder / "ragas.csv"
    path.write_text('user_input,reference_context_ids\none?,["d1"]\n,["d1"]\n')
    return path


KINDS: list[tuple[Callable[[Path], Path], int]] = [
    (beir, 4),  # a query, a document, an unknown query, a grade
    (mapping, 2),
    (lines, 1),
    (examples, 1),
    (table, 1),
]


@pytest.mark.parametrize(
    ("make", "n"), KINDS, ids=lambda argument: getattr(argument, "__name__", "")
)
def test_skip_leaves_out_what_raise_refuses(
    make: Callable[[Path], Path], n: int, tmp_path: Path
) -> None:
    path = make(tmp_path)
    with pytest.raises(FileFormatError):
        RetrievalDataset.load(path)
    with pytest.warns(LinesSkipped, match=f"{n} skipped"):
        dataset = RetrievalDataset.load(path, on_error="skip")
    assert len(dataset.skipped) == n
    assert "one?" in dataset.queries.values()
    assert [list(relevant) for relevant in dataset.relevance.values()] == [["d1"]]
    with pytest.warns(LinesSkipped):
        assert RetrievalDataset.of(str(path), on_error="skip") == dataset


def test_a_ranking_without_an_item_keeps_its_columns_together() -> None:
    ranking = Ranking(["q", "d", "q"], scores=[3.0, 2.0, 1.0], texts=["Q", "D", "Q"], latency=0.5)
    run = Run({"q": ranking, "r": ["q"]}).without_identical_ids()
    assert run["q"] == Ranking(["d"], scores=[2.0], texts=["D"], latency=0.5)
    assert list(run["r"].ids) == ["q"]
