"""`rag-metrics show`: one question, from stored rankings and from stored scores."""

from pathlib import Path

import pytest
from support.retrievers import Scripted, node
from typer.testing import CliRunner, Result

from llama_index_rag_metrics import Ranking, RetrievalDataset, Run, evaluate, write_run
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.files.write_runs import write_qrels
from llama_index_rag_metrics.scores.scores import json_of

DATASET = RetrievalDataset(
    {"q1": "Which moon has geysers?", "q2": "Which moon has lakes?"},
    {"q1": {"enceladus": 2, "triton": 1}, "q2": ["titan"]},
    {"enceladus": "Enceladus has geysers.", "titan": "Titan has lakes.", "io": "Io has lava."},
)
MOONS = Run({"q1": ["io", "enceladus"], "q2": ["io"]}, name="moons")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    DATASET.save("dataset.json")
    write_run(MOONS, "moons.run")
    write_run(Run({"q1": ["triton"], "q2": []}, name="rings"), "rings.jsonl")
    return tmp_path


def show(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["show", *arguments])


def words(result: Result) -> str:
    return " ".join(result.output.split())


def test_systems_stand_side_by_side_with_texts_of_the_dataset(folder: Path) -> None:
    result = show("q1", "moons.run", "rings.jsonl", "--dataset", "dataset.json", "-m", "recall@1")
    assert result.exit_code == 0, result.output
    # recall@1: neither of two relevant ones in the first place; triton first of two
    assert words(result).startswith(
        "Question q1 moons: 1 of 2 relevant passages was never retrieved, 1 is below the cutoff; "
        "rings: 1 of 2 relevant passages was never retrieved."
    )
    for line in (
        "moons 0.00 1. io Io has lava. 2. enceladus [2] Enceladus has geysers.",
        "rings 0.50 1. triton [1]",
        "relevant enceladus [2] Enceladus has geysers. "
        "moons: rank 2, below the cutoff 1; rings: never retrieved",
        "triton [1]: moons: never retrieved; rings: rank 1",
    ):
        assert line in words(result)


def test_runs_of_the_same_question_stand_side_by_side(folder: Path) -> None:
    again = Run({"q1": ["enceladus", "triton"], "q2": Ranking(error="Busy: later")})
    write_run(Run(repeats=[MOONS, again], name="agent"), "agent.jsonl")
    alone = ("--dataset", "dataset.json", "-m", "hit_rate@1")
    shown = words(show("q1", "agent.jsonl", *alone))
    assert shown.startswith(
        "Question q1 run 1: 1 of 2 relevant passages was never retrieved, 1 is below the cutoff; "
        "run 2: 1 of 2 relevant passages is below the cutoff. hit_rate@1"
    )
    assert "run 1 0.00 1. io Io has lava. 2. enceladus [2]" in shown
    assert "run 2 1.00 1. enceladus [2] Enceladus has geysers. 2. triton [1]" in shown
    assert "run 2 0.00 failed: Busy: later" in words(show("q2", "agent.jsonl", *alone))
    write_qrels({"q2": ["titan"]}, "of_q2.jsonl")
    unlabelled = words(show("q1", "agent.jsonl", "--qrels", "of_q2.jsonl"))
    assert "run 1 – 1. io 2. enceladus run 2 – 1. enceladus 2. triton" in unlabelled
    beside = words(show("q1", "moons.run", "agent.jsonl", *alone[:2], "-m", "recall@1"))
    assert "is below the cutoff (in the first run)" in beside
    assert "Asked 2 times: the ranking is the first one, the score the mean." in beside
    answers = iter(["io", "titan"])
    of_q2 = DATASET.select(["q2"])
    results = evaluate(lambda _: [next(answers)], of_q2, "mrr", repeats=2, workers=1)
    Path("scores.json").write_text(json_of([results.scores]), encoding="utf-8")
    kept = words(show("q2", "scores.json"))
    assert (
        "run 1: the relevant passage was never retrieved; run 2: the relevant passage was found."
        in kept
    )


def test_part_of_the_question_names_it(folder: Path) -> None:
    result = show("HAS  lakes", "moons.run", "--dataset", "dataset.json")
    assert "Question q2 The relevant passage was never retrieved." in words(result)


def test_qrels_are_enough(folder: Path) -> None:
    write_qrels(DATASET.relevance, "qrels.txt")
    result = show("q1", "moons.run", "--qrels", "qrels.txt")
    assert "enceladus [2]: rank 2" in words(result)
    assert "triton [1]: never retrieved" in words(result)


def test_stored_scores_tell_the_story(folder: Path) -> None:
    script = Scripted({"Which moon has geysers?": [node("io")], "Which moon has lakes?": []})
    results = evaluate(script, DATASET, ["ndcg@10"], name="bm25")
    Path("scores.json").write_text(json_of([results.scores]))
    assert "bm25 0.00 1. io text of io" in words(show("geysers", "scores.json"))
    assert "Enceladus has geysers. never retrieved" in words(show("q1", "scores.json"))
    assert show("q1", "scores.json", "scores.json").exit_code == 0


def test_run_in_json_isnt_taken_for_scores(folder: Path) -> None:
    Path("run.json").write_text('{"q1": {"io": 2, "enceladus": 1}}')
    result = show("q1", "run.json", "--dataset", "dataset.json")
    assert result.exit_code == 0, result.output
    assert "Question q1 1 of 2 relevant passages was never retrieved." in words(result)
