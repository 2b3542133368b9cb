"""The journal: nothing finished is asked again, after a kill, after Ctrl-C, with other metrics."""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import date, datetime
from functools import cache, partial
from os import environ
from pathlib import Path
from random import Random
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import TextNode
from support.processes import Forked
from support.retrievers import Postprocessor, Scripted

from llama_index_rag_metrics import RetrievalDataset, RetrieverEvaluator, evaluate
from llama_index_rag_metrics.evaluation.as_ask import Question
from llama_index_rag_metrics.evaluation.ask_all import Attempt, Journal, answers_to
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, JournalMismatch

SCRIPT = {"one?": ["a"], "two?": ["x", "b"], "three?": ["x"]}


@pytest.fixture
def dataset() -> RetrievalDataset:
    return RetrievalDataset(
        queries={"q1": "one?", "q2": "two?", "q3": "three?"},
        relevance={"q1": ["a"], "q2": ["b"], "q3": ["c"]},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run.jsonl"


def test_finished_query_is_never_asked_again(dataset: RetrievalDataset, path: Path) -> None:
    first = evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    again = Scripted({})
    second = evaluate(again, dataset, ["mrr", "recall@2"], journal=path)
    assert again.asked == []
    assert second.run == first.run
    assert second.scores.means["mrr"] == first.scores.means["mrr"] == 0.5
    assert second.scores.means["recall@2"] == pytest.approx(2 / 3)


def test_failed_queries_are_tried_again(dataset: RetrievalDataset, path: Path) -> None:
    evaluate(Scripted({**SCRIPT, "two?": RuntimeError("busy")}), dataset, ["mrr"], journal=path)
    retriever = Scripted(SCRIPT)
    results = evaluate(retriever, dataset, ["mrr"], journal=path)
    assert retriever.asked == ["two?"]
    assert results.scores.failed == {}


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_torn_last_line_is_mended(dataset: RetrievalDataset, path: Path, cut: int) -> None:
    evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path, workers=1)
    path.write_bytes(path.read_bytes()[:-cut])
    retriever = Scripted(SCRIPT)
    results = evaluate(retriever, dataset, ["mrr"], journal=path)
    assert retriever.asked == ["three?"]
    assert results.scores.means["mrr"] == 0.5
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 1 + 3


@pytest.mark.parametrize(
    "damage",
    [lambda row: row.replace(b'"retrieved_ids"', b'"retrieved_idz"'), lambda row: b"not json\n"],
)
def test_damaged_row(
    damage: Callable[[bytes], bytes], dataset: RetrievalDataset, path: Path
) -> None:
    whole = evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    rows = path.read_bytes().splitlines(keepends=True)
    damaged = next(n for n, row in enumerate(rows) if b'"query_id": "q2"' in row)
    path.write_bytes(b"".join([*rows[:damaged], damage(rows[damaged]), *rows[damaged + 1 :]]))
    with pytest.raises(FileFormatError, match=rf"line {damaged + 1}: .* Delete the line"):
        evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    path.write_bytes(b"".join([*rows[:damaged], *rows[damaged + 1 :]]))
    retriever = Scripted(SCRIPT)
    again = evaluate(retriever, dataset, ["mrr"], journal=path)
    assert retriever.asked == [dataset.queries["q2"]]
    assert again.scores.means == whole.scores.means


def test_file_of_another_kind_is_not_changed(dataset: RetrievalDataset, path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"my": "data"}\n')
    with pytest.raises(FileFormatError, match="line 1"):
        evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    assert path.read_text() == '{"my": "data"}\n'


