"""What is asked, and what comes back: a question with its context, an answer with its calls."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.files.conversations import HISTORY

from .capturing import Retrieval

Context: TypeAlias = Literal["history", "metadata"]
"""What a source is told beside the question: what was said before, or all of its metadata."""


@dataclass
class Question(QueryBundle):
    """A question as a system is asked it."""

    query_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def copied_metadata(self) -> dict[str, Any]:
        """The metadata, which whoever gets them may change."""
        return copy.deepcopy(dict(self.metadata))

    @property
    def history(self) -> list[ChatMessage]:
        """What was said before the question."""
        return [ChatMessage(**message) for message in self.metadata.get(HISTORY, ())]


class AnswerFailed(Exception):
    """An error of another process: its words, without keys, and its HTTP status, if it has one."""

    def __init__(self, words: str, status_code: int | None = None) -> None:
        super().__init__(words, status_code)
        self.words, self.status_code = words, status_code

    def __str__(self) -> str:
        return self.words


@dataclass
class Answer:
    """What a system retrieved for a question, or the error.

    Attributes:
        items: nodes or ids, best first.
        calls: the retrievals that make up the answer, where a question could have several.
        seconds: how long it took.
        error: what went wrong; there are no items then.
        is_silent: whether nothing was returned: then what was captured is the answer.
        by_sources: whether the sources of what it said stand for a call that nobody saw.
        notes: what a reader of the results should know.
    """

    items: Sequence[NodeWithScore | str] = ()
    calls: Sequence[Retrieval] | None = None
    seconds: float | None = None
    error: Exception | None = None
    by_sources: bool = False
    is_silent: bool = False
    notes: Sequence[str] = ()


Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]
"""Everything that can be asked. An error is raised, or part of the answer."""
