"""Identities of runs, by which a journal tells one from another; never an address or a secret."""

from __future__ import annotations

import dis
import functools
import inspect
import re
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence, MutableSet
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from logging import Logger
from pathlib import PurePath
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.base import BaseIndex
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.tools import BaseTool, ToolMetadata
from pydantic import BaseModel

from llama_index_rag_metrics.evaluation.source import (
    CallableRetriever,
    QueryEngineRetriever,
    SessionRetriever,
)
from llama_index_rag_metrics.evaluation.who_asks import Told
from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.rankings.fusion import Combine
from llama_index_rag_metrics.runtime import digests

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.evaluator import Plan

# template_vars follow from the template, in another order in every process
_WITHOUT_EFFECT = {"callback_manager", "show_progress", "template_vars", "verbose"}
_CHANGING = (MutableMapping, MutableSequence, MutableSet, Logger)
_VALUES = (Enum, PurePath, np.generic)
_PARTS = (BaseRetriever, BaseQueryEngine, BaseNodePostprocessor, BaseTool, ToolMetadata)
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_DEEPEST = 2  # levels of components in components that are described
_NOT_FOR_PEOPLE = re.compile(r" [0-9a-f]{12}(?![0-9a-f])|[\w.<>]*<locals>\.|\b__main__\.")
"""Digests, and where in a program a function is defined."""


@dataclass(frozen=True)
class RetrieverIdentity:
    """A retriever and how many nodes it was asked for, or a program and how calls are combined."""

    name: str
    depth: int | None = None
    combine: Combine | None = None
    told: Told | None = None

    def __str__(self) -> str:
        return self.name if self.depth is None else f"{self.name}, top {self.depth}"

    @property
    def aspects(self) -> dict[str, str]:
        known = {"retriever": self.name, "depth": self.depth, "combine": self.combine}
        return {aspect: str(value) for aspect, value in known.items() if value is not None}


def with_told(identity: str | RetrieverIdentity, told: Told | None) -> str | RetrieverIdentity:
    if told is None:
        return identity
    whole = RetrieverIdentity(identity) if isinstance(identity, str) else identity
    return replace(whole, told=told)


def with_depth(
    identity: str | RetrieverIdentity | None, source: object, depth: int
) -> str | RetrieverIdentity | None:
    """The identity that a caller gave, of an index with how many nodes it is asked for."""
    if isinstance(source, BaseIndex) and isinstance(identity, str) and identity:
        return RetrieverIdentity(identity, depth)
    return identity


def for_people(identity: str) -> str:
    return _NOT_FOR_PEOPLE.sub("", identity).replace("<lambda>", "a lambda function")


def fingerprint(plan: Plan, retriever: str | RetrieverIdentity) -> dict[str, str]:
    dataset, match_on = plan.questions, plan.options.match_on
    counter, permissions = plan.counter, plan.permissions
    stages = [f"{type(each).__qualname__} {_digest(each)}" for each in plan.postprocessors]
    return {
        "dataset": dataset.fingerprint(),
        "match_on": match_on if isinstance(match_on, str) else identify_callable(match_on),
        "postprocessors": ", ".join(stages) or "none",
        **({"retriever": retriever} if isinstance(retriever, str) else retriever.aspects),
        # journals from before modes counted have none
        **({} if dataset.mode == "text" else {"mode": dataset.mode}),
        **({} if counter is None else {"tokenizer": counter.name}),
        # ids that are forbidden aren't part of what was asked; who decides on nodes is
        **({"forbidden": permissions.name} if permissions and permissions.needs_nodes else {}),
        **_who_asks(plan, None if isinstance(retriever, str) else retriever.told),
    }


def _who_asks(plan: Plan, told: Told | None) -> dict[str, str]:
    """Digests of what the answers depend on beside the questions."""
    metadata = plan.questions.metadata
    known: dict[str, Mapping[str, Any]] = {"filters": plan.filters} if plan.filters else {}
    if told == "metadata":
        known[told] = metadata
    elif told == "history":
        known[told] = {key: row[HISTORY] for key, row in metadata.items() if row.get(HISTORY)}
    return {aspect: digest_of(by_question) for aspect, by_question in known.items()}


def digest_of(value: object) -> str:
    """A digest of data; an object that has no other text than its address has another each time."""
    return digests.short_hash(_written(value))


