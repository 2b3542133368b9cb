"""Odd input to whatever reads any: no crash, no hang, no score out of range, no foreign exception.

    python tests/support/fuzz.py [--seconds 60] [--seed 0]

Seeded, and bounded in time; `test_fuzz.py` runs it short. What it finds is printed with the seed of
the input, and ends it with exit code 1.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llama_index_rag_metrics import (
    METRICS,
    Relevance,
    RetrievalDataset,
    metric,
    read_qrels,
    read_run,
    read_traces,
    score_table,
    sweep,
    write_run,
)
from llama_index_rag_metrics.decisions.gate.rules import parse_rules
from llama_index_rag_metrics.runtime.errors import RagMetricsError

MOST_SECONDS = 10.0  # what hangs takes longer, what a busy machine slows down does not

PIECES = [
    *METRICS, "@", "10", "(", ")", "=", ",", "k", "min_grade", "mode", "linear", " ", "  ", "_",
    "-", "-1", "1e309", "nan", "inf", "0", "9" * 5_000, "\x00", "\ud800", "é", "\t", "\n", "\r",
    "{", "}", "[", "]", '"', ":", "null", "true", "q1", "Q0", "d1", "1", "0.5", "tag", "#", ">=",
    "baseline", "at 95%", "query_id", "retrieved_ids", "\ufeff", "[" * 3_000,
]  # fmt: skip
ENDINGS = (
    ".run", ".qrels", ".trec", ".json", ".jsonl", ".csv", ".tsv", ".gz", ".parquet", ".arrow",
)  # fmt: skip


def text_of(rng: random.Random, most: int = 12) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(most)))


def value_of(rng: random.Random, depth: int = 0) -> Any:
    leaves: list[Any] = [None, True, 0, 1, -3, 2**70, 0.5, float("nan"), "", "a", "b", b"a", {1}]
    if depth > 2 or rng.random() < 0.5:
        return rng.choice(leaves)
    if rng.random() < 0.5:
        return [value_of(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {text_of(rng, 2): value_of(rng, depth + 1) for _ in range(rng.randrange(4))}


def fuzz_names(rng: random.Random, _: Path) -> None:
    metric(text_of(rng))


def fuzz_relevance(rng: random.Random, _: Path) -> None:
    Relevance(value_of(rng))


def fuzz_rules(rng: random.Random, _: Path) -> None:
    parse_rules(text_of(rng))


def fuzz_compute(rng: random.Random, _: Path) -> None:
    measure = metric(
        rng.choice(["mrr", "ndcg@3", "recall", "ap", "precision@2", "rbp", "f1", "bpref"])
    )
    result = measure.compute(expected_ids=value_of(rng), retrieved_ids=value_of(rng))
    assert 0 <= result.score <= 1, result.score


def fuzz_tables(rng: random.Random, _: Path) -> None:
    import pyarrow as pa

    items = [pa.string(), pa.int64(), pa.float64(), pa.binary(), pa.bool_(), pa.null(), pa.uint64()]
    kinds: list[Callable[[Any], Any]] = [pa.list_, pa.large_list, lambda item: pa.list_(item, 2)]
    values = {"string": "ab", "binary": [b"a", b"b"], "bool": [True, False], "null": [None]}

    def column() -> Any:
        item = rng.choice(items)
        leaves = values.get(str(item), [1, 2, 3])
        rows = [rng.choice([None, [rng.choice(leaves) for _ in range(2)]]) for _ in range(3)]
        return pa.array(rows, rng.choice(kinds)(item))

    names = ["retrieved_ids", "expected_ids", "grades"][: rng.randrange(1, 4)]
    scored = score_table(pa.table({name: column() for name in names}), "ndcg@2")
    assert all(score is None or 0 <= score <= 1 for score in scored["ndcg@2"].to_pylist())


def fuzz_files(rng: random.Random, folder: Path) -> None:
    path = folder / f"file{rng.choice(ENDINGS)}"
    lines = ("".join(text_of(rng, 4) + rng.choice(" \t,") for _ in range(6)) for _ in range(3))
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    rng.choice([read_run, read_qrels])(path)  # type: ignore[operator]


def span_of_otlp(kind: str, span_id: str, parent: str | None, **values: Any) -> dict[str, Any]:
    prefix = "retrieval.documents" if kind == "RETRIEVER" else "reranker.output_documents"
    fields = {"id": "d1", "score": 0.5, "content": "a text", "metadata": '{"file": "a.md"}'}
    named = {
        "openinference.span.kind": kind,
        "input.value": "Who?",
        "metadata": '{"question_id": "q1"}',
        **{f"{prefix}.0.document.{field}": value for field, value in fields.items()},
    }
    kinds: dict[type, str] = {str: "stringValue", float: "doubleValue"}
    attributes = [
        {"key": key, "value": {kinds[type(value)]: value}} for key, value in named.items()
    ]
    times = {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    made = {"traceId": "t1", "spanId": span_id, "name": span_id, "attributes": attributes}
    return {**made, "parentSpanId": parent, **times, **values}


NODE = {"node": {"id_": "d1", "text": "a text", "metadata": {"file": "a.md"}}, "score": 0.5}
MLFLOW = [
    ("root", None, "AGENT", {"source_nodes": [NODE]}),
    ("search", "root", "RETRIEVER", [{"page_content": "a", "metadata": {"id": 1}}]),
    ("rerank", "root", "RERANKER", [NODE]),
]


def span_of_mlflow(span_id: str, parent: str | None, kind: str, outputs: Any) -> dict[str, Any]:
    names = {"trace_id": "t2", "span_id": span_id, "parent_span_id": parent, "name": span_id}
    times = {"start_time_unix_nano": 1, "end_time_unix_nano": 2}
    attributes = {
        "mlflow.spanType": json.dumps(kind),
        "mlflow.spanInputs": '{"query": "Who?"}',
        "mlflow.spanOutputs": json.dumps(outputs),
    }
    return {**names, **times, "status": {"code": "STATUS_CODE_OK"}, "attributes": attributes}


QUERY = [{"key": "query", "value": {"stringValue": "Who?"}}]
CONVENTIONS = {
    "gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": '[{"id": "d1"}]',
}  # fmt: skip
VALID_TRACES: list[Any] = [
    {"resourceSpans": [{"scopeSpans": [{"spans": [
        span_of_otlp("AGENT", "root", None),
        span_of_otlp("RETRIEVER", "search", "root", droppedAttributesCount=0),
        span_of_otlp("OTHER", "events", "root", attributes=QUERY, events=[
            {"name": "RetrievalStartEvent", "attributes": QUERY}]),
        span_of_otlp("OTHER", "conventions", "root", attributes=[
            {"key": key, "value": {"stringValue": text}} for key, text in CONVENTIONS.items()]),
        span_of_otlp("RERANKER", "rerank", "root"),
        span_of_otlp("TOOL", "tool", "root", status={"code": 2}),
        span_of_otlp("RETRIEVER", "failed", "root", status={"code": 2}),
    ]}]}]},
    {
        "info": {"trace_id": "t2", "tags": {"question_id": "q1"}},
        "data": {"spans": [span_of_mlflow(*columns) for columns in MLFLOW]},
    },
    {
        "context": {"trace_id": "t3", "span_id": "s1"},
        "parent_id": None, "span_kind": "RETRIEVER", "status_code": "OK",
        "start_time": "2025-01-01T00:00:00Z",
        "events": [{"name": "exception", "attributes": {"exception.message": "no"}}],
        "attributes": {
            "input.value": "Who?",
            "retrieval.documents": [{"document": {"id": "d1", "content": "a", "score": 0.5}}],
        },
    },
]  # fmt: skip
VALID_DATASETS: list[tuple[str, Any]] = [
    (
        ".json",
        {
            "queries": {"q1": "Who?", "q2": "When?"},
            "relevance": {"q1": {"d1": 2}, "q2": ["d1"]},
            "corpus": {"d1": "a text"},
            "metadata": {"q1": {"tenant": "a"}},
            "expected_texts": {"q1": ["a text"]},
        },
    ),
    (".json", {"queries": {"q1": "Who?"}, "corpus": {"d1": "a"}, "relevant_docs": {"q1": ["d1"]}}),
    (".json", {"examples": [{"query": "Who?", "reference_contexts": ["a"]}]}),
    (".json", {"query": ["Who?", "When?"], "reference_contexts": [["a"], ["b"]]}),
    (".json", {"data": [{"title": "t", "paragraphs": [{"context": "a b", "qas": [
        {"id": "q1", "question": "Who?", "answers": [{"text": "a", "answer_start": 0}]}]}]}]}),
    (".jsonl", {"query_id": "q1", "query": "Who?", "expected_ids": {"d1": 2}, "tenant": "a"}),
    (".jsonl", {"query": "Who?", "expected_ids": [["d1", "d2"], ["d3"]]}),
    (".jsonl", {"query": "Who?", "expected_ids": {"facets": {"f": ["d1"]}, "weights": {"f": 2}}}),
    (".jsonl", {"question": "Who?", "expected_spans": [["d1", 0, 5]]}),
    (".jsonl", {"user_input": "Who?", "reference_contexts": ["a"], "reference": "b"}),
]  # fmt: skip
ODD: list[Any] = [
    *(None, True, 0, 7, -1, 0.5, 2**70, float("nan"), "", "x", [], {}, [1], ["x"], {"a": 1}),
    *("\ud83d", '{"a": "\\ud83d"}', "[" * 3_000, "9" * 5_000, {"stringValue": "x"}, [[]]),
    *(float("inf"), [None], {"values": 3}, {"values": [None, {"intValue": "3"}]}),
    *({"stringValue": 3}, {"intValue": "3"}, {"doubleValue": "NaN"}, {"boolValue": True}),
    *({"stringValue": "a", "intValue": 1}, {"arrayValue": {"values": [{"stringValue": "a"}]}}),
    {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}},
]  # fmt: skip


def leaves(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(leaves, value)) + 1 if isinstance(value, list) else 1


def mutated(rng: random.Random, value: Any) -> Any:
    """What was valid, with one part odd, gone, renamed, twice there, or cut like a long text."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.97:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        (key,) = rng.choices(keys, [leaves(value[key]) for key in keys])
        if rng.random() < 0.1:
            rest = [other for other in keys if other != key]
            if isinstance(value, dict):
                renamed = {text_of(rng, 2): value[key]} if rng.random() < 0.3 else {}
                return {other: value[other] for other in rest} | renamed
            return [value[other] for other in rng.choice([rest, [*keys, key]])]
        changed = mutated(rng, value[key])
        if isinstance(value, dict):
            return {**value, key: changed}
        return [changed if other == key else value[other] for other in keys]
    if isinstance(value, str) and value and rng.random() < 0.6:
        if value[0] in "[{" and rng.random() < 0.7:
            with contextlib.suppress(ValueError, RecursionError):
                return json.dumps(mutated(rng, json.loads(value)), ensure_ascii=rng.random() < 0.5)
        end = rng.randrange(len(value))
        return value[:end] + rng.choice(["", "\ud83d", "\x00", value])
    return rng.choice(ODD)


