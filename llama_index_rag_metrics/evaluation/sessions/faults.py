"""What can go wrong with a session."""

from __future__ import annotations

from llama_index_rag_metrics.errors import RagMetricsError


class CaptureDamaged(RagMetricsError):
    """Some retrievals couldn't be recorded, so the rest is no basis for scores."""

    def __init__(self, n_faults: int, first: str) -> None:
        super().__init__(n_faults, first)

    def __str__(self) -> str:
        n_faults, first = self.args
        return f"{n_faults} events of retrievals couldn't be recorded; the first: {first}"


class TooManyCalls(RagMetricsError):
    """A question made more retrievals than it may."""

    def __init__(self, max_calls: int) -> None:
        super().__init__(max_calls)

    def __str__(self) -> str:
        return (
            f"stopped at retrieval {self.args[0] + 1}: max_calls={self.args[0]}. Give a higher "
            "max_calls if questions need more."
        )
