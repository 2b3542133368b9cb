"""The journal of question generation: what an LLM answered, so that nothing is paid for twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.journal import JsonLinesJournal

_FORMAT = "llama-index-rag-metrics questions, version 2"


class AnswerJournal(JsonLinesJournal[tuple[str, str]]):
    """The answers by node id.

    Args:
        path: the file; it and its folder are made where they don't exist.
        fingerprint: what the answers are of, by aspect.

    Attributes:
        answers: node id to answer, of the nodes that were finished before.
    """

    def __init__(self, path: str | Path, fingerprint: Mapping[str, str]) -> None:
        super().__init__(path, _FORMAT, fingerprint, _answer)
        self.answers = dict(self.rows)

    def record(self, node_id: str, answer: str) -> None:
        """Keep the answer on a node."""
        self.write({"node_id": node_id, "answer": answer})


def _answer(row: Mapping[str, Any]) -> tuple[str, str]:
    node_id, answer = row["node_id"], row["answer"]
    if not (isinstance(node_id, str) and isinstance(answer, str)):
        raise TypeError(row)
    return node_id, answer