def fuzz_valid_traces(rng: random.Random, folder: Path) -> None:
    for _ in range(20):
        with contextlib.suppress(RagMetricsError):
            read_mutated_traces(rng, folder)


def read_mutated_traces(rng: random.Random, folder: Path) -> None:
    """What is wrong with a span costs no other line, where it is skipped."""
    lines = rng.choices(VALID_TRACES, k=rng.randrange(1, 4))
    for _ in range(rng.randrange(1, 8)):
        position = rng.randrange(len(lines))
        lines[position] = mutated(rng, lines[position])
    known: list[Any] = [{"question_id": "metadata.question_id"}, {"questions": {"q1": "Who?"}}]
    options: dict[str, Any] = rng.choice([{}, *known, {"match_on": "file"}])
    source: Any = lines
    if rng.random() < 0.5:
        source = folder / "valid.jsonl"
        texts = [json.dumps(line) for line in lines]
        if rng.random() < 0.3:  # a key is repeated, or a line is none
            key = rng.choice(["spanId", "value", "stringValue", "spans"])
            texts[0] = rng.choice([texts[0].replace(f'"{key}":', f'"{key}": 5, "{key}":', 1), "["])
        source.write_text("\n".join(texts), encoding="utf-8")
    run = read_traces(source, **options)
    write_run(run, folder / "read.jsonl")


