"""Language models that follow a script: what an agent does is known before it runs."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

Turn = Sequence[tuple[str, str]]
"""The tools that are called at once, each with its query."""

Script = Mapping[str, Sequence[Turn]]
"""Question to the turns of its conversation; after the last of them comes the answer."""


def question_of(messages: Sequence[ChatMessage]) -> str:
    """What the user asked first."""
    return next(str(message.content) for message in messages if message.role == MessageRole.USER)


class ScriptedFunctions(FunctionCallingLLM):
    """Calls functions by a script."""

    script: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        return "ScriptedFunctions"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        n_done = sum(message.role == MessageRole.ASSISTANT for message in messages)
        turns = self.script[question_of(messages)]
        calls = turns[n_done] if n_done < len(turns) else ()
        text = "" if calls else f"answer to {question_of(messages)}"
        message = ChatMessage(
            role=MessageRole.ASSISTANT,
            content=text,
            additional_kwargs={"calls": [list(call) for call in calls]},
        )
        return ChatResponse(message=message)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.chat(messages, **kwargs)

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        async def stream() -> AsyncGenerator[ChatResponse, None]:
            yield self.chat(messages)

        return stream()

    def _prepare_chat_with_tools(self, tools: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        return {"messages": [*(kwargs.get("chat_history") or ())]}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        calls = response.message.additional_kwargs.get("calls", [])
        return [
            ToolSelection(tool_id=f"{number}", tool_name=tool, tool_kwargs={"input": query})
            for number, (tool, query) in enumerate(calls)
        ]

    def complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    acomplete = stream_complete = astream_complete = stream_chat = complete  # type: ignore[pydantic-field]


class ScriptedReasoning(CustomLLM):
    """Writes what ReAct agents read, by a script: one tool a turn."""

    script: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        return "ScriptedReasoning"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        n_done = sum(str(message.content).startswith("Observation:") for message in messages)
        question = question_of(messages)
        turns = self.script[question]
        if n_done < len(turns):
            ((tool, query),) = turns[n_done]
            text = f'Thought: look.\nAction: {tool}\nAction Input: {{"input": "{query}"}}'
        else:
            text = f"Thought: I can answer.\nAnswer: answer to {question}"
        return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=text))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.chat(messages)

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        async def stream() -> AsyncGenerator[ChatResponse, None]:
            response = self.chat(messages)
            yield ChatResponse(message=response.message, delta=response.message.content)

        return stream()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="an answer")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError
