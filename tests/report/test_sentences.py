"""What stands at the end of a cell, or is typed at a prompt, answers with a line to read."""

from typing import Any

import pytest
from llama_index.core.postprocessor import SimilarityPostprocessor

import llama_index_rag_metrics
from llama_index_rag_metrics import (
    RetrievalDataset,
    check_rules,
    compare,
    evaluate,
    evaluate_stages,
    sweep,
)
from llama_index_rag_metrics.labels import check_labels, move_labels, pool
from llama_index_rag_metrics.report.reportable import Reportable, Sentence

EVIL = "<b>\x1b[31m"
TEXTS = {"io": "Io has volcanoes, and no craters at all.", "rhea": "Rhea has many craters."}
DATASET = RetrievalDataset(
    {"q1": "Which moon has volcanoes?", "q2": "Which moon has craters?"},
    {"q1": {"io": 2}, "q2": {"rhea": 1}},
    corpus=TEXTS,
)
GOOD = evaluate(lambda query: ["io", "rhea"], DATASET, ["mrr"], name="good")
BAD = evaluate(lambda query: ["rhea", "x"], DATASET, ["mrr"], name=f"bad {EVIL}")
NODES = DATASET.to_nodes()


def results() -> dict[str, Any]:
    """What users get, each by what it is."""
    compared = compare({"good": GOOD, BAD.scores.name: BAD, "same": GOOD}, "good")
    gate = check_rules(BAD, ["mrr >= 0.9"])
    labels = RetrievalDataset({"q1": "Which?"}, {"q1": ["gone"]}, corpus=TEXTS, name=EVIL)
    stages = evaluate_stages(
        lambda query: ["io", "rhea"],
        {"cutoff": SimilarityPostprocessor(similarity_cutoff=2)},
        DATASET,
    )
    moved = move_labels(DATASET, NODES)
    return {
        "a comparison": compared,
        "a difference": compared[BAD.scores.name, "mrr"],
        "a gate": gate,
        "a verdict": gate.verdicts[0],
        "findings": check_labels(labels, NODES),
        "a finding": check_labels(labels, NODES).findings[0],
        "labels moved": moved,
        "a move": moved.findings[0],
        "a pool": pool({"good": GOOD, "bad": BAD}, DATASET.relevance),
        "a configuration": sweep(lambda k: lambda query: ["io"][:k], {"k": [1]}, DATASET, ["mrr"])[
            "k=1"
        ],
        "a loss of a stage": stages.losses[0],
        "a ranking": GOOD.run["q1"],
        "results": GOOD,
        "scores": BAD.scores,
        "a run": BAD.run,
        "a dataset": labels,
    }


RESULTS = results()


@pytest.mark.parametrize("what", RESULTS)
def test_repr_is_a_line(what: str) -> None:
    result = RESULTS[what]
    line = repr(result)
    assert line.startswith("<")
    assert len(line) < 400
    assert line.isprintable()
    if isinstance(result, Sentence):
        sentence = str(result)
        assert " ".join(sentence.replace("\x1b", " ").split()) in line
        assert "<b>" not in result._repr_html_()


def test_results_show_no_fields() -> None:
    """A data class writes its own `repr`, with all it holds, unless it is told not to."""
    for name in llama_index_rag_metrics.__all__:
        getattr(llama_index_rag_metrics, name)  # imports it
    pending, shown = [Reportable, Sentence], []
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        is_ours = kind.__module__.startswith(llama_index_rag_metrics.__name__)
        if is_ours and hasattr(kind.__repr__, "__wrapped__"):  # as dataclasses makes them
            shown.append(kind)
    assert shown == []