def fuzz_valid_datasets(rng: random.Random, folder: Path) -> None:
    for _ in range(5):
        with contextlib.suppress(RagMetricsError):
            load_mutated_dataset(rng, folder)


def load_mutated_dataset(rng: random.Random, folder: Path) -> None:
    ending, data = rng.choice(VALID_DATASETS)
    path = folder / f"valid{ending}"
    lines = [data, mutated(rng, mutated(rng, data))]
    text = "\n".join(map(json.dumps, lines if ending == ".jsonl" else lines[1:]))
    path.write_text(text, encoding="utf-8")
    RetrievalDataset.load(path)


QUESTIONS: dict[str, Any] = {
    "queries": {f"q{n}": f"{n}" for n in range(4)},
    "corpus": {},
    "relevant_docs": {},
}
QUESTIONS["relevant_docs"] = {query_id: ["d1"] for query_id in QUESTIONS["queries"]}


def fuzz_sweep_journals(rng: random.Random, folder: Path) -> None:
    """Valid journals of a sweep, of which a row or the head is odd."""
    from llama_index_rag_metrics.decisions.sweeps.sweeping import file_name
    from llama_index_rag_metrics.runtime.journal import _to_line

    def build(k: int) -> Callable[[str], list[str]]:
        return lambda _: ["d0", "d1"][:k]

    journals = folder / f"sweep-{rng.random()}"
    options: dict[str, Any] = {"journal": journals, "workers": 1}
    found = sweep(build, {"k": [1, 2]}, QUESTIONS, "recall", **options)
    path = journals / file_name(rng.choice(["k=1", "k=2"]))
    lines = path.read_bytes().splitlines(keepends=True)
    number = rng.randrange(len(lines))
    row = json.loads(lines[number])
    key = rng.choice([*row, text_of(rng, 2)])
    mutated = {**row, key: value_of(rng)}
    if rng.random() < 0.3:
        del mutated[key]
    try:
        lines[number] = _to_line(mutated)
    except TypeError:  # JSON can't hold it
        return
    path.write_bytes(b"".join(lines))
    again = sweep(build, {"k": [1, 2]}, QUESTIONS, "recall", **options)
    assert not again.failed, again.decision
    runs = [one.results.run for one in again if one.results is not None]
    errors = [ranking.error for run in runs for ranking in run.values()]
    assert not any(errors), errors
    if number and key not in row:  # what isn't read changes nothing
        assert [one.mean("recall") for one in again] == [one.mean("recall") for one in found]
    shutil.rmtree(journals)