def test_journal_of_another_run_is_refused(dataset: RetrievalDataset, path: Path) -> None:
    ask = partial(evaluate, dataset=dataset, metrics=["mrr"], journal=path)
    ask(Scripted(SCRIPT), run="bm25, k1=1.2")
    expected = "run is 'bm25, k1=2', but the journal has 'bm25, k1=1.2'. Give this run a journal of"
    with pytest.raises(JournalMismatch, match=expected):
        ask(Scripted(SCRIPT), run="bm25, k1=2")
    with pytest.raises(JournalMismatch, match=r"run is '', but the journal has 'bm25, k1=1\.2'"):
        ask(Scripted(SCRIPT))
    with pytest.raises(JournalMismatch, match="match_on is 'ref_doc_id', but the journal has 'no"):
        ask(Scripted(SCRIPT), run="bm25, k1=1.2", match_on="ref_doc_id")
    stages = [Postprocessor(function=lambda nodes: nodes)]
    with pytest.raises(JournalMismatch, match="postprocessors is 'Postprocessor'"):
        ask(Scripted(SCRIPT), run="bm25, k1=1.2", node_postprocessors=stages)
    with pytest.raises(InvalidInput, match="run: expected a text"):
        ask(Scripted(SCRIPT), run=7)  # type: ignore[arg-type]


def test_only_new_and_reworded_questions_are_asked(dataset: RetrievalDataset, path: Path) -> None:
    evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    queries = {**dataset.queries, "q2": "two, please?", "q4": "four?"}
    changed = RetrievalDataset(queries, {**dataset.relevance, "q4": ["d"]})
    script: dict[str, Any] = {"two, please?": ["b"], "four?": ["d"]}
    retriever = Scripted(script)
    results = evaluate(retriever, changed, ["mrr"], journal=path)
    assert sorted(retriever.asked) == ["four?", "two, please?"]
    assert results.scores.by_query("mrr") == {"q1": 1.0, "q2": 1.0, "q3": 0.0, "q4": 1.0}
    again = Scripted({})
    evaluate(again, changed, ["mrr"], journal=path)
    assert again.asked == []
    fewer = RetrievalDataset({"q1": "one?"}, {"q1": ["a"]})
    assert evaluate(Scripted({}), fewer, ["mrr"], journal=path).scores.means["mrr"] == 1.0


def test_note_says_what_came_from_the_journal(dataset: RetrievalDataset, path: Path) -> None:
    first = evaluate(Scripted({**SCRIPT, "two?": OSError("busy")}), dataset, ["mrr"], journal=path)
    assert not any("answers come from" in note for note in first.scores.notes)
    seconds = datetime(2024, 3, 12, 12).timestamp()
    os.utime(path, (seconds, seconds))
    again = evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    expected = f"2 of 3 answers come from {path}, of 12 March 2024; 1 was asked"
    assert again.scores.notes[0] == expected
    assert "".join(expected.split()) in "".join(str(again).split())  # however it is wrapped
    today = date.today()
    whole = evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    expected = f"3 of 3 answers come from {path}, of {today.day} {today:%B %Y}; none was asked"
    assert whole.scores.notes[0] == expected


SETTINGS = {"depth": 2}


def _of_settings(cache: dict[str, list[str]]) -> Callable[[str], list[str]]:
    logger = logging.getLogger("of a search")

    def search(question: str) -> list[str]:
        """Searches as deep as the settings say."""
        logger.info("%s %s", question, environ.get("TERM"))
        return cache.setdefault(question, list("abc")[: SETTINGS["depth"]])

    return search


class Counting:
    """Searches, and counts how often."""

    def __init__(self) -> None:
        self.n, self.random = 0, Random(7)

    def __call__(self, question: str) -> list[str]:
        self.n += 1
        return ["a", "b"]

    def search(self, question: str) -> list[str]:
        return self(question)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (lambda question: ["a", "b"], lambda question: list("ab")),
        (_of_settings({}), _of_settings({"x": ["y"]})),
        (cache(lambda question: ["a", "b"]), cache(lambda question: ["a", "b"])),
        (Counting(), Counting()),
        (Counting().search, Counting().search),
        (partial(Counting.search, Counting()), partial(Counting.search, Counting())),
        (Counting(), lambda question: ["a", "b"]),
    ],
)
def test_code_isnt_looked_at(first: Any, again: Any, dataset: RetrievalDataset, path: Path) -> None:
    """Whatever asks, what is answered stays answered, and a note says where it comes from."""
    before = evaluate(first, dataset, ["mrr"], journal=path)
    after = evaluate(again, dataset, ["mrr"], journal=path)
    assert after.run == before.run
    assert after.scores.notes[0].startswith("3 of 3 answers come from")


