"""What can be evaluated: a retriever, an index, a query engine or a callable."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.multi_modal.base import MultiModalVectorStoreIndex
from llama_index.core.schema import TransformComponent
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Workflow

from llama_index_rag_metrics.evaluation.retrieved.nodes import RetrieverOutput
from llama_index_rag_metrics.evaluation.retrievers.callables import (
    AsyncCallableRetriever,
    CallableRetriever,
    QueryEngineRetriever,
)
from llama_index_rag_metrics.evaluation.sessions.programs import as_program
from llama_index_rag_metrics.evaluation.sessions.session_retriever import SessionRetriever
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.runtime.errors import InvalidInput, unawaited

Source: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine | BaseChatEngine | Workflow"
    " | Callable[[str], RetrieverOutput] | Callable[[str], Awaitable[Any]]"
)
"""What `evaluate` takes."""

_ASKED_BY: dict[type, tuple[str, ...]] = {
    BaseQueryEngine: ("query",),
    BaseChatEngine: ("chat", "achat", "stream_chat", "astream_chat"),
    Workflow: ("run",),
}
"""The methods that ask a program; what else a class of the user's has may well retrieve."""

_LEAST_DEPTH = 10
"""How many nodes a metric without a cutoff wants to see, at least."""


def retrieval_depth(metrics: Iterable[BaseRetrievalMetric]) -> int:
    """How many nodes an index is asked for, wherever it is evaluated.

    As many as the largest cutoff; a metric without one never gets fewer than 10.
    """
    cutoffs = [getattr(metric, "k", None) or _LEAST_DEPTH for metric in metrics]
    return max(cutoffs, default=_LEAST_DEPTH)


def as_retriever(source: Source, similarity_top_k: int | None = None) -> BaseRetriever:
    """A retriever that asks the source.

    Args:
        source: a retriever is returned unchanged; an index gives its default retriever; a query
            engine retrieves, its own postprocessors included; a callable, synchronous or not, maps
            the query text to nodes or ids, best first. Agents, workflows, chat engines, query
            engines that can't retrieve without answering, and asynchronous functions that return
            something else than nodes are asked the question, and their retrievals are captured.
        similarity_top_k: the depth of an index's retriever; LlamaIndex's default, often 2, if None.
    """
    if isinstance(source, (type, BaseTool, TransformComponent)) or _answers(source):
        raise _refusal(source)
    if (program := as_program(source)) is not None:
        return SessionRetriever(program)
    if isinstance(source, BaseRetriever):
        return source
    if isinstance(source, BaseIndex):
        names = ["similarity_top_k"]
        if isinstance(source, MultiModalVectorStoreIndex):
            names.append("image_similarity_top_k")
        depth = {} if similarity_top_k is None else dict.fromkeys(names, similarity_top_k)
        return source.as_retriever(**depth)
    if isinstance(source, BaseQueryEngine):
        return QueryEngineRetriever(source)
    function: Any = source
    if callable(function):
        _check_signature(function)
    if inspect.isasyncgenfunction(_function(function)):
        raise _refusal(function)
    if inspect.iscoroutinefunction(_function(function)):
        return AsyncCallableRetriever(function)
    if callable(function):
        return CallableRetriever(function)
    raise _refusal(source)


def _refusal(source: Any) -> InvalidInput:
    """The error for what can't be evaluated, with a remedy; its own repr might hold a key."""
    expected = "a retriever, an index, a query engine, an agent, a workflow or a callable"
    if isinstance(source, type):
        remedy = f"Give an instance of it, built as {source.__name__}(...)."
        return InvalidInput("retriever", source, expected, remedy)
    if _answers(source):
        remedy = f"Give the {type(source.__self__).__name__} itself."
        return InvalidInput("retriever", f"its {source.__name__} method", expected, remedy)
    if inspect.isasyncgenfunction(_function(source)):
        remedy = (
            "Collect what it yields: async def ask(question): "
            "return ''.join([part async for part in agent(question)])."
        )
        return InvalidInput("retriever", "an asynchronous generator", expected, remedy)
    remedy = unawaited(source)
    if isinstance(source, RetrievalDataset):
        remedy = "The retriever comes first: evaluate(retriever, dataset)."
    elif isinstance(source, (Mapping, list, tuple)):
        remedy = "Evaluate one at a time; compare() takes the results, by name."
    elif isinstance(source, BaseTool):
        remedy = "Give the retriever or query engine that the tool was made from."
    elif hasattr(source, "run"):
        remedy = (
            "Give an asynchronous function that runs it with the question: what is retrieved "
            "meanwhile is captured."
        )
    shown = source if source is None or isinstance(source, (int, float)) else type(source)
    return InvalidInput("retriever", shown, expected, remedy)


def _check_signature(function: Callable[..., Any]) -> None:
    """Refuse a function that can't be called with a question, as far as that is known."""
    try:  # of the function itself: a decorator may supply what the one that it wraps needs
        signature = inspect.signature(function, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - some functions have none, and others compute theirs
        return
    try:
        signature.bind("")
    except TypeError:
        expected = "a function that can be called with the question alone"
        remedy = "Bind its other arguments: lambda question: search(question, k)."
        shown = f"a function of {', '.join(signature.parameters)}"  # a default might be a key
        raise InvalidInput("retriever", shown, expected, remedy) from None


def _answers(source: Any) -> bool:
    """Whether it is a program's own method for questions, which keeps no conversation apart."""
    program, method = getattr(source, "__self__", None), getattr(source, "__name__", "")
    return any(isinstance(program, kind) and method in names for kind, names in _ASKED_BY.items())


def _function(source: Any) -> Any:
    """The function inside `functools.partial` and callable objects."""
    while isinstance(source, partial):
        source = source.func
    return source if inspect.isroutine(source) else getattr(source, "__call__", None)  # noqa: B004
