"""Results for the tests of reports: two systems, hostile names and texts, every kind of query."""

from llama_index_rag_metrics import (
    Comparison,
    EvaluationResults,
    Ranking,
    Relevance,
    Run,
    compare,
    score_rankings,
)

EVIL = "<script>alert(1)</script>"
WORSE = "</script><img src=x onerror=alert(2)>\"'`${1}"
METRICS = ["ndcg@3", "recall@2", "mrr"]
LONG = "long " * 500
"""2,500 characters."""

RELEVANCE = {
    "q1": Relevance({"a": 2, "b": 1, "z": 0}),
    "q2": Relevance(["c"]),
    "q3": Relevance({"a": 0}),
    "q4": Relevance(["d"]),
    "q5": Relevance(["e"]),
}
QUERIES = {
    "q1": EVIL,
    "q2": "日本語の質問 " + WORSE,
    "q3": "nothing is relevant",
    "q4": "the retriever fails",
    "q5": "nothing is retrieved",
}
LANGUAGES = {"q1": "en", "q2": "ja", "q3": "en", "q4": "en", "q5": "en"}


def results(rankings: dict[str, Ranking], name: str = "") -> EvaluationResults:
    """What an evaluation of these rankings would have returned."""
    metadata = {query_id: {"language": language} for query_id, language in LANGUAGES.items()}
    run = Run(rankings, name=name, queries=QUERIES, metadata=metadata)
    scores = score_rankings(RELEVANCE, run, METRICS)
    return EvaluationResults(scores)


def baseline() -> EvaluationResults:
    return results(
        {
            "q1": Ranking(["x", "a", "b"], texts=[EVIL, LONG, "short"], latency=0.010),
            "q2": Ranking(["c", "x"], texts=["文字", EVIL], latency=0.020),
            "q3": Ranking(["x"], texts=[EVIL], latency=0.010),
            "q4": Ranking(["d"], texts=["d"], latency=0.010),
            "q5": Ranking(["e"], texts=["e"], latency=0.010),
        },
        "baseline",
    )


def other() -> EvaluationResults:
    return results(
        {
            "q1": Ranking(["a", "y", "a"], texts=[LONG, "y", LONG], latency=0.002),
            "q2": Ranking(["x", "c"], texts=[EVIL, "文字"], latency=0.004),
            "q3": Ranking(["x"], texts=[EVIL], latency=0.002),
            "q4": Ranking(error=f"ValueError: {EVIL}", latency=1.0),
            "q5": Ranking(latency=0.002),
        },
        EVIL,
    )


def comparison() -> Comparison:
    """The other system, whose name is hostile too, with the baseline."""
    return compare({"baseline": baseline(), EVIL: other()}, "baseline")