def test_corrected_labels_need_no_new_retrieval(dataset: RetrievalDataset, path: Path) -> None:
    evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    corrected = RetrievalDataset(queries=dataset.queries, relevance={"q1": ["x"], "q2": ["x"]})
    results = evaluate(Scripted({}), corrected, ["mrr"], journal=path)
    assert results.scores.by_query("mrr") == {"q1": 0.0, "q2": 1.0}


def test_texts_of_any_kind_survive(path: Path) -> None:
    ranking = Ranking(
        ["é\u2028\n", "\ud800"], [float("inf"), None], ["中文\r\n", "한국어\x00"], 0.5
    )
    asking, query = Attempt("q\u2029"), Question("half \ud83d")
    with Journal(path, {"a": "b"}) as journal:
        journal.record(asking, query, ranking)
    questions = RetrievalDataset({asking.query_id: query.query_str})
    with Journal(path, {"a": "b"}) as journal:
        assert answers_to(questions, {}, journal.rows) == {asking: ranking}


PROGRAM = r"""
    import sys, time
    from llama_index_rag_metrics import RetrievalDataset, evaluate

    def slow(query):
        time.sleep(0.05)
        print(query + "\n", end="", flush=True)
        return ["d" + query]

    queries = {f"q{n}": str(n) for n in range(100)}
    dataset = RetrievalDataset(queries=queries, relevance={one: ["d5"] for one in queries})
    results = evaluate(slow, dataset, ["mrr"], journal=sys.argv[1], workers=2)
    print(results.scores.means["mrr"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_answers_that_are_finished_are_not_lost(tmp_path: Path, how: signal.Signals) -> None:
    journal = tmp_path / "run.jsonl"
    killed = Forked(PROGRAM, str(journal))
    asked = [killed.stdout.readline().strip() for _ in range(20)]
    os.kill(killed.pid, how)
    rest, errors = killed.communicate()
    if how is signal.SIGINT:
        assert "KeyboardInterrupt" in errors
    kept = [json.loads(line)["query_id"] for line in journal.read_text().splitlines()[1:] if line]
    assert len(kept) < 100
    # at most the two queries under way when the signal came are missing
    assert len(asked) + len(rest.split()) - len(kept) <= 2
    done = Forked(PROGRAM, str(journal))
    *asked_again, mean = done.communicate()[0].split()
    assert done.wait() == 0
    assert not {f"q{number}" for number in asked_again} & set(kept)
    assert len(asked_again) + len(kept) == 100
    assert float(mean) == pytest.approx(1 / 100)


def test_call_with_an_error_masked_anew_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call(["x"], query="?", error="no entry for zz-secret-zz")
    with Journal(path, {"a": "b"}) as journal:
        journal.record(Attempt("q1"), Question("?"), Ranking(["x"], calls=[call]))
    monkeypatch.setenv("SOME_API_KEY", "zz-secret-zz")
    with Journal(path, {"a": "b"}) as journal:
        (kept,) = journal.rows[0].ranking.calls or ()
    assert kept.error is not None
    assert "zz-secret-zz" not in kept.error


def _by_evaluator(source: Any, dataset: Any, metrics: list[str], **options: Any) -> Any:
    return RetrieverEvaluator(metrics=metrics, retriever=source).evaluate_dataset(
        dataset, **options
    )


@pytest.mark.parametrize("evaluated", [evaluate, _by_evaluator])
def test_named_index_is_asked_for_more_by_a_deeper_metric(tmp_path: Path, evaluated: Any) -> None:
    nodes = [TextNode(id_=f"d{n}", text=f"{n}") for n in range(12)]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    dataset = RetrievalDataset({"q1": "x?"}, {"q1": ["d1"]})
    options: dict[str, Any] = {"journal": tmp_path / "journal.jsonl", "run": "mine"}
    assert len(evaluated(index, dataset, ["recall@3"], **options).run["q1"].ids) == 3
    with pytest.raises(JournalMismatch, match="depth is '12', but the journal has '3'"):
        evaluated(index, dataset, ["recall@12"], **options)