OPTIONS = ["-m", "--metric", "--qrels", "--json", "--html", "--columns", "-d"]
WORDS = ["ndcg@3", "map", "json", "csv", "", "1", "-1", "nan", "no-such-file"]


def fuzz_command_line(rng: random.Random, folder: Path) -> None:
    from typer.testing import CliRunner

    from llama_index_rag_metrics.cli import app

    run, qrels = folder / "bm25.run", folder / "qrels.txt"
    run.write_text("q1 Q0 d1 1 0.5 tag\nq1 Q0 d2 2 0.4 tag\n", encoding="utf-8")
    qrels.write_text("q1 0 d2 1\n", encoding="utf-8")
    words = [*OPTIONS, *WORDS, str(run), str(qrels), text_of(rng)]
    arguments = [rng.choice(words) for _ in range(rng.randrange(5))]
    os.chdir(folder)  # a word may become the name of a file
    start = rng.choice([["score", str(run), "--qrels", str(qrels)], ["metrics"], ["gate"]])
    ended = CliRunner().invoke(app, [*start, *arguments])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    assert ended.exit_code in (0, 1, 2), ended.exit_code


TARGETS = [
    fuzz_names, fuzz_relevance, fuzz_rules, fuzz_compute, fuzz_tables, fuzz_files,
    fuzz_valid_traces, fuzz_valid_datasets, fuzz_sweep_journals, fuzz_command_line,
]  # fmt: skip


def fuzz(seconds: float, seed: int) -> tuple[Counter[str], dict[str, str]]:
    """How many inputs each target got, and what went wrong: target and kind, to one example."""
    counts: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    end = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.callback(os.chdir, Path.cwd())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        while time.monotonic() < end:
            seed += 1
            target = TARGETS[seed % len(TARGETS)]
            begin = time.thread_time()  # of this process alone: a busy machine isn't slowness
            kind = ""
            try:
                with contextlib.redirect_stderr(sys.stdout):
                    target(random.Random(seed), Path(folder))
            except RagMetricsError:
                pass
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                kind = f"{type(error).__name__}: {str(error)[:150]}"
            imports = target.__name__ not in counts  # the first input waits for what it needs
            if not imports and time.thread_time() - begin > MOST_SECONDS:
                kind = "too slow"
            counts[target.__name__] += 1
            if kind:
                wrong.setdefault(f"{target.__name__}: {kind[:60]}", f"seed {seed}: {kind}")
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts, wrong = fuzz(arguments.seconds, arguments.seed)
    sys.stdout.write(f"{counts.total():,} inputs: {dict(counts)}\n")
    for name, example in wrong.items():
        sys.stdout.write(f"{name}\n  {example}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
