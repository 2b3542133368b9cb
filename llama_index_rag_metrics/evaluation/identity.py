"""What tells one run from another, for the journal: never an address, and never a secret."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import CodeType
from typing import TYPE_CHECKING, Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor

from llama_index_rag_metrics.evaluation.retrievers.callables import CallableRetriever
from llama_index_rag_metrics.evaluation.retrievers.engines import QueryEngineRetriever
from llama_index_rag_metrics.evaluation.sessions.retriever import SessionRetriever

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.plan import Plan


@dataclass(frozen=True)
class RetrieverIdentity:
    """A retriever and how many nodes it was asked for, where that is known."""

    name: str
    depth: int

    def __str__(self) -> str:
        return f"{self.name}, top {self.depth}"

    @property
    def aspects(self) -> dict[str, str]:
        """What a journal says of it."""
        return {"retriever": self.name, "depth": str(self.depth)}


def fingerprint(
    plan: Plan,
    postprocessors: Sequence[BaseNodePostprocessor],
    retriever: str | RetrieverIdentity,
) -> dict[str, str]:
    """What a run is of, by aspect."""
    dataset, match_on = plan.questions, plan.options.match_on
    counter, permissions = plan.counter, plan.permissions
    return {
        "dataset": dataset.fingerprint(),
        "match_on": match_on if isinstance(match_on, str) else identify_callable(match_on),
        "postprocessors": identify_postprocessors(postprocessors),
        **({"retriever": retriever} if isinstance(retriever, str) else retriever.aspects),
        # journals from before modes counted have none
        **({} if dataset.mode == "text" else {"mode": dataset.mode}),
        **({} if counter is None else {"tokenizer": counter.name}),
        # ids that are forbidden aren't part of what was asked; who decides on nodes is
        **({"forbidden": permissions.name} if permissions and permissions.needs_nodes else {}),
    }


def identify_retriever(retriever: BaseRetriever) -> str:
    """A retriever by its class, its depth, and the function or engine that it asks.

    What an index holds can't be seen: who changes it gives the run another `retriever_id`.
    """
    if isinstance(retriever, CallableRetriever):
        return identify_callable(retriever.function)
    if isinstance(retriever, SessionRetriever):
        return retriever.program.name
    if isinstance(retriever, QueryEngineRetriever):
        engine = retriever.engine
        inner = getattr(engine, "retriever", None)
        asked = f" of {identify_retriever(inner)}" if isinstance(inner, BaseRetriever) else ""
        return type(engine).__qualname__ + asked
    names = ("similarity_top_k", "_similarity_top_k")
    depth = next((getattr(retriever, name) for name in names if hasattr(retriever, name)), None)
    return type(retriever).__qualname__ + (f", top {depth}" if depth is not None else "")


def identify_callable(function: Any) -> str:
    """A function by its name and its code, a callable object by its class."""
    if isinstance(function, functools.partial):
        arguments = _digest(function.args, function.keywords)
        return f"{identify_callable(function.func)} with {arguments}"
    if inspect.ismethod(function):
        owner = type(function.__self__).__qualname__
        return f"{owner}.{identify_callable(function.__func__)}"
    code = getattr(function, "__code__", None)
    if code is None:
        named = getattr(function, "__qualname__", None)
        return str(named or type(function).__qualname__)
    return f"{function.__module__}.{function.__qualname__} {_digest(*_essence(code))}"


def identify_postprocessors(postprocessors: Sequence[BaseNodePostprocessor]) -> str:
    """Postprocessors by their classes and settings."""
    return ", ".join(map(_identify_postprocessor, postprocessors)) or "none"


def _identify_postprocessor(postprocessor: BaseNodePostprocessor) -> str:
    settings = {}
    for field in type(postprocessor).model_fields:
        value = getattr(postprocessor, field)
        if field != "callback_manager":
            settings[field] = identify_callable(value) if callable(value) else value
    return f"{type(postprocessor).__qualname__} {_digest(settings)}"


def _essence(code: CodeType) -> list[object]:
    constants = [
        _essence(constant) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    ]
    return [code.co_code.hex(), code.co_names, constants]


def _digest(*values: object) -> str:
    """A short hash; of what isn't plain data, the class alone counts."""
    text = json.dumps(values, sort_keys=True, default=lambda value: type(value).__qualname__)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
