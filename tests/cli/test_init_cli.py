"""`rag-metrics init`: each folder is made, run as its README says, and its gate stops a loss."""

import shlex
from importlib.metadata import version
from pathlib import Path

import pytest
from support.command_line import refusal, run
from support.processes import Forked

CORE = tuple(map(int, version("llama-index-core").split(".")[:2]))

WORSE = {  # what a user may break: the file, what stands there, and what makes it worse
    "index": ("my_index.py", "return bm25(", "return lambda question: ['fees']\n    return bm25("),
    "documents": ("my_documents.py", "return bm25(", "return lambda query: []\n    return bm25("),
}


PROGRAM = """
import os, runpy, sys
import pytest
folder, script, *arguments = sys.argv[1:]
os.chdir(folder)
sys.path.insert(0, folder)
if script != "pytest":
    runpy.run_path(script, run_name="__main__")
else:
    sys.exit(pytest.main(arguments))
"""


def python(folder: Path, *arguments: str, code: int = 0) -> str:
    process = Forked(PROGRAM, str(folder), *arguments)
    printed, errors = process.communicate()
    assert process.wait() == code, printed + errors
    return printed + errors if code else printed


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(WORSE))
def test_folder_runs_at_once_and_its_gate_stops_a_loss(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("llama_index.retrievers.bm25")
    if kind == "documents" and CORE < (0, 13):
        pytest.importorskip("llama_index.readers.file")  # which comes with newer cores
    folder = tmp_path / "an evaluation's"
    made = run("init", kind, str(folder))
    assert made.exit_code == 0, made.output
    assert f"cd {shlex.quote(str(folder))} && python" in made.output
    if kind == "documents":
        assert "run `python ask.py` first" in python(folder, "evaluate.py", code=1)
        assert python(folder, "ask.py") == "3 questions in dataset.json\n"
    assert "report.html shows every question" in python(folder, "evaluate.py")
    assert (folder / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    gate = ["pytest", "-q", "-p", "no:cacheprovider", "-p", "llama_index_rag_metrics_pytest"]
    python(folder, *gate, "--rag-accept")
    assert (folder / "baseline.json").is_file()
    python(folder, *gate)
    name, here, worse = WORSE[kind]
    text = (folder / name).read_text("utf-8")
    assert here in text
    (folder / name).write_text(text.replace(here, worse), encoding="utf-8")
    assert "1 failed" in python(folder, *gate, code=1)


@pytest.mark.parametrize("kind", list(WORSE))
def test_readme_names_what_is_there(kind: str, tmp_path: Path) -> None:
    run("init", kind, str(tmp_path))
    readme = (tmp_path / "README.md").read_text("utf-8")
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    for path in made - {Path("README.md"), Path("pytest.ini")}:
        assert path.name in readme or f"`{path.parts[0]}`" in readme
        assert '"METRIC ' not in (tmp_path / path).read_text("utf-8")


def test_workflow_runs_what_is_there(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    run("init", "index", str(tmp_path))
    workflow = yaml.safe_load((tmp_path / ".github/workflows/retrieval.yml").read_text("utf-8"))
    steps = [step["run"] for step in workflow["jobs"]["retrieval"]["steps"] if "run" in step]
    assert steps == [
        "python -m pip install -r requirements.txt",
        "python -m pytest test_retrieval.py",
    ]
    assert (tmp_path / "requirements.txt").exists()
    assert (tmp_path / "test_retrieval.py").exists()


def test_files_that_are_there_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "evaluate.py").write_text("mine")
    assert refusal(run("init", "index", str(tmp_path))) == (
        f"FOLDER: expected a folder without evaluate.py, got {str(tmp_path)!r}. Nothing was "
        "written. Name another folder: `rag-metrics init KIND FOLDER`."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["evaluate.py"]