def _written(value: Any) -> str:
    if type(value) in (str, int, float):
        return repr(value)
    if isinstance(value, BaseModel):  # whose own dump and text leave out and mask fields
        value = {**vars(value), **(value.__pydantic_private__ or {})}
    value = value.tolist() if hasattr(value, "tolist") else value  # an array shows its ends alone
    if isinstance(value, Mapping):
        items = sorted(f"{_written(key)}: {_written(held)}" for key, held in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, AbstractSet):
        return f"{sorted(map(_written, value))}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    with suppress(digests.Opaque):
        return digests.digest(value)
    return repr(value)


def identify_retriever(retriever: BaseRetriever) -> str:
    """A retriever by class, depth, settings, and the function or engine that it asks."""
    if isinstance(retriever, CallableRetriever):
        return identify_callable(retriever.function)
    if isinstance(retriever, SessionRetriever):
        program: Any = retriever.program
        component = getattr(program, "workflow", None) or getattr(program, "engine", None)
        return f"{program.name} {_digest(component)}"
    if isinstance(retriever, QueryEngineRetriever):
        engine = retriever.engine
        inner = getattr(engine, "retriever", None)
        of_inner = f" of {identify_retriever(inner)}" if isinstance(inner, BaseRetriever) else ""
        return f"{type(engine).__qualname__} {_digest(engine)}{of_inner}"
    own_depth = getattr(retriever, "_similarity_top_k", None)
    depth = getattr(retriever, "similarity_top_k", own_depth)
    top = f", top {depth}" if depth is not None else ""
    return f"{type(retriever).__qualname__}{top} {_digest(retriever)}"


def identify_callable(function: Any, depth: int = _DEEPEST) -> str:
    """A function by its name, its code and what it is bound to; an object by its settings."""
    if isinstance(function, functools.partial):
        arguments = _digest([function.args, function.keywords], depth)
        return f"{identify_callable(function.func, depth)} with {arguments}"
    if inspect.ismethod(function):
        owner = type(function.__self__).__qualname__
        settings = _digest(function.__self__, depth)
        return f"{owner}.{identify_callable(function.__func__, depth)} of {settings}"
    if inspect.isfunction(function):
        bound = [function.__defaults__, function.__kwdefaults__, dict(_used(function))]
        essence = digests.short_hash(f"{digests.code_of(function)} {_describe(bound, depth)}")
        return f"{function.__module__}.{function.__qualname__} {essence}"
    if (wrapped := getattr(function, "__wrapped__", None)) is not None:  # by functools.cache
        return identify_callable(wrapped, depth)
    if named := getattr(function, "__qualname__", None):
        return str(named)
    return f"{type(function).__qualname__} {_digest(function, depth)}"


def _digest(value: Any, depth: int = _DEEPEST) -> str:
    return digests.short_hash(_describe(value, depth))


def _describe(value: Any, depth: int) -> str:
    """The parts of a value that don't change while it is used: its class, code and settings."""
    if (written := digests.scalar(value)) is not None:
        return "a random id" if digests.is_random(value) else written
    if isinstance(value, re.Pattern):
        value = value.pattern, value.flags
    if isinstance(value, Mapping):
        items = ((_describe(key, depth), _describe(held, depth)) for key, held in value.items())
        return f"{{{sorted(f'{key}: {held}' for key, held in items)}}}"
    if isinstance(value, AbstractSet):
        return f"{sorted(_describe(item, depth) for item in value)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_describe(item, depth) for item in value)}]"
    if isinstance(value, _VALUES):
        with suppress(digests.Opaque):
            return digests.digest(value)
    kind = value if isinstance(value, type) else type(value)
    if depth < 0:
        return f"{kind}"
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return identify_callable(value, depth - 1)
    is_core = kind.__module__.partition(".")[0] == "llama_index"
    name = f"{kind.__module__}.{kind.__qualname__}" if is_core else _code_of_class(kind)
    if kind is value:
        return name
    settings = {
        name: _describe(held, depth - 1)
        for name, held in _settings(value)
        if name.strip("_") not in _WITHOUT_EFFECT
    }
    return f"{name} {sorted(settings.items())}"


