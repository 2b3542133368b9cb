"""LLMs that say what a test wants: one that completes texts, one that calls functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.llms import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CustomLLM,
    LLMMetadata,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection


class Completing(CustomLLM):
    """Completes a text, as most local LLMs do.

    Attributes:
        answer: what it says to a prompt.
        asked: the prompts.
        window: its context window.
    """

    answer: Callable[[str], str]
    asked: list[str] = []
    window: int = 8_000

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="completing", context_window=self.window)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        self.asked.append(prompt)
        return CompletionResponse(text=self.answer(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


class Calling(FunctionCallingLLM):
    """Calls functions, or says something instead.

    Attributes:
        answer: the arguments of each call, or a text, for a prompt.
        asked: the prompts.
        window: its context window.
    """

    answer: Callable[[str], Sequence[dict[str, Any]] | str]
    asked: list[str] = []
    window: int = 8_000

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="calling",
            is_chat_model=True,
            is_function_calling_model=True,
            context_window=self.window,
        )

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        prompt = str(messages[-1].content)
        self.asked.append(prompt)
        said = self.answer(prompt)
        message = ChatMessage(role="assistant", content=said if isinstance(said, str) else None)
        if not isinstance(said, str):
            (name,) = options["tools"]
            message.additional_kwargs["calls"] = [[name, json.dumps(called)] for called in said]
        return ChatResponse(message=message)

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[Any],
        user_msg: Any = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        return {"messages": chat_history, "tools": [tool.metadata.name for tool in tools]}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        calls = response.message.additional_kwargs.get("calls", [])
        if error_on_no_tool_call and not calls:
            raise ValueError("Expected at least one tool call")
        return [
            ToolSelection(tool_id=str(n), tool_name=name, tool_kwargs=json.loads(arguments))
            for n, (name, arguments) in enumerate(calls)
        ]

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        raise NotImplementedError

    def stream_chat(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def stream_complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def achat(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def acomplete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def astream_chat(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def astream_complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError
