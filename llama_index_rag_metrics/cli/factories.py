"""Objects by name: retrievers, passages, LLMs and tokenizers, built in or made by a function."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.runtime.masking import describe_error, join_first

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.passages import Passages

T = TypeVar("T")

BUILT_IN = ("bm25", "lsa")  # functions of `demo.retrievers`
_FACTORY = "package.module:factory"
_FACTORY_ARGUMENTS = "a factory that takes any of dataset, nodes and similarity_top_k"
_TOP_K = 10


def find_retriever(spec: str) -> Any:
    """A retriever that is built in, or what "package.module:factory" names."""
    if spec in BUILT_IN:
        return getattr(importlib.import_module("llama_index_rag_metrics.demo.retrievers"), spec)
    return imported(spec, "--retriever", f"{', '.join(BUILT_IN)} or {_FACTORY}")


def imported(spec: str, option: str, kinds: str = _FACTORY) -> Any:
    """What "package.module:name" names; the current folder is importable."""
    module, colon, attribute = spec.partition(":")
    if not (module and colon and attribute):
        raise InvalidInput(option, spec, kinds)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        target: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise broken(option, spec, "a module that can be imported", error) from error
    for name in attribute.split("."):
        if not hasattr(target, name):
            file = getattr(target, "__file__", None)
            called = Path(file).name if file else module
            functions = _functions_of(target)
            there = f"it has: {join_first(functions, 8)}" if functions else "it has none"
            sentence = f"{option}: {called} has no function `{name}` ({there})."
            raise InvalidInput(option, spec, sentence=sentence)
        target = getattr(target, name)
    return target


def _functions_of(module: Any) -> list[str]:
    """The functions and classes that a module defines."""
    names = []
    for name, value in vars(module).items():
        is_own = getattr(value, "__module__", "") == getattr(module, "__name__", "")
        if callable(value) and is_own and not name.startswith("_"):
            names.append(name)
    return names


def built(
    option: str,
    spec: str,
    factory: Any,
    dataset: RetrievalDataset,
    top_k: int,
    use: Callable[[Any], T],
) -> T:
    """What `use` makes of a factory's result; it is called with those arguments that it takes."""
    if not callable(factory):
        return use(factory)
    offered = {"dataset": dataset, "similarity_top_k": top_k}
    parameters: Mapping[str, inspect.Parameter] = {}
    with suppress(ValueError):  # some functions in C have no signature
        parameters = inspect.signature(factory).parameters
    required = [name for name, parameter in parameters.items() if _is_required(parameter)]
    if unknown := [name for name in required if name not in {*offered, "nodes"}]:
        remedy = f"It needs {', '.join(unknown)}."
        if {"top_k", "k"} & set(unknown):
            remedy += " Call that similarity_top_k."
        raise InvalidInput(option, spec, _FACTORY_ARGUMENTS, remedy)
    if "nodes" in parameters:
        offered["nodes"] = dataset.to_nodes()
    if "nodes" in required and not offered["nodes"]:
        remedy = "Give the dataset a corpus, or name a factory that doesn't take nodes."
        raise InvalidInput(option, spec, "a dataset with the texts of passages", remedy)
    arguments = {name: value for name, value in offered.items() if name in parameters}
    try:
        return use(factory(**arguments))
    except (MissingExtra, InvalidInput):
        raise
    except (Exception, SystemExit) as error:
        raise broken(option, spec, "a factory that works", error) from error


def broken(option: str, spec: str, expected: str, error: BaseException) -> InvalidInput:
    """The error of a factory or a module that raised one: what, and in which line of it."""
    message = describe_error(error)
    ours = (__file__, importlib.__file__)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename not in ours and frame.filename[0] != "<"]
    if theirs:
        message = f"{message} ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})"
    return InvalidInput(option, spec, expected, message)


def _is_required(parameter: inspect.Parameter) -> bool:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variadic


def passages_of(
    argument: str, spec: str | None, dataset: RetrievalDataset, match_on: str = "node_id"
) -> Passages:
    """The passages of a path, of what "package.module:factory" makes, or else of the dataset."""
    from llama_index_rag_metrics.evaluation.passages import Passages

    if spec is None:
        return Passages.of(dataset, match_on)
    if ":" not in spec or Path(spec).exists():
        return Passages.of(spec, match_on)
    factory = imported(spec, argument, f"a path that is there, or {_FACTORY}")
    return built(argument, spec, factory, dataset, _TOP_K, partial(Passages.of, match_on=match_on))