def _code_of_class(kind: type) -> str:
    """Of its methods, with the numbers, texts and user's functions around it that they read."""
    read = {
        name: _describe(held, 0)
        for base in digests.bases_by_the_user(kind)
        for method in _methods(base)
        for name, held in _used(method)
        if digests.scalar(held) is not None or _is_by_user(held)
    }
    return f"{digests.code_of_class(kind)} {sorted(read.items())}"


def _methods(kind: type) -> Iterator[Any]:
    """The functions of a class, also those of its properties."""
    return filter(inspect.isfunction, map(digests.function_of, vars(kind).values()))


def _settings(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object was made with, and what else a user's class keeps and doesn't assign again."""
    kind = type(value)
    if isinstance(value, BaseModel):
        yield from ((name, getattr(value, name)) for name in kind.model_fields)
        return
    try:
        arguments = inspect.signature(kind.__init__).parameters
    except (TypeError, ValueError):
        return
    by_user = digests.is_by_the_user(kind.__module__)
    reassigned = _assigned_later(kind) if by_user else frozenset[str]()
    for name, held in getattr(value, "__dict__", {}).items():
        if isinstance(getattr(kind, name, None), functools.cached_property):
            continue
        is_kept = by_user and f".{name}" not in reassigned and _is_setting(held)
        if _are_parts(held) or (not _is_data(held) and (name.lstrip("_") in arguments or is_kept)):
            yield name, held


def _assigned_later(kind: type) -> frozenset[str]:
    """The attributes that methods assign: a user's, but for __init__, and those of packages."""
    return frozenset().union(
        *(
            _names_in(method.__code__)[1]
            for base in kind.__mro__
            for method in _methods(base)
            if method.__name__ != "__init__" or not digests.is_by_the_user(base.__module__)
        )
    )


def _is_data(held: object) -> bool:
    """Whether a retriever searches this value, rather than has its numbers, such as weights."""
    if isinstance(held, (list, tuple)):
        return not held or not all(isinstance(item, (int, float)) for item in held)
    return isinstance(held, (Mapping, AbstractSet))


def _is_setting(held: object) -> bool:
    """Whether it is a number, a text, or what a user or LlamaIndex made to search with."""
    return (
        digests.scalar(held) is not None
        or isinstance(held, (*_PARTS, *_VALUES))
        or _is_by_user(held)
        or digests.is_by_the_user(type(held).__module__)
    )


def _is_by_user(held: Any) -> bool:
    return inspect.isfunction(held) and digests.is_by_the_user(held.__module__ or "builtins")


def _are_parts(held: Any) -> bool:
    """Whether it is a list, or a dict, of retrievers, engines, postprocessors or tools."""
    if not isinstance(held, (Mapping, list, tuple)) or not held:
        return False
    items = held.values() if isinstance(held, Mapping) else held
    return all(isinstance(item, _PARTS) for item in items)


def _used(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function reads around it, and numbers, texts and a user's functions in that.

    Without what may change meanwhile: lists, sets, dicts, and what the function itself assigns.
    """
    code = function.__code__
    read, assigned = _names_in(code)
    cells = map(digests.content, function.__closure__ or ())
    around = {**function.__globals__, **dict(zip(code.co_freevars, cells, strict=True))}
    for path in read:
        name, *attributes = path.split(".")
        held = around.get(name, function)
        for attribute in attributes:
            held = inspect.getattr_static(held, attribute, function)
        if attributes:
            is_data = digests.scalar(held) is None and not _is_by_user(held)
        else:
            is_data = isinstance(held, _CHANGING)
        is_assigned = assigned & {name, *(f".{attribute}" for attribute in attributes)}
        if held is not function and not is_data and not is_assigned:
            yield path, held


def _names_in(code: CodeType) -> tuple[set[str], set[str]]:
    """The dotted names that code and functions in it read; names and .attributes they assign."""
    read, assigned, path = set[str](), set[str](), ""
    for each in dis.get_instructions(code):
        if each.opname in ("STORE_GLOBAL", "STORE_DEREF"):
            assigned.add(each.argval)
        elif each.opname == "STORE_ATTR":
            assigned.add(f".{each.argval}")
        if each.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            path = each.argval
        else:
            path = f"{path}.{each.argval}" if path and each.opname in _ATTRIBUTE else ""
        read.add(path)
    for within in code.co_consts:
        if isinstance(within, CodeType):
            also_read, also_assigned = _names_in(within)
            read, assigned = read | also_read, assigned | also_assigned
    return read - {""}, assigned
