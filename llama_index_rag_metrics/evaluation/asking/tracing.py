"""Spans of an evaluation's own, so that it shows up in whatever traces LlamaIndex."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.dispatcher import (  # type: ignore[attr-defined]
    active_instrument_tags,
    instrument_tags,
)
from llama_index.core.instrumentation.event_handlers import NullEventHandler
from llama_index.core.instrumentation.span_handlers import NullSpanHandler

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.asking.query import Asked

QUERY_ID = "rag_metrics.query_id"
"""The tag that names the question, on every span and event of it."""

_dispatcher = get_dispatcher(__name__)


async def ask_traced(ask: Callable[[str], Awaitable[Asked]], query_id: str, query: str) -> Asked:
    """Ask a question, in a span and with a tag of its own where anybody listens."""
    if not _is_listening():
        return await ask(query)
    with instrument_tags({**active_instrument_tags.get(), QUERY_ID: query_id}):
        asked: Asked = await EvaluatedQuestion(ask).evaluate(query_id=query_id, query=query)
        return asked


class EvaluatedQuestion:
    """What a question's span is called after."""

    def __init__(self, ask: Callable[[str], Awaitable[Asked]]) -> None:
        self._ask = ask

    @_dispatcher.span  # type: ignore[untyped-decorator, unused-ignore]
    async def evaluate(self, query_id: str, query: str) -> Any:
        """Ask it; the span has the id and the text of the question."""
        return await self._ask(query)


def _is_listening() -> bool:
    """Whether there is anybody for whom a span is worth its cost."""
    root = get_dispatcher()
    return any(not isinstance(handler, NullSpanHandler) for handler in root.span_handlers) or any(
        not isinstance(handler, NullEventHandler) for handler in root.event_handlers
    )
