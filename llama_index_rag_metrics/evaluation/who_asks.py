"""Who asks a question: what programs are told beside its text."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import QueryBundle

from llama_index_rag_metrics.files.conversations import HISTORY

if TYPE_CHECKING:
    pass

# what a program is told beside the question: what was said before, or all of its metadata
Told: TypeAlias = Literal["history", "metadata"]


@dataclass
class Query(QueryBundle):
    """A question as a system is asked it."""

    query_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """The metadata, which whoever gets them may change."""
        return copy.deepcopy(dict(self.metadata))

    @property
    def history(self) -> list[ChatMessage]:
        return [ChatMessage(**message) for message in self.metadata.get(HISTORY, ())]


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:  # of the function itself: a decorator may supply what the one that it wraps needs
        return inspect.signature(function, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - some functions have none, and others compute theirs
        return None
