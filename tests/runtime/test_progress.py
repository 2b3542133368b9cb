"""Progress bars where people see them: in a Jupyter kernel, and on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.kernels import printed, run_cells

pytestmark = pytest.mark.servers

VERBOSE = """
from llama_index.core.retrievers import BaseRetriever, RecursiveRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index_rag_metrics import evaluate

class Fixed(BaseRetriever):
    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(id_="d1", text="a <b>passage</b>"), score=1.0)]

retriever = RecursiveRetriever("root", retriever_dict={"root": Fixed()}, verbose=True)
dataset = {
    "queries": {"q1": "why?", "q2": "how?", "q3": "who?"},
    "corpus": {},
    "relevant_docs": {"q1": ["d1"], "q2": ["d1"], "q3": ["d1"]},
}
results = evaluate(retriever, dataset, ["mrr"], show_progress=True, name="the [bold] retriever")
"""
SHOWN = "print('failed', len(results.run.failed), 'mrr', results.scores.means['mrr'])"


@pytest.mark.parametrize(
    "setting", ["", "import sys; sys.modules['ipywidgets'] = None"], ids=["widgets", "no widgets"]
)
def test_a_notebook_shows_one_bar_and_what_the_retriever_prints(setting: str) -> None:
    first, second = run_cells(f"{setting}\n{VERBOSE}", SHOWN)
    bars = [output["data"] for output in first if output["output_type"] == "display_data"]

    assert printed(second) == "failed 0 mrr 1.0\n"
    assert len(bars) == 1
    assert "the [bold] retriever" in bars[0]["text/plain"]
    assert "3/3" in bars[0]["text/plain"]
    assert "3/3" in bars[0]["text/html"]
    assert printed(first).count("Retrieving text node: a <b>passage</b>") == 3
    assert printed(first, "stderr") == ""


def test_the_bar_of_generated_questions_is_the_same_in_a_notebook() -> None:
    cell = """
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import TextNode
    from llama_index_rag_metrics import generate_question_context_pairs
    nodes = [TextNode(id_=f"n{i}", text=f"What is {i}?") for i in range(2)]
    made = generate_question_context_pairs(
        nodes, MockLLM(), "{context_str}\\n{num_questions_per_chunk}", show_progress=True
    )
    """
    (outputs,) = run_cells(textwrap.dedent(cell))
    (bar,) = [output["data"] for output in outputs if output["output_type"] == "display_data"]
    assert "generating questions" in bar["text/plain"]
    assert "2/2" in bar["text/plain"]


def test_a_bar_in_a_notebook_escapes_what_it_names() -> None:
    cell = """
    from llama_index_rag_metrics.runtime.progress import progress
    with progress("<script>x</script>", 2, 0, True) as advance:
        advance(failed=True)
    """
    (outputs,) = run_cells(textwrap.dedent(cell))
    (bar,) = [output["data"] for output in outputs if output["output_type"] == "display_data"]
    assert "<script>" not in bar["text/html"]
    assert "1/2" in bar["text/html"]
    assert "1 failed" in bar["text/html"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_shows_what_the_retriever_prints_as_it_printed_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{VERBOSE}\n{SHOWN}\n", encoding="utf-8")
    shown = in_terminal([sys.executable, str(script)])

    assert "failed 0 mrr 1.0" in shown
    assert "3/3" in shown
    # LlamaIndex's colours come out as they are: begun by one sequence, ended by another
    assert shown.count("\x1b[1;3;34mRetrieving with query id None: ") == 3
    assert "[[0m0m" not in shown


def in_terminal(command: list[str]) -> str:
    """What a command shows on a terminal that is its standard output and error."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            parts.append(part)
        assert process.wait(60) == 0
    os.close(ours)
    return b"".join(parts).decode()
