"""Odd arguments and odd data: refused or made harmless, and in no more than linear time."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from support.retrievers import Scripted

from llama_index_rag_metrics import RetrievalDataset, evaluate, metric
from llama_index_rag_metrics.cli.commands import chosen_metrics, split_names
from llama_index_rag_metrics.decisions.gate.rules import parse_rules
from llama_index_rag_metrics.labels.question_generation import parse
from llama_index_rag_metrics.report.text import escape_markdown
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.runtime.masking import mask

QUERIES = {f"q{number}": f"{number}?" for number in range(6)}
DATASET = RetrievalDataset(QUERIES, {query_id: ["d"] for query_id in QUERIES}, {"d": "a text"})


READERS: dict[str, Callable[[str], Any]] = {
    "metric": metric,
    "names": split_names,
    "options": lambda text: chosen_metrics([text]),
    "rule": lambda text: parse_rules([text]),
    "answer": parse,
    "masked": mask,
    "markdown": escape_markdown,
}
PIECES = [
    " ", ",", "(", "(,", ")", "a", "*", "**a", "*a ", "\n", "<think>", "- ", "1. ", "? ", "?*",
    "?(", "bearer ", "api_key: ", "sk-", "eyJ", "://a", "0", "a_", "<", "`", "| ", "#", "=",
]  # fmt: skip
N = 1_500


def seconds(read: Callable[[str], Any], text: str) -> float:
    """The thread's own time: what other processes take doesn't count."""
    begin = time.thread_time()
    with suppress(RagMetricsError):
        read(text)
    return time.thread_time() - begin


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("reader", READERS)
def test_time_grows_as_the_text_does(reader: str, piece: str) -> None:
    read = READERS[reader]
    read_seconds = {n: seconds(read, f"?{piece * n}!") for n in (1, N)}
    if read_seconds[N] < 0.002:
        # sixteen times as long, it would take 0.5 s if time were quadratic: a limit that is far
        # from both
        assert seconds(read, f"?{piece * (16 * N)}!") < 0.3
        return
    # of sixteen times the text: 16 times the time, where it is linear, and 256 where quadratic
    growth = min(
        seconds(read, f"?{piece * (16 * N)}!") / seconds(read, f"?{piece * N}!") for _ in range(3)
    )
    assert growth < 64


def test_commas_divide_outside_of_brackets() -> None:
    assert split_names("a,b(c,d),,g(h") == ["a", "b(c,d)", "", "g(h"]
    assert split_names("") == [""]


class Bytes(TextNode):
    def get_content(self, metadata_mode: MetadataMode = MetadataMode.NONE) -> str:
        return b"a text"  # type: ignore[return-value]


def test_content_that_is_no_text_is_refused() -> None:
    node = NodeWithScore(node=Bytes(id_="d"), score=1.0)
    with pytest.raises(InvalidInput, match=r"a text from get_content\(\) of node 'd'"):
        evaluate(Scripted({text: [node] for text in QUERIES.values()}), DATASET, ["mrr"])
