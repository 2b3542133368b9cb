"""What goes wrong while queries are asked."""

from __future__ import annotations

import asyncio

from llama_index_rag_metrics.errors.base import RagMetricsError


class RetrievalFailed(RagMetricsError):
    """A retriever failed on a query, and `raise_on_error=True` ends the run there."""

    def __init__(self, query_id: str, error: str) -> None:
        super().__init__(query_id, error)
        self.query_id = query_id

    def __str__(self) -> str:
        return f"retrieval failed on query {self.args[0]!r}: {self.args[1]}"


class StrayError(RagMetricsError):
    """A call raised something that would end more than itself: StopIteration, SystemExit, etc."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)

    @property
    def stray(self) -> BaseException:
        cause: BaseException = self.args[0]
        return cause

    def __str__(self) -> str:
        if isinstance(self.stray, asyncio.CancelledError):
            return "it was cancelled by code that ran meanwhile, such as one that cancels all tasks"
        return f"{type(self.stray).__name__} was raised, which isn't an error to be handled"


class QueryTimeout(RagMetricsError, TimeoutError):
    """Something took longer than `timeout` allows."""

    def __init__(self, seconds: float, remark: str = "") -> None:
        super().__init__(seconds, remark)
        self.seconds, self.remark = seconds, remark

    def __str__(self) -> str:
        return f"not finished within {self.seconds:g} s (timeout={self.seconds:g}){self.remark}"


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


class WorkersFailed(RagMetricsError):
    """No worker of a cluster could be made ready."""

    def __init__(self, workers: int, reason: str) -> None:
        super().__init__(workers, reason)

    def __str__(self) -> str:
        workers, reason = self.args
        return f"none of {workers} workers is left that could build the retriever: {reason}"


class EveryQueryFailed(UserWarning):
    """The retriever failed on every query: something is wrong with it or with its setup."""

    def __init__(self, error: str, times: int) -> None:
        super().__init__(error, times)

    def __str__(self) -> str:
        error, times = self.args
        return f"retrieval failed on every query, {times} times with: {error}"


class LabelWarning(UserWarning):
    """The labels of a dataset don't match what was retrieved."""


class WorkerWarning(UserWarning):
    """A worker of a cluster is gone for good; the run continues with the others."""
