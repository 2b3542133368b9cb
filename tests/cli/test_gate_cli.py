"""`rag-metrics gate`: what it prints and writes, and every exit code."""

import json
from pathlib import Path

import pytest
from support.command_line import refusal
from typer.testing import CliRunner, Result

from llama_index_rag_metrics import Run, Scores, score_rankings
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.scores.scores import json_of

IDS = [f"q{number:02d}" for number in range(50)]


def write(path: str, recall: list[float]) -> None:
    queries = {query_id: f"question {query_id}" for query_id in IDS}
    run = Run({query_id: [str(score)] for query_id, score in zip(IDS, recall, strict=True)})
    columns = {"recall@5": recall, "mrr": [0.5] * 50}
    Scores(IDS, columns, name="bm25", queries=queries, retrieval=Retrieval(run)).to_json(path)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with scores that are equal, a little worse and much worse."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    write("same.json", [1.0] * 50)
    write("doubtful.json", [0.0] * 2 + [1.0] * 48)
    write("worse.json", [0.0] * 29 + [1.0] * 21)
    return tmp_path


RULE = "recall@5 >= baseline - 0.02"


def gate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["gate", *arguments])


class TestExitCodes:
    def test_pass(self) -> None:
        result = gate("same.json", "-b", "same.json", "--rule", RULE)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "Retrieval gate of bm25: pass" in result.stdout

    def test_fail(self) -> None:
        result = gate("worse.json", "-b", "same.json", "--rule", RULE, "--rule", "mrr >= 0.5")
        assert result.exit_code == 1
        lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert lines[0] == "Retrieval gate of bm25: fail 2 rules, 50 questions, against same.json"
        assert "q00 question q00" in lines
        assert "bm25 0.00 1. 0.0" in lines

    def test_inconclusive(self) -> None:
        result = gate("doubtful.json", "-b", "same.json", "--rule", RULE)
        assert result.exit_code == 0
        assert "inconclusive" in result.stdout
        assert result.stderr == "rag-metrics: inconclusive; --strict makes this exit code 1\n"
        strict = gate("doubtful.json", "-b", "same.json", "--rule", RULE, "--strict")
        assert (strict.exit_code, strict.stderr) == (1, "")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["none.json"], "none.json: No such file or directory"),
            (["same.json"], "--rule: expected at least one rule, or a baseline, got []"),
            (["same.json", "--rule", "recall@5"], "rule: expected a metric, >= or <=, and a limit"),
            (["same.json", "--rule", RULE], "got None. Name it: --baseline 'FILE', or rag_base"),
            (["same.json", "--rule", RULE, "-b", "no.json"], "rag-metrics gate --accept, or pytes"),
            (
                ["same.json", "--rule", "map >= 0.5"],
                "scored: recall@5, mrr, or a count: queries, scored, failed, empty, no_relevant, ",
            ),
            (["same.json", "--rule", "recal@5 >= 0.5"], "--rule: expected a metric that was"),
            (["same.json", "-b", "same.json", "--rule", "scored >= baseline"], "which is a count"),
            (["same.json", "--accept"], "--baseline: expected a file to write"),
            (["text.json", "--rule", RULE], "text.json: expected scores, as `rag-metrics evaluate"),
            (["list.json", "--rule", RULE], "list.json: expected scores, as `rag-metrics evaluate"),
            (["other.json", "--rule", RULE], "other.json: expected scores, as `rag-metrics eval"),
            (["dataset.json", "--rule", RULE], "dataset.json: expected scores, as `rag-metrics e"),
            (["dataset.jsonl", "--rule", RULE], "dataset.jsonl: expected scores, as `rag-metrics"),
            (["two.json", "--rule", "mrr >= 0.1"], "of a system in two.json, 'bm25' or 'lsa'"),
            (["same.json", "-b", "list.json", "--rule", RULE], "list.json: expected scores"),
        ],
    )
    def test_wrong_usage(self, folder: Path, arguments: list[str], message: str) -> None:
        (folder / "text.json").write_text("no JSON")
        (folder / "list.json").write_text("[]")
        (folder / "other.json").write_text('{"format": "another"}')
        line = json.dumps({"query_id": "q", "query": "x", "expected_ids": ["d"]}) + "\n"
        (folder / "dataset.json").write_text(line)
        (folder / "dataset.jsonl").write_text(2 * line)
        same = Scores.from_json(folder / "same.json")
        two = [same, same.replace(name="lsa")]
        (folder / "two.json").write_text(json_of(two))
        assert message in refusal(gate(*arguments))

    def test_queries_of_another_dataset(self, folder: Path) -> None:
        Scores(["q00", "new"], {"recall@5": [1.0, 1.0]}).to_json("few.json")
        arguments = ("few.json", "-b", "same.json", "--rule", RULE)
        listed = "49 missing (q01, q02, q03, q04, q05 and 44 more); 1 new (new)"
        assert listed in refusal(gate(*arguments))


