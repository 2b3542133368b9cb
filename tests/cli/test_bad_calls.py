"""Calls that can't be answered: one line that names an option or a file, and nothing written."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from support.command_line import run
from support.telemetry import request, retrieval, write_lines

from llama_index_rag_metrics import RetrievalDataset, score_rankings, write_qrels, write_run

MODULE = """
from llama_index_rag_metrics.demo.retrievers import bm25
def broken(): raise FileNotFoundError("no storage")
def retriever(nodes): return bm25(nodes, 2)
def wants_a_key(nodes, api_key): return bm25(nodes, 2)
def nothing(): return None
def empty(): return []
number = 7
"""
EVALUATE = "evaluate -d d.json --no-progress"
SCORE = "score a.run --qrels q.txt"

REFUSED = [
    # what Typer refuses
    ("nope", "nope"),
    ("evaluate", "--dataset"),
    (EVALUATE, "--retriever"),
    (f"{EVALUATE} -r bm25 --top-k 0", "--top-k"),
    (f"{EVALUATE} -r bm25 --workers x", "--workers"),
    (f"{EVALUATE} -r bm25 --repeats 0", "--repeats"),
    (f"{EVALUATE} -r bm25 --journal d.json", "--journal"),
    (f"{SCORE} --html .", "--html"),
    (f"{SCORE} --format csv", "--format"),
    ("score", "RUN"),
    ("labels move d.json d.json", "--output"),
    ("labels pool a.run -o p.jsonl --depth 0", "--depth"),
    ("init", "index|documents"),
    # names
    (f"{EVALUATE} -r bm25 -m ngcd@10", "unknown metric 'ngcd@10'. Did you mean 'ndcg@10'?"),
    (f"{EVALUATE} -r bm25 -m 'ndcg(mod=linear)'", "unknown metric parameter"),
    (f"{EVALUATE} -r bm25 -m ndcg@0", "greater than 0"),
    (f"{EVALUATE} -r bm25 -m mrr -m recip_rank", "--metric: expected each name once, got 'mrr'."),
    (f"{EVALUATE} -r bm25 --matcher smell", "--matcher: expected 'id', 'text', 'span'"),
    (f"{EVALUATE} -r bm25 --match-on nope", "--match-on: expected one of what node"),
    (f"{EVALUATE} -r bm25 --slice lang", "--slice: expected a key of the questions' metadata"),
    (f"{EVALUATE} -r bm25 --timeout -1", "--timeout: expected seconds above 0, got -1"),
    (f"{EVALUATE} -r bm25 --columns nonsense", "--columns: expected FIELD=NAME"),
    (f"{EVALUATE} -r bm25 --columns smell=x", "--columns: expected"),
    (f"{EVALUATE} -r bm25 --repeats 2 -o out.trec", "--output: expected a file that ends in"),
    ("metrics ngcd", "Did you mean 'ndcg'"),
    ("init index ''", "FOLDER: expected the name of a folder, got ''."),
    ("init nosuch", "KIND: expected one of index, documents, got 'nosuch'."),
    # factories
    (f"{EVALUATE} -r bm26", "--retriever: expected bm25, lsa or package.module:factory"),
    (f"{EVALUATE} -r no_such_module:f", "No module named 'no_such_module'"),
    (f"{EVALUATE} -r m:nope", "module 'm' has no attribute 'nope'"),
    (f"{EVALUATE} -r m:wants_a_key", "missing 1 required positional argument: 'api_key'"),
    (f"{EVALUATE} -r m:broken", "FileNotFoundError: no storage (m.py, line 3)"),
    (f"{EVALUATE} -r m:nothing", "got 'm:nothing'. It returned None."),
    (f"{EVALUATE} -r m:number", "--retriever: expected a retriever"),
    (f"{EVALUATE} -r bm25 -m llm_relevancy", "or set Settings.llm."),
    ("labels check d.json m:number", "CORPUS: expected"),
    ("labels check d.json m:retriever", "expected an index, a vector store"),
    ("labels check d.json m:empty", "CORPUS: expected an index"),
    ("labels check d.json no:", "a path that is there, or package.module:factory"),
    ("labels ask d.json -o n.json", "Pass --llm, or set Settings.llm."),
    ("labels ask d.json -o n.json --llm m:number", "--llm: expected an LLM of LlamaIndex, got 7."),
    ("labels ask d.json -o n.json --llm m:nothing", "LLM of LlamaIndex, got 'm:nothing'."),
    # numbers and metrics that the input has nothing for
    ("labels move d.json d.json -o m.json --threshold 0", "--threshold: expected a number"),
    (f"{SCORE} -m bm25_similarity", "--metric: expected metrics of rankings"),
    (f"{SCORE} -m span_recall", "ranking of question 'q1': expected the spans"),
    (f"{SCORE} -m accuracy", "Write accuracy(corpus_size=…)."),
    (f"{SCORE} -m recall@200tokens", "or use a cutoff by rank, such as @10."),
    ("score bare.jsonl -m mrr --qrels q.txt --min-score 0.5", "a score of every retrieved passage"),
    # files to read
    ("evaluate -d nowhere -r bm25", "nowhere"),
    ("evaluate -d torn.json -r bm25", "torn.json, line 1"),
    ("score none.run -m mrr", "none.run: No such file or directory"),
    ("score empty --qrels q.txt", "RUN: expected a file with at least one ranking, got 'empty'."),
    ("score bad.run --qrels q.txt", "bad.run, line 1: expected 6 columns"),
    ("score other.run --qrels q.txt", "query ids of other.run: expected some that the labels have"),
    ("score a.run", "--qrels FILE"),
    ("score bare.jsonl", "RUN: expected labels of its questions"),
    ("score . --qrels q.txt", ". isn't a run: it is a folder."),
    ("score a.run --qrels none", "none: No such file or directory"),
    ("score a.run --qrels empty", "RUN: expected labels of its questions"),
    (f"{SCORE} --question-id q", "--question-id: expected a file of traces as RUN"),
    ("score t.jsonl -d d.json", "--dataset: expected texts of questions as t has them"),
    ("score t.jsonl -d d.json --question-id id", "write --question-id 'metadata.id'."),
    ("show q1 s.json", "There are none in these files."),
    ("show 'which moon' a.run -d d.json", "or a part of the text of one alone"),
    ("show q3 a.run -d d.json", "There are q1, q2."),
    ("labels check none.json", "none.json"),
    ("labels check d.json nowhere", "nowhere"),
    ("labels pool a.run empty.jsonl -o p.jsonl", "at least one ranking, got 'empty.jsonl'."),
    ("labels review none.jsonl -o j.jsonl", "none.jsonl"),
    ("labels review bad.jsonl -o j.jsonl", "bad.jsonl, line 1: expected a record"),
    ("labels review empty.jsonl -o j.jsonl", "at least one passage"),
    ("labels review pool.jsonl -o j.jsonl --rubric empty", "a line for each grade"),
    ("labels agree pool.jsonl none.jsonl", "none.jsonl"),
    # files to write
    (f"{SCORE} --json no/x.json", "--json: expected a file in a folder that exists"),
    (f"{SCORE} --html -", "--html: expected a file in a folder"),
    (f"{SCORE} --json a.run", "--json: expected another file than that of RUN"),
    (f"{SCORE} --json x --html ./x", "--html: expected another file than that of --json"),
    (f"{EVALUATE} -r bm25 -o no/run.trec", "--output: expected a file in a folder that exists"),
    ("labels move d.json d.json -o m.xyz", "--output: expected a name that ends in"),
    ("labels move d.json c.jsonl -o c.jsonl", "--output: expected another file than that of NEW"),
    ("labels check d.json --html ./d.json", "--html: expected another file than that of DATASET"),
    ("labels pool a.run -d d.json -o d.json", "another file than that of --dataset"),
    ("labels review pool.jsonl -o j.html", "--output: expected a name that ends in .jsonl"),
    ("score a.run --qrels \ud800", "--qrels"),
    (f"{SCORE} --html \ud800", "--html"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "m", raising=False)
    for name in ("OPENAI_API_KEY", "CO_API_KEY", "COHERE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    questions = {"q1": "Which moon is cold?", "q2": "Which moon is red?"}
    labels = {"q1": ["d1"], "q2": ["d2"]}
    dataset = RetrievalDataset(questions, labels, {"d1": "She is cold.", "d2": "He is red."})
    dataset.save("d.json")
    write_run({"q1": ["d1", "d2"]}, "a.run")
    write_run({"q9": ["d1"]}, "other.run")
    write_qrels(labels, "q.txt")
    score_rankings(labels, {"q1": ["d1"]}, "mrr").to_json("s.json")
    item = {"query_id": "q1", "query": "Who?", "doc_id": "d1", "text": "She."}
    asked = retrieval("s", "A?", ["d1"], metadata='{"id": "q1"}')
    write_lines(tmp_path / "t.jsonl", request(asked))
    for name, text in {
        "m.py": MODULE,
        "pool.jsonl": json.dumps(item),
        "bare.jsonl": json.dumps({"query_id": "q1", "doc_id": "d1", "rank": 1}),
        "bad.jsonl": json.dumps({"query_id": "q1", "doc_id": "d1", "grade": "?"}),
        "c.jsonl": json.dumps({"_id": "d1", "text": "She is cold."}),
        "bad.run": "no line\n",
        "torn.json": "{",
        "empty": "",
        "empty.jsonl": "",
    }.items():
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("call", "named"), REFUSED)
def test_refused_calls_name_an_option_or_a_file(folder: Path, call: str, named: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    ended = run(*shlex.split(call))
    assert ended.exit_code == 2, ended.output
    assert named in " ".join(ended.stderr.replace("│", " ").split())
    assert "Traceback" not in ended.output
    assert "=..." not in ended.stderr
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert after == before


def test_unwritable_file_is_refused_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # root may write everywhere, so the answer of the system stands in for a disk without writing
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) not in (folder, Path("/dev")))
    ended = run(*shlex.split(f"{SCORE} --json scores.json"))
    assert "--json: expected a file in a folder that exists and may be written" in ended.stderr
    assert run(*shlex.split(f"{SCORE} --json /dev/null")).exit_code == 0


def test_missing_key_is_named() -> None:
    ended = run(*shlex.split(f"{EVALUATE} -r bm25 -m cohere_rerank_relevancy"))
    assert ended.exit_code == 2
    assert "set CO_API_KEY or COHERE_API_KEY" in ended.stderr
