"""`rag-metrics stages`, and the gate on what it writes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.command_line import refusal, run

from llama_index_rag_metrics import RetrievalDataset, evaluate_stages
from llama_index_rag_metrics.scores.scores_export import read_json

_MODULE = """
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import NodeWithScore, TextNode

def build():
    return lambda question: [
        NodeWithScore(node=TextNode(id_=item, text=item), score=score)
        for item, score in [("a", 0.9), ("b", 0.5), ("c", 0.2)]
    ]

def threshold():
    return SimilarityPostprocessor(similarity_cutoff=0.4)

def exact():
    return lambda question: ["d"]

def ids():
    return {item: item for item in "abcd"}
"""
DATASET = RetrievalDataset({"q1": "one?"}, {"q1": ["a", "c", "d", "z"]})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "staged_pipeline", raising=False)
    Path("staged_pipeline.py").write_text(_MODULE)
    DATASET.save("labels.jsonl")


ASKED = (
    *("stages", "-d", "labels.jsonl", "-r", "staged_pipeline:build", "-m", "recall@5"),
    *("-p", "staged_pipeline:threshold", "--no-progress"),
)


def test_it_is_what_python_says() -> None:
    further = ("--compare-exact", "staged_pipeline:exact", "--corpus", "staged_pipeline:ids")
    shown = run(*ASKED, *further, "--json", "scores.json", "--html", "page.html")
    assert shown.exit_code == 0, shown.output
    import staged_pipeline  # type: ignore[import-not-found]

    stages = evaluate_stages(
        staged_pipeline.build(),
        {"threshold": staged_pipeline.threshold()},
        DATASET,
        ["recall@5"],
        corpus=staged_pipeline.ids(),
        compare_exact=staged_pipeline.exact(),
    )
    assert [each.means for each in read_json(Path("scores.json")).values()] == [stages.scores.means]
    assert [(loss.item, loss.stage) for loss in stages.losses] == [
        ("c", "threshold"), ("d", "approximate search"), ("z", "index")
    ]  # fmt: skip
    assert "z [1]: not in the index" in shown.stdout
    assert "c [1] “c”: dropped by threshold (was 3)" in shown.stdout
    assert "Where relevant passages are lost" in Path("page.html").read_text()

    gate = ("gate", "scores.json", "--rule")
    assert run(*gate, "lost at threshold <= 0.25").exit_code == 0
    broken = run(*gate, "lost at threshold <= 0.2")
    assert broken.exit_code == 1
    assert "dropped by threshold (was 3" in broken.stdout


def test_what_cannot_be_used_is_named() -> None:
    assert "--postprocessor" in refusal(run(*ASKED, "-p", "staged_pipeline:build"))
    assert "different names" in refusal(run(*ASKED, "-p", "staged_pipeline:threshold"))
    assert "nowhere" in refusal(run(*ASKED, "--corpus", "nowhere"))
    assert "--compare-exact" in refusal(run(*ASKED, "--compare-exact", "staged_pipeline:none"))
