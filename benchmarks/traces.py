"""Reading traces: spans a second on one core, and the memory that it takes.

    python benchmarks/traces.py                    # 100,000 spans
    python benchmarks/traces.py --spans 1000000

Each trace has ten spans: an agent's, three of its LLM, two tools, two retrievals of five passages
of 60 words, and the two inner spans that LlamaIndex records with them. The time is the process's
own (CPU), in a process that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

READ = """
import json, resource, sys, time
from llama_index_rag_metrics import read_traces
begun = time.process_time()
run = read_traces(sys.argv[1])
seconds = time.process_time() - begun
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([len(run), seconds, peak]))
"""


def values(**attributes: Any) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", float: "doubleValue"}
    return [
        {"key": key.replace("__", "."), "value": {kinds[type(value)]: value}}
        for key, value in attributes.items()
    ]


def trace_spans(rng: random.Random, corpus: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The spans of one question."""
    trace_id = f"{rng.getrandbits(128):032x}"

    def span(kind: str, parent: str | None, **attributes: Any) -> dict[str, Any]:
        begin = rng.randrange(10**18)
        return {
            "traceId": trace_id,
            "spanId": f"{rng.getrandbits(64):016x}",
            "parentSpanId": parent or "",
            "name": kind.lower(),
            "startTimeUnixNano": str(begin),
            "endTimeUnixNano": str(begin + 10**7),
            "attributes": values(openinference__span__kind=kind, **attributes),
        }

    root = span("AGENT", None, input__value=f"question {trace_id}", output__value="answer " * 20)
    yield root
    for _ in range(2):
        yield span("LLM", root["spanId"], input__value="prompt " * 60, output__value="out " * 40)
        tool = span("TOOL", root["spanId"], tool__name="search", input__value='{"input": "x"}')
        yield tool
        documents: dict[str, Any] = {}
        for index, document_id in enumerate(rng.sample(list(corpus), 5)):
            prefix = f"retrieval.documents.{index}.document"
            documents |= {f"{prefix}.id": document_id, f"{prefix}.score": rng.random()}
            documents |= {
                f"{prefix}.content": corpus[document_id],
                f"{prefix}.metadata": '{"page": 3}',
            }
        retriever = span("RETRIEVER", tool["spanId"], input__value="rewritten", **documents)
        yield retriever
        yield span("RETRIEVER", retriever["spanId"], input__value="{}", output__value="[…]")
    yield span("LLM", root["spanId"], input__value="prompt " * 60, output__value="out " * 40)


def write_traces(path: Path, n_spans: int) -> None:
    """A file of OTLP/JSON with 500 spans a line."""
    rng = random.Random(0)
    words = [f"word{number}" for number in range(2_000)]
    corpus = {f"doc-{number}": " ".join(rng.choices(words, k=60)) for number in range(20_000)}
    with path.open("w", encoding="utf-8") as file:
        for _ in range(n_spans // 500):
            spans = [span for _ in range(50) for span in trace_spans(rng, corpus)]
            request = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
            file.write(json.dumps(request) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traces.jsonl")
        write_traces(path, arguments.spans)
        print(f"{arguments.spans:,} spans, {path.stat().st_size / 1e6:,.0f} MB")
        for _ in range(arguments.rounds):
            done = subprocess.run(
                [sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True
            )
            questions, seconds, peak = json.loads(done.stdout)
            rate, memory = arguments.spans / seconds, peak / 1024
            print(f"{questions:,} questions: {rate:,.0f} spans a second, {memory:,.0f} MiB at most")


if __name__ == "__main__":
    main()
