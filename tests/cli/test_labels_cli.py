"""`rag-metrics labels`: what it prints and writes, and every exit code."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from llama_index_rag_metrics import RetrievalDataset, read_qrels
from llama_index_rag_metrics.cli import app

TEXTS = {
    "d1": "Enceladus is a moon of Saturn. Jets of water vapour rise from cracks in its ice.",
    "d2": "Triton circles Neptune backwards. Its thin air is mostly nitrogen, and it is cold.",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    questions = {"q1": "Which moon has jets?", "q2": "Which one is backwards?"}
    dataset = RetrievalDataset(questions, {"q1": ["d1"], "q2": ["d2"]}, TEXTS)
    dataset.save("dataset.json")
    write_corpus("same.jsonl", TEXTS)
    twice = RetrievalDataset(
        {**questions, "q3": questions["q1"]}, {"q1": ["d1"], "q3": ["d1"]}, TEXTS
    )
    twice.save("twice.json")
    write_corpus("renamed.jsonl", {"n1": TEXTS["d1"], "n2": TEXTS["d2"]})
    return tmp_path


def write_corpus(path: str, texts: dict[str, str]) -> None:
    lines = (json.dumps({"_id": item, "text": text}) for item, text in texts.items())
    Path(path).write_text("\n".join(lines))


def write_lines(path: str, *lines: object) -> None:
    Path(path).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["labels", *arguments])


class TestCheck:
    def test_labels_that_are_well(self) -> None:
        for arguments in ((), ("same.jsonl",), ("same.jsonl", "--strict")):
            result = run("check", "dataset.json", *arguments)
            assert result.exit_code == 0, result.output
            assert "Labels of dataset: fine" in result.stdout

    def test_labels_that_are_wrong(self) -> None:
        result = run("check", "dataset.json", "renamed.jsonl")
        assert result.exit_code == 1
        assert "the text of 'd1' is now under 'n1'" in result.stdout

    def test_warnings_count_when_asked(self) -> None:
        result = run("check", "twice.json")
        strict = run("check", "twice.json", "--strict")
        assert (result.exit_code, strict.exit_code) == (0, 1)
        assert "the same question as 'q1', with the same labels" in result.stdout

    def test_listing_that_programs_read(self, folder: Path) -> None:
        files = ("--json", "found.json", "--html", "found.html")
        assert run("check", "dataset.json", "renamed.jsonl", *files).exit_code == 1
        findings = json.loads((folder / "found.json").read_text())
        assert [(finding["kind"], finding["id"], finding["new_ids"]) for finding in findings] == [
            ("moved", "d1", ["n1"]),
            ("moved", "d2", ["n2"]),
        ]
        assert "passages under another id" in (folder / "found.html").read_text()


class TestMove:
    def test_labels_that_all_find_their_places(self, folder: Path) -> None:
        result = run("move", "dataset.json", "renamed.jsonl", "-o", "new.json", "--json", "m.json")
        assert result.exit_code == 0, result.output
        moved = RetrievalDataset.load("new.json")
        assert moved.relevance == {"q1": ["n1"], "q2": ["n2"]}
        moves = json.loads((folder / "m.json").read_text())
        assert [(move["id"], move["kind"], move["new_ids"]) for move in moves] == [
            ("d1", "moved", ["n1"]),
            ("d2", "moved", ["n2"]),
        ]

    def test_lost_labels(self) -> None:
        write_corpus("half.jsonl", {"n1": TEXTS["d1"]})
        result = run("move", "dataset.json", "half.jsonl", "-o", "new.json")
        assert result.exit_code == 0
        assert "'d2' is gone" in result.stdout
        assert result.stdout.splitlines()[-1] == "new.json has 1 labelled passage."
        assert RetrievalDataset.load("new.json").relevance == {"q1": ["n1"]}

    def test_labels_that_need_no_moving(self) -> None:
        write_corpus("none.jsonl", {"n1": "Something else altogether."})
        assert run("move", "dataset.json", "none.jsonl", "-o", "new.json").exit_code == 1
        assert not Path("new.json").exists()


def test_nodes_and_what_isnt_called(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    Path("made_nodes.py").write_text(
        "from llama_index.core.schema import TextNode\n"
        f"texts = {TEXTS!r}\n"
        "def nodes(dataset):\n"
        "    return [TextNode(id_=one, text=text) for one, text in dataset.corpus.items()]\n"
    )
    assert run("check", "dataset.json", "made_nodes:nodes").exit_code == 0
    assert run("check", "dataset.json", "made_nodes:texts").exit_code == 0


class TestPool:
    @pytest.fixture(autouse=True)
    def runs(self, folder: Path) -> None:
        (folder / "a.run").write_text("q1 Q0 d1 1 2 a\nq1 Q0 d2 2 1 a\n")
        (folder / "b.run").write_text("q1 Q0 d2 1 2 b\nq1 Q0 d1 2 1 b\n")

    def test_passages_to_judge_next(self, folder: Path) -> None:
        result = run(
            "pool", "a.run", "b.run", "-o", "pool.jsonl", "-d", "dataset.json",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert "Label 1 passage." in result.stdout
        lines = (folder / "pool.jsonl").read_text().splitlines()
        # what the dataset has a label of is judged
        assert [json.loads(line)["text"] for line in lines] == [TEXTS["d2"]]

    def test_pool_that_is_judged_enough(self, folder: Path) -> None:
        (folder / "qrels").write_text("q1 0 d1 1\nq1 0 d2 0\n")
        result = run(
            "pool", "a.run", "b.run", "-o", "pool.jsonl", "--qrels", "qrels",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert "is labelled" in result.stdout
        assert (folder / "pool.jsonl").read_text() == ""


def test_questions_by_an_llm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    Path("asking.py").write_text(
        "from support.question_llms import ScriptedLLM\n"
        "def llm():\n    return ScriptedLLM(lambda prompt: f'What of {len(prompt)}?')\n"
    )
    result = run("ask", "same.jsonl", "--llm", "asking:llm", "-n", "1", "-o", "asked.json")
    assert result.exit_code == 0, result.output
    assert "asked.json has 2 questions about 2 passages." in result.stdout
    asked = RetrievalDataset.load("asked.json")
    assert [*asked.relevance.values()] == [["d1"], ["d2"]]
    assert asked.corpus == TEXTS


def test_page_of_a_pool_stands_beside_its_judgements(folder: Path) -> None:
    write_lines("pool.jsonl", {"query_id": "q", "query": "Who?", "doc_id": "a", "text": "She."})
    result = run("review", "pool.jsonl", "-o", "judged.jsonl")
    assert result.exit_code == 0, result.output
    assert result.stdout == "Open judged.html in a browser, and save its export as judged.jsonl.\n"
    assert (folder / "judged.html").read_text().startswith("<!DOCTYPE html>")
    assert not (folder / "judged.jsonl").exists()
    write_lines("judged.jsonl", {"query_id": "q", "doc_id": "a", "grade": 2})
    again = run("review", "pool.jsonl", "-o", "judged.jsonl")
    assert again.exit_code == 0, again.output
    assert read_qrels("judged.jsonl")["q"].grades == {"a": 2}


def test_agreement() -> None:
    for name, grades in {"anna": [2, 0, 1], "ben": [2, 1, 1]}.items():
        records = [
            {"query_id": "q", "doc_id": doc_id, "grade": grade, "reviewer": name}
            for doc_id, grade in zip("abc", grades, strict=True)
        ]
        write_lines(f"{name}.jsonl", *records)
    result = run("agree", "anna.jsonl", "ben.jsonl", "--json", "-")
    assert result.exit_code == 0, result.output
    (differing,) = json.loads(result.stdout)
    assert (differing["doc_id"], differing["first"], differing["second"]) == ("b", 0, 1)
    # o = 2/3; e = 1/3 * 1/3 + 1/3 * 2/3 = 1/3
    assert "Kappa 0.50 on 3 passages" in run("agree", "anna.jsonl", "ben.jsonl").stdout