class TestBaseline:
    def test_default_rule_is_that_the_first_metric_loses_nothing_that_matters(self) -> None:
        result = gate("worse.json", "-b", "same.json")
        assert result.exit_code == 1
        assert "fail: recall@5 is 0.42 against 1.00 in the baseline" in result.stdout
        assert gate("same.json", "-b", "same.json").exit_code == 0

    def test_scores_are_accepted_whatever_the_rules_say(self, folder: Path) -> None:
        result = gate("same.json", "-b", "new/base.json", "--accept")
        assert (result.exit_code, result.stdout) == (
            0,
            "new/base.json now has the scores of same.json.\n",
        )
        result = gate("worse.json", "-b", "new/base.json", "--accept")
        assert result.exit_code == 0
        worse = (folder / "worse.json").read_bytes()
        assert (folder / "new" / "base.json").read_bytes() == worse

    def test_baseline_of_several_retrievers(self, folder: Path) -> None:
        names = ("same", "worse")
        scores = {name: json.loads((folder / f"{name}.json").read_text()) for name in names}
        (folder / "all.json").write_text(json.dumps(scores))
        assert gate("all.json", "--system", "same", "--rule", "recall@5 >= 0.8").exit_code == 0
        assert gate("all.json", "--system", "worse", "--rule", "recall@5 >= 0.8").exit_code == 1


def broken_pipe(*_: object, **__: object) -> None:
    raise BrokenPipeError


class TestOutput:
    def test_json(self) -> None:
        result = gate("worse.json", "--rule", "recall@5 >= 0.8", "--json", "-")
        (verdict,) = json.loads(result.stdout)
        assert (result.exit_code, verdict["outcome"]) == (1, "fail")

    def test_page(self) -> None:
        result = gate("worse.json", "--rule", "recall@5 >= 0.8", "--html", "gate.html")
        assert result.exit_code == 1
        assert "Retrieval gate of bm25: fail" in result.stdout
        assert "Retrieval gate of bm25" in Path("gate.html").read_text(encoding="utf-8")

    def test_step_summary_of_github(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        summary = folder / "summary.md"
        summary.write_text("# Before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        monkeypatch.setattr("llama_index_rag_metrics.cli.gate.show", broken_pipe)
        gate("worse.json", "--rule", "recall@5 >= 0.8")
        text = summary.read_text(encoding="utf-8")
        assert text.startswith("# Before\n### Retrieval gate of bm25: ❌ fail\n")
        assert "Worst questions on recall&#64;5" in text


def test_rule_about_a_cutoff_by_tokens() -> None:
    columns = {"span_recall@2000tokens": [0.8] * 50, "recall@2000tokens": [0.2] * 50}
    Scores(IDS, columns, name="bm25").to_json("tokens.json")
    rules = ("--rule", "span_recall@2000tokens >= 0.7", "--rule", "recall@2000tokens >= 0.5")
    assert gate("tokens.json", *rules[:2]).exit_code == 0
    broken = gate("tokens.json", *rules)
    assert broken.exit_code == 1
    assert "recall@2000tokens" in broken.stdout


def test_stored_run_passes_its_own_gate(folder: Path) -> None:
    (folder / "run.txt").write_text("".join(f"q{n} Q0 d{n % 3} 1 1.0 r\n" for n in range(9)))
    (folder / "qrels.txt").write_text("".join(f"q{n} 0 d0 1\n" for n in range(9)))
    score = ["score", "run.txt", "--qrels", "qrels.txt", "-m", "mrr", "--json", "scores.json"]
    rule = ["-b", "base.json", "--rule", "mrr >= baseline - 0.02", "--strict"]
    runner = CliRunner()
    assert runner.invoke(app, score).exit_code == 0
    assert gate("scores.json", "-b", "base.json", "--accept").exit_code == 0
    assert runner.invoke(app, score).exit_code == 0
    assert gate("scores.json", *rule).exit_code == 0
    expected = {f"q{n}": ["d0"] for n in range(9)}
    run = Run({f"q{n}": [f"d{n % 3}"] for n in range(9)})
    score_rankings(expected, run, "mrr").to_json("own.json")
    assert gate("own.json", *rule).exit_code == 0
