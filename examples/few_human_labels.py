"""Few human labels and many of a biased judge: one honest number, offline.

A judge calls a passage too many relevant in one of four questions, so that its own means are too
high. People labelled 80 of 500 questions, drawn at random.
"""

import random

from llama_index_rag_metrics import calibrate, check_rules, compare, score_rankings

METRICS = ["hit_rate@3", "mrr"]
QUESTIONS = [f"q{number:03}" for number in range(500)]
lot = random.Random(7)

people = {f"q{number:03}": [f"right {number}"] for number in range(80)}
judge = {
    question: [f"right {number}"] + [f"other {number}.0"] * (lot.random() < 0.25)
    for number, question in enumerate(QUESTIONS)
}


def rankings(misses):
    """The right passage stands first, second, or nowhere among five others."""
    found = {}
    for number, question in enumerate(QUESTIONS):
        found[question] = [f"other {number}.{rank}" for rank in range(5)]
        if lot.random() > misses:
            found[question].insert(lot.choice([0, 0, 1]), f"right {number}")
    return found


def calibrated(run):
    labelled = {question: run[question] for question in people}
    human = score_rankings(people, labelled, METRICS)
    return calibrate(score_rankings(judge, run, METRICS), human)


systems = {"bm25": calibrated(rankings(0.35)), "hybrid": calibrated(rankings(0.15))}
print(systems["bm25"], end="\n\n")
print(compare(systems, "bm25"), end="\n\n")
print(check_rules(systems["hybrid"], "hit_rate@3 >= 0.7 at 95%"))
