"""A sweep over chunk sizes says what the chunks allow, beside what was reached."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.schema import TextNode
from support.chunkers import node_of

from llama_index_rag_metrics import Relevance, RetrievalDataset, chunk_ceiling, sweep
from llama_index_rag_metrics.runtime.errors import InvalidInput

TEXT = "".join("abcdefghijklmnopqrstuvwxyz"[place % 26] for place in range(120))
DATASET = RetrievalDataset(
    {f"q{number}": "?" for number in range(10)},
    {
        f"q{number}": Relevance.of_spans([("d", 10 * number, 10 * number + 8)])
        for number in range(10)
    },
    {"d": TEXT},
)
GRID = {"size": [10, 40], "top_k": [1, 2]}
made: list[int] = []


def chunks(size: int) -> list[TextNode]:
    made.append(size)
    starts = range(0, len(TEXT), size)
    return [node_of("d", TEXT[start : start + size], f"{start}", start) for start in starts]


def build(size: int, top_k: int) -> Any:
    nodes = [
        node_of("d", TEXT[start : start + size], f"{start}", start)
        for start in range(0, len(TEXT), size)
    ]
    return lambda question: nodes[:top_k]


def test_what_the_chunks_allow_is_beside_what_was_reached() -> None:
    made.clear()
    found = sweep(build, GRID, DATASET, ["span_iou@5"], chunks=chunks)
    assert made == [10, 40]  # once for all depths
    for configuration in found:
        size = configuration.params["size"]
        assert configuration.ceiling is not None
        assert configuration.ceiling.name == f"size={size}"
        expected = chunk_ceiling(DATASET, chunks(size)).scores
        assert configuration.ceiling.scores.means == expected.means
    assert found["size=10, top_k=1"].ceiling.scores.means["span_iou"] == pytest.approx(0.8)
    shown = str(found.report().sections[0].tables[0].head)
    assert "'span_iou at best', 'tokens at least', 'Pareto'" in shown
    # each question's 8 characters are in one chunk, of 10 or of 40
    rows = found.to_pandas()
    assert rows["span_iou_at_best"].tolist() == pytest.approx([0.8, 0.8, 0.2, 0.2])
    assert "At best, at least" in " ".join(str(found).split())


def test_without_chunks_nothing_is_said_of_them() -> None:
    found = sweep(build, GRID, DATASET, ["span_iou@5"])
    assert found["size=10, top_k=1"].ceiling is None
    assert "at best" not in str(found).lower()
    assert "span_iou_at_best" not in found.to_pandas()


def test_chunks_that_cannot_be_found_are_said() -> None:
    def with_titles(size: int) -> list[TextNode]:
        """The first two of each size can be found."""
        return [
            chunk if number < 2 else node_of("d", f"Title\n{chunk.text}", chunk.node_id)
            for number, chunk in enumerate(chunks(size))
        ]

    notes = sweep(build, GRID, DATASET, ["span_iou@5"], chunks=with_titles).report().notes
    said = "not in any of the dataset's documents, so left out"
    assert f"chunks of size=10, {said}: 10 of 12 chunks" in notes
    assert f"chunks of size=40, {said}: 1 of 3 chunks" in notes


def test_one_that_cannot_be_built_has_its_ceiling_all_the_same() -> None:
    def broken(size: int, top_k: int) -> Any:
        if size == 40:
            raise ConnectionError("refused")
        return build(size, top_k)

    found = sweep(broken, GRID, DATASET, ["span_iou@5"], chunks=chunks)
    assert [each.params["size"] for each in found.failed] == [40, 40]
    assert found.failed[0].ceiling is not None


def test_what_is_no_function_of_the_grid_is_refused_before_anything_is_asked() -> None:
    asked: list[str] = []

    def never(**params: Any) -> Any:
        asked.append("?")
        raise AssertionError

    with pytest.raises(InvalidInput, match="chunks: expected a function of parameters of the grid"):
        sweep(never, GRID, DATASET, ["span_iou@5"], chunks=lambda overlap: [])
    with pytest.raises(InvalidInput, match="chunks: expected a function"):
        sweep(never, GRID, DATASET, ["span_iou@5"], chunks=chunks(10))  # type: ignore[arg-type]
    by_id = RetrievalDataset({"q": "?"}, {"q": ["a"]})
    with pytest.raises(InvalidInput, match="labels with places"):
        sweep(never, GRID, by_id, ["recall@5"], chunks=chunks)
    assert asked == []
