"""Graded and grouped relevance: what a plain list of relevant ids can't say.

First two systems by one set of judgements, read as a plain list and as grades: the list prefers the
system that finds more, the grades the one that answers. Then chunks that say the same twice: plain
recall can't tell an answer found twice from two answers.
"""

from llama_index_rag_metrics import Relevance, Scores, score_rankings


def print_scores(systems: dict[str, Scores], advice: dict[str, str]) -> None:
    """A line a metric: what each system scores, which one that prefers, and what it asks."""
    for metric, question in advice.items():
        means = {name: scores.means[metric] for name, scores in systems.items()}
        best = max(means.values())
        ahead = [name for name in means if means[name] == best]
        winner = ahead[0] if len(ahead) == 1 else "neither"
        columns = "".join(f"{mean:>9.3f}" for mean in means.values())
        print(f"{metric:<26}{columns}   {winner:<8} {question}")


# 3 answers the question, 2 answers a part of it, 1 helps a little, 0 was judged and doesn't help.
judgements = {
    "How hot does the stoneware kiln get?": {"heat": 3, "cones": 1, "glazes": 1, "fees": 0},
    "Who may fire the kiln?": {"keys": 3, "course": 2, "fees": 1, "glazes": 0},
    "What does a firing cost?": {"fees": 3, "glazes": 1, "heat": 1, "keys": 0},
}
broad = [["cones", "glazes", "heat"], ["fees", "course", "keys"], ["glazes", "heat", "fees"]]
precise = [["heat", "fees", "laser"], ["keys", "course", "glazes"], ["fees", "heat", "keys"]]
found = {
    "broad": dict(zip(judgements, broad, strict=True)),
    "precise": dict(zip(judgements, precise, strict=True)),
}

advice = {
    "recall@3": "how much of what is relevant at all?",
    "recall(min_grade=2)@3": "how much of what answers?",
    "mrr(min_grade=3)@3": "how far down is the answer?",
    "ndcg@3": "is the best on top?",
    "ndcg(mode=exponential)@3": "the same; an answer counts 7 times a hint",
}
print(f"{'graded':<26}{'broad':>9}{'precise':>9}   better")
print_scores(
    {name: score_rankings(judgements, run, list(advice)) for name, run in found.items()}, advice
)

# (overview or heat) and keys: the two chunks before the comma overlap, and one of them is enough.
both_parts = Relevance(groups=[["overview", "heat"], ["keys"]])
found_by = {"twice": [["overview", "heat", "fees"]], "both": [["heat", "keys", "fees"]]}

advice = {
    "recall@3": "how many of the chunks?",
    "group_recall@3": "how many parts of the answer?",
    "group_mrr@3": "and how far down is each?",
}
print(f"\n{'grouped':<26}{'twice':>9}{'both':>9}   better")
print_scores(
    {name: score_rankings([both_parts], run, list(advice)) for name, run in found_by.items()},
    advice,
)
