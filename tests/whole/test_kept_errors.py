"""Whatever way an error comes in, what is kept of it holds no key, and isn't long."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import run as command
from support.telemetry import attributes, request, retrieval, span, write_lines

import llama_index_rag_metrics
from llama_index_rag_metrics import (
    Ranking,
    RetrievalDataset,
    Run,
    Scores,
    capture,
    evaluate,
    read_run,
    read_traces,
    record_retrieval,
    score_rankings,
    score_table,
    sweep,
    write_run,
)
from llama_index_rag_metrics.metrics.ranks import MRR
from llama_index_rag_metrics.rankings.run import Call
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, RetrievalFailed

KEY = "sk-proj-abcdefghijklmnop1234"
SAID = f"401: Incorrect API key provided: {KEY} {'and so on ' * 500}"
DATASET = RetrievalDataset({"q1": "Who?", "q2": "When?"}, {"q1": ["a"], "q2": ["a"]})
RELEVANT = {"q1": ["a"], "q2": ["a"]}

GIVEN = ("given.jsonl", "traces.jsonl")


class Refused(MRR):
    def score(self, judged: Any) -> Any:
        raise ConnectionError(SAID)


def by_hand(_: Path) -> Run:
    return Run({"q1": Ranking(error=SAID, calls=(Call(error=SAID),)), "q2": ["a"]})


def of_a_stored_run(folder: Path) -> Run:
    call = {"retrieved_ids": [], "error": SAID}
    line = {"query_id": "q1", "retrieved_ids": [], "error": SAID, "calls": [call]}
    return read_run(write_lines(folder / "given.jsonl", line))


def of_a_status(folder: Path) -> Run:
    failed = span("s", openinference__span__kind="RETRIEVER", input__value="Who?", error=SAID)
    return read_traces(write_lines(folder / "traces.jsonl", request(failed)), questions=DATASET)


def of_an_exception(folder: Path) -> Run:
    failed = span("s", openinference__span__kind="RETRIEVER", input__value="Who?", error="failed")
    said = {"exception.type": "AuthenticationError", "exception.message": SAID}
    failed["events"] = [{"name": "exception", "attributes": attributes(said)}]
    return read_traces(write_lines(folder / "traces.jsonl", request(failed)), questions=DATASET)


def of_a_retriever(folder: Path) -> Run:
    def refuse(query: str) -> list[str]:
        raise ConnectionError(SAID)

    return evaluate(refuse, DATASET, ["mrr"], journal=folder / "journal.jsonl").run


def of_a_recorded_retrieval(folder: Path) -> Run:
    async def ask(query: str) -> str:
        record_retrieval("what", [], error=SAID)
        return query

    return evaluate(ask, DATASET, ["mrr"], journal=folder / "journal.jsonl").run


OF_CODE = (of_an_exception, of_a_retriever, of_a_recorded_retrieval)


@pytest.mark.filterwarnings("ignore::llama_index_rag_metrics.runtime.errors.EveryQueryFailed")
@pytest.mark.parametrize("door", [by_hand, of_a_stored_run, of_a_status, *OF_CODE])
def test_error_of_a_run(door: Callable[[Path], Run], tmp_path: Path) -> None:
    run = door(tmp_path)
    scores = score_rankings(RELEVANT, run, ["mrr"])
    write_run(run, tmp_path / "written.jsonl")
    scores.to_html(tmp_path / "report.html")
    errors = [run["q1"].error, *(call.error for call in run["q1"].calls or ())]
    assert any(error and "***" in error for error in errors)
    assert all(len(error) < 1_050 for error in errors if error)
    written = [path.read_text() for path in tmp_path.iterdir() if path.name not in GIVEN]
    shown = [str(scores), scores.to_json(), scores.to_markdown(), repr(run)]
    assert KEY not in "".join([*written, *shown, *map(repr, run.values())])


def test_error_of_a_capture() -> None:
    with capture() as session:
        record_retrieval("what", [], error=SAID)
    kept = session.retrievals[0].error
    assert kept is not None
    assert KEY not in kept
    assert session.calls[0].error == kept
    assert len(kept) < 1_050


def test_error_that_was_described_before_stays() -> None:
    error = Ranking(error=SAID).error
    assert error is not None
    assert error.endswith(f"… (cut: {len(SAID):,} characters)")
    assert Ranking(error=error).error == error


def test_errors_of_a_table(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars", reason="tables need the extra `batch`")
    rows = {"query_id": ["q1", "q2"], "retrieved_ids": [[], ["a"]], "error": [SAID, None]}
    table = pl.DataFrame(rows, schema_overrides={"retrieved_ids": pl.List(pl.String)})
    scored = score_table(table.with_columns(expected_ids=pl.Series([["a"], ["a"]])), "mrr")
    assert scored["error"].null_count() == 1
    assert KEY not in str(scored["error"].to_list())
    table.write_parquet(tmp_path / "run.parquet")
    scores = score_rankings(RELEVANT, read_run(tmp_path / "run.parquet"), "mrr")
    assert scores.failed["q1"].startswith("401: Incorrect API key provided: ***")


def test_error_of_a_metric() -> None:
    scores = evaluate(lambda query: ["a"], DATASET, [Refused(), "recall"]).scores
    assert any("mrr has no value: ConnectionError: 401" in note for note in scores.notes)
    assert (scores.n("mrr"), scores.means["recall"]) == (0, 1)
    assert KEY not in scores.to_json()


def test_error_of_a_configuration(tmp_path: Path) -> None:
    def build(k: int) -> Any:
        if k > 1:
            raise ConnectionError(SAID)
        return lambda query: ["a", "b"]

    found = sweep(build, {"k": [1, 2]}, DATASET, metrics=["mrr"], journal=tmp_path / "journals")
    assert KEY not in str(found)
    assert "***" in str([configuration.error for configuration in found.failed])


def test_attribute_that_an_error_quotes(tmp_path: Path) -> None:
    bad = retrieval("s", "Who?", ["a"])
    odd = {"mlflow.spanType": "RETRIEVER", "mlflow.spanOutputs": f"not json {KEY}"}
    bad["attributes"] = attributes(odd)
    path = write_lines(tmp_path / "t.jsonl", request(bad))
    with pytest.raises(FileFormatError, match=r"got 'not json \*\*\*'") as raised:
        read_traces(path)
    assert KEY not in repr(raised.value)
    ended = command("score", str(path), "--dataset", "none")
    assert KEY not in ended.output


def test_value_that_an_error_quotes_is_masked_before_it_is_cut() -> None:
    for length in range(80, 125):
        assert KEY[:12] not in str(InvalidInput("model", "x" * length + f" {KEY}", "a name"))


KEPT_ELSEWHERE = {
    "masking.py": "describes them",
    "metrics/texts/cohere_rerank.py": "masks its own key, too",
}


def handlers(tree: ast.AST) -> Iterator[tuple[ast.ExceptHandler, ast.AST]]:
    for handler in ast.walk(tree):
        if isinstance(handler, ast.ExceptHandler) and handler.name:
            raised = {
                id(inner)
                for statement in ast.walk(handler)
                if isinstance(statement, ast.Raise)
                for inner in ast.walk(statement)
            }
            for node in ast.walk(handler):
                if id(node) not in raised:
                    yield handler, node


def test_nobody_else_keeps_the_words_of_an_error() -> None:
    """In an f-string beside the error's class, which is how one is described by hand."""
    home = Path(llama_index_rag_metrics.__file__).parent
    found = []
    for path in sorted(home.rglob("*.py")):
        if path.relative_to(home).as_posix() in KEPT_ELSEWHERE:
            continue
        for handler, node in handlers(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = ast.unparse(node)
                if f"type({handler.name})" in text and f"{{{handler.name}}}" in text:
                    found.append(f"{path.relative_to(home)}:{node.lineno}")
    assert found == []


def test_failure_that_ends_the_run_shows_a_cause_without_a_key() -> None:
    def fail_with(words: str) -> Callable[[str], Any]:
        def retrieve(query: str) -> Any:
            raise ConnectionError(words)

        return retrieve

    def cause(words: str) -> BaseException | None:
        with pytest.raises(RetrievalFailed) as caught:
            evaluate(fail_with(words), DATASET, "mrr", raise_on_error=True)
        return caught.value.__cause__

    assert isinstance(cause("no route to the host"), ConnectionError)
    assert cause(f"401: {KEY} is no key") is None


def test_errors_of_scores_made_by_hand() -> None:
    scores = Scores(["q1"], {"mrr": [0.0]}, failed={"q1": f"ConnectionError: 401 {KEY}"})
    assert scores.failed["q1"].startswith("ConnectionError: 401 ***")
