"""`rag-metrics evaluate`: what it prints, writes and goes on with, and every exit code."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import columns_of, refusal, run
from support.evaluate_command import current_folder, evaluate, row
from support.paths import ROOT
from support.processes import start

from llama_index_rag_metrics import (
    Ranking,
    RetrievalDataset,
    Scores,
    read_run,
    write_qrels,
    write_run,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with current_folder(tmp_path, monkeypatch):
        yield tmp_path


def test_evaluate_built_in_retrievers_side_by_side(folder: Path) -> None:
    result = evaluate("-r", "bm25", "-r", "lsa", "-m", "mrr,nDCG@10", "--slice", "language")
    assert result.exit_code == 0, result.output
    assert "beir  3 questions · 3 passages" in result.stdout
    assert "On mrr" in result.stdout
    assert " bm25 1.00 " in " ".join(result.stdout.split())
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("factory", "mrr"),
    [
        ("of_nothing", "0.50"),  # d2, d1: first hits at 2, 1 and never
        ("of_dataset", "0.61"),  # d1, d2, d3: at 1, 2, 3
        ("of_nodes", "0.61"),
        ("Backwards", "0.61"),  # d3, d2, d1: at 3, 2, 1
        ("index", "0.61"),  # all three, in whatever order, though it would give two
    ],
)
def test_factories(folder: Path, factory: str, mrr: str) -> None:
    result = evaluate("-r", f"my_factories:{factory}", "-m", "mrr")
    assert result.exit_code == 0, result.output
    assert row(result, "mrr") == [mrr]
    assert factory in result.stdout


def test_top_k_reaches_the_factory(folder: Path) -> None:
    shallow = evaluate("-r", "my_factories:of_nodes", "-m", "recall", "--top-k", "1")
    deep = evaluate("-r", "my_factories:of_nodes", "-m", "recall@50")
    assert row(shallow, "recall") == ["0.33"]
    assert row(deep, "recall@50") == ["1.00"]


def test_factories_of_one_name_go_by_their_paths(folder: Path) -> None:
    (folder / "my_broken.py").write_text("def of_nothing():\n    return lambda query: ['d1']\n")
    json_path = folder / "scores.json"
    result = evaluate(
        "-r", "my_factories:of_nothing", "-r", "my_broken:of_nothing", "--json", str(json_path)
    )
    assert result.exit_code == 0, result.output
    names = ["my_factories:of_nothing", "my_broken:of_nothing"]
    assert list(json.loads(json_path.read_text())) == names


def test_progress_is_on_standard_error(folder: Path) -> None:
    result = run("evaluate", "-d", "beir", "-r", "bm25", "-m", "mrr")
    assert "3/3" in result.stderr
    assert "3/3" not in result.stdout


def test_json_has_every_score_unrounded(folder: Path) -> None:
    result = evaluate("-r", "my_factories:of_dataset", "-m", "mrr", "--json", "scores.json")
    saved = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    scores = Scores.from_json(json.dumps(saved["of_dataset"]))
    assert result.exit_code == 0
    assert scores.by_query("mrr") == {"q1": 1.0, "q2": 1 / 2, "q3": 1 / 3}
    assert scores.queries["q3"] == "番茄種在哪裡？"


def test_json_is_all_that_is_printed(folder: Path) -> None:
    (scores,) = json.loads(evaluate("-r", "bm25", "-m", "mrr", "--json", "-").stdout).values()
    assert scores["means"] == {"mrr": 1.0}
    assert json.loads(run("demo", "-m", "mrr", "--json", "-").stdout).keys() == {"bm25", "lsa"}


def test_failed_queries_exit_with_1_and_are_listed(folder: Path) -> None:
    result = evaluate("-r", "my_factories:flaky", "-m", "mrr")
    assert result.exit_code == 1, result.output
    assert row(result, "failed") == ["1"]
    assert "Failed: 1" in result.stdout
    assert "TimeoutError: the store is [red]asleep" in result.stdout


def test_labels_that_match_nothing_are_a_note_and_no_warning(folder: Path) -> None:
    (folder / "my_broken.py").write_text("def strangers():\n    return lambda query: ['other']\n")
    result = evaluate("-r", "my_broken:strangers", "-m", "mrr")
    assert "0 of 3 labels match node_id" in " ".join(result.stdout.split())
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("judgements", "reason"),
    [("", "None of 3 questions has"), ("q1\td1\t0\n", "Nothing was measured")],
)
def test_failure_of_all_exits_with_1(folder: Path, judgements: str, reason: str) -> None:
    qrels = folder / "beir" / "qrels" / "test.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\n" + judgements)
    result = evaluate("-r", "bm25")
    assert result.exit_code == 1
    assert f"{reason} " in result.stdout


def test_metric_without_values_exits_with_1(folder: Path) -> None:
    # a grade of 3 is above the highest grade that this metric is told of
    result = evaluate("-r", "my_factories:of_dataset", "-m", "mrr,err(max_grade=0.5)")
    assert result.exit_code == 1, result.output
    assert "err(max_grade=0.5) has a value for 0 questions, not 3" in result.stdout


def test_evaluate_writes_runs_and_html_and_says_which_is_better(folder: Path) -> None:
    both = ("-r", "my_factories:of_dataset", "-r", "my_factories:Backwards")
    result = evaluate(*both, "-m", "mrr", "-o", "out.jsonl", "--html", "report.html")
    assert result.exit_code == 0, result.output
    printed = " ".join(result.stdout.split())
    decision = " better than of_dataset on mrr"
    assert 0 < printed.index(decision) < printed.index(" of_dataset 0.61 ")
    assert read_run("out.Backwards.jsonl")["q1"].ids == ["d3", "d2", "d1"]
    assert (folder / "out.of_dataset.jsonl").exists()
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "<html" in report[:500]
    assert decision in report


def test_evaluate_matches_by_text(folder: Path) -> None:
    assert evaluate("-r", "bm25", "-m", "mrr", "--matcher", "text").exit_code == 0


def test_columns_name_the_fields(folder: Path) -> None:
    golden = {"input": "red kiln", "gold_ids": ["d2"]}
    Path("goldens.jsonl").write_text(json.dumps(golden), encoding="utf-8")
    named = ("--columns", "question=input,labels=gold_ids", "--no-progress", "--json", "-")
    ended = run("evaluate", "-d", "goldens.jsonl", "-r", "my_factories:of_nothing", *named)
    assert ended.exit_code == 0, ended.output
    means = json.loads(ended.stdout[ended.stdout.index("{") :])["of_nothing"]["means"]
    assert means["mrr@10"] == 1.0


EXPECTED = {f"q{n}": ["a"] if n % 2 else [] for n in range(12)}
STORED = {
    query: Ranking(["a", "b"], scores=[0.5 + n / 100 if n % 2 else 0.4 - n / 100, -1.5])
    for n, query in enumerate(EXPECTED)
}


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run.jsonl", "run.trec"):
        write_run(STORED, name)
    write_qrels(EXPECTED, "labels.jsonl")


@pytest.mark.usefixtures("stored")
def test_threshold_of_score() -> None:
    metrics = ("-m", "recall@1,abstained,returned@5", "--qrels", "labels.jsonl")
    shown = run("score", "run.jsonl", *metrics, "--min-score", "0.5", "--html", "page.html")
    assert "abstained" in shown.stdout
    columns = columns_of(shown.stdout)
    assert (columns["abstained"], columns["recall@1"]) == (["1.00"], ["1.00"])
    assert "−1.5" not in Path("page.html").read_text()
    below = run("score", "run.trec", *metrics, "--min-score", "-2.5")
    assert columns_of(below.stdout)["returned@5"] == ["2.00"]


@pytest.mark.usefixtures("stored")
def test_evaluation_ends_well_without_values_that_nobody_is_due() -> None:
    questions = {"q1": "How do ants march?", "q2": "Who repairs zeppelins?"}
    corpus = {"d1": "Ants march in columns at night.", "d2": "Bees dance to show the way."}
    RetrievalDataset(questions, {"q1": ["d1"], "q2": []}, corpus).save("dataset.json")
    options = ("-r", "bm25", "-m", "recall@1,abstained", "--min-score", "0.01", "--no-progress")
    shown = run("evaluate", "-d", "dataset.json", *options)
    assert shown.exit_code == 0, shown.output
    assert columns_of(shown.stdout)["abstained"] == ["1.00"]


TIMES = """
    from collections import Counter
    from threading import Lock

    asked, lock = Counter(), Lock()

    def moody():
        def ask(query):
            with lock:
                asked[query] += 1
                time = asked[query]
            open("asked.txt", "a").write(query + "\\n")
            return ["d1", "d2", "d3"] if time % 2 else []
        return ask
