"""Metadata of questions may hold what a function logs in with; scores and pages never do."""

from pathlib import Path

from llama_index_rag_metrics import Run, Scores, score_rankings

_KEYS = {"q1": "hunter22-acme", "q2": "hunter22-blue"}


def test_what_a_name_calls_a_secret_is_not_kept(tmp_path: Path) -> None:
    metadata = {
        query_id: {"tenant": query_id, "api_key": key, "login": {"password": key, "user": "u"}}
        for query_id, key in _KEYS.items()
    }
    run = Run({"q1": ["a"], "q2": ["x"]}, metadata=metadata)
    scores = score_rankings({"q1": ["a"], "q2": ["b"]}, run, "mrr")
    assert scores.metadata["q1"] == {
        "tenant": "q1",
        "api_key": "***",
        "login": {"password": "***", "user": "u"},
    }
    page = scores.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "hunter22" not in scores.to_json() + page
    assert Scores.from_json(scores.to_json()) == scores
    assert metadata["q1"]["api_key"] == "hunter22-acme"
