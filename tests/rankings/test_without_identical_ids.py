"""A ranking without the document that is its own question."""

from __future__ import annotations

from llama_index_rag_metrics import Ranking, Run


def test_a_ranking_without_an_item_keeps_its_columns_together() -> None:
    ranking = Ranking(["q", "d", "q"], scores=[3.0, 2.0, 1.0], texts=["Q", "D", "Q"], latency=0.5)
    run = Run({"q": ranking, "r": ["q"]}).without_identical_ids()
    assert run["q"] == Ranking(["d"], scores=[2.0], texts=["D"], latency=0.5)
    assert list(run["r"].ids) == ["q"]