"""


@pytest.fixture
def moody_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with current_folder(tmp_path, monkeypatch):
        module = tmp_path / "my_factories.py"
        own = "\n".join(line[4:] for line in TIMES.splitlines())
        module.write_text(module.read_text(encoding="utf-8") + own, encoding="utf-8")
        yield tmp_path


def test_questions_are_asked_several_times(moody_folder: Path) -> None:
    metrics = "hit_rate@3"
    command = ("-r", "my_factories:moody", "-m", metrics, "--journal", "kept")
    shown = evaluate(*command, "--repeats", "4", "--json", "scores.json", "-o", "run.parquet")
    assert shown.exit_code == 0, shown.output
    (kept,) = json.loads(Path("scores.json").read_text(encoding="utf-8")).values()
    assert len(kept["repeats"]) == 4
    # found the first and the third time
    assert kept["means"] == {"hit_rate@3": pytest.approx(0.5)}
    assert "Asked 4 times, " in " ".join(shown.stdout.split())
    assert len(read_run("run.parquet").repeats) == 4
    asked = Path("asked.txt").read_text(encoding="utf-8")
    again = evaluate(*command, "--repeats", "4")
    assert again.exit_code == 0, again.output
    assert Path("asked.txt").read_text(encoding="utf-8") == asked
    by_rule = ("gate", "scores.json", "--rule")
    assert run(*by_rule, "hit_rate@3 >= 0.5").exit_code == 0
    assert run(*by_rule, "hit_rate@3 >= 0.6").exit_code == 1


def test_file_that_tells_no_times_apart_is_refused_first(moody_folder: Path) -> None:
    refused = evaluate("-r", "my_factories:moody", "--repeats", "2", "-o", "out.trec")
    assert "--output: expected a file that ends in .jsonl" in refusal(refused)
    assert not Path("asked.txt").exists()


def test_journal_is_gone_on_from(folder: Path) -> None:
    first = evaluate("-r", "my_factories:flaky", "-m", "mrr", "--journal", "kept")
    lines = (folder / "kept" / "flaky.jsonl").read_text(encoding="utf-8").splitlines()
    again = evaluate("-r", "my_factories:flaky", "-m", "recall", "--journal", "kept")
    other = evaluate("-r", "my_factories:flaky", "--top-k", "3", "--journal", "kept")
    assert first.exit_code == again.exit_code == 1
    assert len(lines) == 3  # what it is of, and two finished queries
    assert row(again, "recall") == ["0.33"]
    assert other.exit_code == 2
    assert "is of another run" in other.stderr


def test_depth_of_another_journal_is_refused_and_named(folder: Path) -> None:
    evaluate("-r", "my_factories:of_nodes", "-m", "ndcg@10", "--journal", "kept")
    deeper = evaluate("-r", "my_factories:of_nodes", "-m", "recall@20", "--journal", "kept")
    results = evaluate(
        "-r", "my_factories:of_nodes", "-m", "recall@20", "--journal", "kept", "--top-k", "10"
    )
    expected = "run is 'my_factories:of_nodes, top 20', but the journal has"
    assert deeper.exit_code == 2
    assert f"{expected} 'my_factories:of_nodes, top 10'" in deeper.stderr
    assert results.exit_code == 0, results.output
    assert row(results, "recall@20") == ["1.00"]


@pytest.mark.parametrize("begin", ["", '{"format": "llama', "[1]\n", "\xff\n"])
def test_file_that_is_no_journal_is_refused(folder: Path, begin: str) -> None:
    (folder / "kept").mkdir()
    (folder / "kept" / "of_nodes.jsonl").write_bytes(begin.encode("latin-1"))
    result = evaluate("-r", "my_factories:of_nodes", "-m", "mrr", "--journal", "kept")
    assert result.exit_code == (2 if begin.endswith("\n") else 0), result.output


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
@pytest.mark.parametrize("journal", [True, False])
def test_ctrl_c_says_what_was_kept(folder: Path, journal: bool) -> None:
    arguments = [sys.executable, "-m", "llama_index_rag_metrics", "evaluate", "-d", "beir"]
    arguments += ["-r", "my_factories:slow", "-m", "mrr", "--workers", "1", "--no-progress"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = start(
        [*arguments, *(["--journal", "kept"] if journal else [])],
        {**environment, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline().split()[0] == "beir"
    assert "asked for potatoes\n" in process.stdout
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("rag-metrics: interrupted")
    assert ("kept in kept" in err) is journal
    assert ("nothing was written" in err) is not journal
    if journal:
        assert len((folder / "kept" / "slow.jsonl").read_text().splitlines()) == 2
