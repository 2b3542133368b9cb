"""An LLM that answers by a function, and nodes to ask about."""

from collections.abc import Callable
from typing import Any

from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode
from pydantic import PrivateAttr


class ScriptedLLM(CustomLLM):
    """Answers by a function of the prompt, and remembers what it was asked; blocks, as most do."""

    name: str = "scripted"
    _answer: Callable[[str], str] = PrivateAttr()
    _asked: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, answer: Callable[[str], str], **fields: Any) -> None:
        super().__init__(**fields)
        self._answer = answer

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.name)

    @property
    def asked(self) -> list[str]:
        return self._asked

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        self._asked.append(prompt)
        return CompletionResponse(text=self._answer(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


PROMPT = "{num_questions_per_chunk} about {context_str}"


def nodes(n: int = 3) -> list[TextNode]:
    return [TextNode(id_=f"n{number}", text=f"text {number}") for number in range(n)]


def two(prompt: str) -> str:
    """Two questions about the text that the prompt names."""
    about = prompt.removeprefix("2 about ")
    return f"Here are two questions:\n1. What is {about}?\n2. Why {about}?"
