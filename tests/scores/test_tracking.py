"""Scores in trackers: MLflow on a real SQLite store, Weights & Biases offline, a callable."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_rag_metrics import RetrievalDataset, Scores, evaluate
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.scores.tracking import tracked_name


def scores() -> Scores:
    return Scores(
        ["q1", "q2", "q3", "q4"],
        {
            "hit_rate@5": [1.0, 1.0, 1.0, 0.0],
            "ndcg(mode=exponential)@10": [0.5, 0.25, math.nan, 0.75],
            "bm25_similarity": [math.nan] * 4,
        },
        queries={"q1": "番茄", "q2": "<b>"},
        failed={"q4": "timeout"},
    )


# Wilson, 3 of 4, 95 %: low (0.75 + z²/8 − z √(0.75 × 0.25/4 + z²/64)) / (1 + z²/4), z = 1.959964;
# high modified for a single miss, 1 − χ²(0.05; 2)/2/4 = 1 + ln(0.95)/4
WILSON = (0.300642, 0.987177)


class TestCallable:
    def test_gets_means_intervals_and_counts(self) -> None:
        calls = []
        numbers = scores().log_to(lambda numbers, step: calls.append((numbers, step)), step=3)
        assert calls == [(numbers, 3)]
        assert numbers["hit_rate_at_5"] == 0.75
        assert (numbers["hit_rate_at_5_low"], numbers["hit_rate_at_5_high"]) == pytest.approx(
            WILSON, abs=1e-6
        )
        assert numbers["ndcg.mode-exponential_at_10"] == 0.5
        assert numbers["ndcg.mode-exponential_at_10_n"] == 3
        assert numbers["counts/failed"] == 1
        low, high = (numbers[f"ndcg.mode-exponential_at_10_{end}"] for end in ("low", "high"))
        assert 0 < low < 0.5 < high < 1
        assert not any(name.startswith("bm25") for name in numbers)

    def test_prefix_and_confidence(self) -> None:
        usual = scores().log_to(lambda numbers, step: None, prefix="hybrid/")
        narrow = scores().log_to(lambda numbers, step: None, prefix="hybrid/", confidence=0.5)
        assert all(name.startswith("hybrid/") for name in usual)
        assert narrow["hybrid/hit_rate_at_5_low"] > usual["hybrid/hit_rate_at_5_low"]

    def test_results_hand_their_scores_over(self) -> None:
        dataset = RetrievalDataset(queries={"q": "?"}, relevance={"q": ["a"]})
        results = evaluate(lambda query: ["a"], dataset, ["mrr"])
        assert results.log_to(lambda numbers, step: None)["mrr"] == 1.0


class TestNames:
    @pytest.mark.parametrize(
        ("metric", "name"),
        [
            ("mrr", "mrr"),
            ("ndcg@10", "ndcg_at_10"),
            ("rbp(p=0.8)@5", "rbp.p-0.8_at_5"),
            ("ndcg(ideal=all)", "ndcg.ideal-all"),
            ("recall(match=text>=0.6, min_grade=2)@5", "recall.match-text-ge-0.6.min_grade-2_at_5"),
        ],
    )
    def test_are_readable(self, metric: str, name: str) -> None:
        assert tracked_name(metric) == name

    @given(
        st.lists(
            st.text()
            | st.from_regex(r"[a-z_]{1,4}(\([a-z]=[a-z0-9_.>=-]{1,5}\))?(@[0-9])?", fullmatch=True),
            unique=True,
        )
    )
    def test_are_accepted_and_differ_for_different_metrics(self, metrics: list[str]) -> None:
        made = [f"{tracked_name(metric)}{end}" for metric in metrics for end in ("", "_low", "_n")]
        assert len(set(made)) == len(made)
        # what MLflow takes everywhere: letters, digits, _ - . space and /
        assert all(name.isascii() and 0 < len(name) <= 250 for name in made)
        assert all(character.isalnum() or character in "_-." for name in made for character in name)


def test_mlflow_on_a_sqlite_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs the extra trackers")
    pytest.importorskip("alembic", reason="needs the extra trackers")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/tracking.db")
    try:
        mlflow.create_experiment("retrieval", artifact_location=(tmp_path / "files").as_uri())
        mlflow.set_experiment("retrieval")
        with mlflow.start_run() as run:
            numbers = scores().log_to("mlflow", prefix="hybrid/", step=1)
            scores().log_to("mlflow", prefix="hybrid/", step=2)
        logged = mlflow.get_run(run.info.run_id)
        history = mlflow.MlflowClient().get_metric_history(
            run.info.run_id, "hybrid/ndcg.mode-exponential_at_10"
        )
        text = mlflow.artifacts.load_text(f"{logged.info.artifact_uri}/hybrid/scores.json")
    finally:
        mlflow.set_tracking_uri(before)
    assert logged.data.metrics == pytest.approx(numbers)
    assert [(point.step, point.value) for point in history] == [(1, 0.5), (2, 0.5)]
    assert Scores.from_json(text) == scores()


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="needs the extra trackers")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(InvalidInput, match=r"Call wandb\.init\(\) first\."):
        scores().log_to("wandb")
    run = wandb.init(project="retrieval", dir=str(tmp_path))
    numbers = scores().log_to("wandb", prefix="hybrid/")
    kept = {name: run.summary[name] for name in numbers}
    table = run.summary["hybrid/scores"]
    run.finish()
    assert kept == pytest.approx(numbers)
    assert (table["nrows"], table["ncols"]) == (4, 5)


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_a_tracker_that_isn_t_installed(tracker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, tracker, None)
    with pytest.raises(MissingExtra, match=rf"log_to\('{tracker}'\) needs an extra: .*trackers"):
        scores().log_to(tracker)


def test_an_unknown_tracker() -> None:
    with pytest.raises(InvalidInput, match="'mlflow', 'wandb' or a callable"):
        scores().log_to("neptune")
