"""Services and models: keys, scores and questions that don't come."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index_rag_metrics.errors.base import RagMetricsError
from llama_index_rag_metrics.wording import first_of


class MissingKey(RagMetricsError, ValueError):
    """A service needs an API key, and there is none."""

    def __init__(self, scorer: str, variables: Sequence[str]) -> None:
        super().__init__(scorer, tuple(variables))

    def __str__(self) -> str:
        scorer, variables = self.args
        return f"{scorer} needs an API key: pass api_key=..., or set {' or '.join(variables)}."


class ScorerFailed(RagMetricsError):
    """A service or a model that scores texts gave no score."""

    def __init__(
        self, scorer: str, reason: str, request_id: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(scorer, reason, request_id, status)
        self.request_id, self.status = request_id, status

    def __str__(self) -> str:
        name, reason, request_id, _ = self.args
        return f"{name}: {reason}" + (f" (request {request_id})" if request_id else "")


class BadAnswer(ScorerFailed):
    """A service or a model returned something other than scores of the texts."""


class GenerationFailed(RagMetricsError):
    """Asking the LLM for questions failed, for one node or for all."""

    def __init__(self, node_id: str, error: str, failed: int, asked: int) -> None:
        super().__init__(node_id, error, failed, asked)
        self.node_id = node_id

    def __str__(self) -> str:
        node_id, error, failed, asked = self.args
        extent = f"{failed} of {asked} nodes failed; the first is" if failed > 1 else "it failed on"
        return f"generating questions failed: {extent} node {node_id!r}: {error}"


class NoQuestions(RagMetricsError, ValueError):
    """The LLM answered, and nothing in its answers is a question."""

    def __init__(self, nodes: int, refused: Sequence[str]) -> None:
        super().__init__(nodes, tuple(refused))

    def __str__(self) -> str:
        nodes, refused = self.args
        if not nodes:
            return "no questions: none of the nodes has any text. Pass nodes with text."
        said = f" Answers by node: {first_of(refused)}." if refused else " They are empty."
        return (
            f"no questions in the LLM's answers for {nodes} nodes.{said} Questions end with a "
            "question mark or begin like 'Explain …', one per line: ask for that in "
            "qa_generate_prompt_tmpl, or leave it out for the prompt of this package."
        )
