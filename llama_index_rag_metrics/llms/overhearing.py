"""What an LLM really answered, and what it took, where LlamaIndex passes on the result only.

`structured_predict` gives an answer or an error; the text and the tokens are in LlamaIndex's events
alone. One handler serves all; it is attached while anybody listens, and finds who does in the
context, which follows the code through tasks and threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMCompletionEndEvent

_TOKENS_IN = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_TOKENS_OUT = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
"""OpenAI and its like, Anthropic, Google, Ollama."""


@dataclass
class Heard:
    """The answers of an LLM while somebody listened, in order."""

    responses: list[ChatResponse | CompletionResponse] = field(default_factory=list)

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens read and written, as far as the LLM says."""
        both = [_tokens(response) for response in self.responses]
        return sum(read for read, _ in both), sum(written for _, written in both)


@contextmanager
def overhearing() -> Iterator[Heard]:
    """Hear what LLMs answer in this block, and in threads and tasks that it begins."""
    heard = Heard()
    _attach(1)
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)
        _attach(-1)


_listener: ContextVar[Heard | None] = ContextVar("rag_metrics_overhearing", default=None)
_lock = threading.Lock()
_listening = 0


class _Handler(BaseEventHandler):
    @classmethod
    def class_name(cls) -> str:
        return "RagMetricsOverhearing"

    def handle(self, event: Any, **_: Any) -> None:
        heard = _listener.get()
        if heard is None or not isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            return
        # a completion that is made of a chat, or the other way round, ends both
        if event.response is not None and not (
            heard.responses and _is_inner(heard.responses[-1], event.response)
        ):
            heard.responses.append(event.response)


_handler = _Handler()


def _attach(change: int) -> None:
    global _listening
    with _lock:
        before, _listening = _listening, _listening + change
        root = get_dispatcher()
        if not before:
            root.add_event_handler(_handler)
        elif not _listening:
            # others may be walking along the list
            kept = [handler for handler in root.event_handlers if handler is not _handler]
            root.event_handlers = kept


def _is_inner(
    last: ChatResponse | CompletionResponse, new: ChatResponse | CompletionResponse
) -> bool:
    return type(last) is not type(new) and last.raw is not None and last.raw is new.raw


def _tokens(response: ChatResponse | CompletionResponse) -> tuple[int, int]:
    raw = response.raw
    usage = _member(raw, "usage") or _member(raw, "usage_metadata")
    for holder in (usage, response.additional_kwargs, raw):
        read, written = _first(holder, _TOKENS_IN), _first(holder, _TOKENS_OUT)
        if read or written:
            return read, written
    return 0, 0


def _first(holder: Any, names: tuple[str, ...]) -> int:
    counts = (_member(holder, name) for name in names)
    return next((count for count in counts if type(count) is int and count > 0), 0)


def _member(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
