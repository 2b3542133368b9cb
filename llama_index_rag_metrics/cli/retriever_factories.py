"""Retrievers by name on the command line: built in, or made by the user's factory."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.runtime.masking import describe_error, join_first

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.passages import Passages

T = TypeVar("T")

BUILT_IN = ("bm25", "lsa")
"""Functions of `demo.retrievers`."""

_KINDS = f"{', '.join(BUILT_IN)} or package.module:factory"


def specs_by_name(specs: Sequence[str]) -> dict[str, str]:
    """Names for reports to spellings; where two factories have the same name, their paths."""
    short = [spec.rpartition(":")[2] or spec for spec in specs]
    names: dict[str, str] = {}
    for name, spec in zip(short, specs, strict=True):
        if spec in names.values():
            raise InvalidInput("--retriever", spec, "each retriever once")
        names[name if short.count(name) == 1 else spec] = spec
    return names


def find(spec: str) -> Any:
    """A retriever by name, or what "package.module:factory" names."""
    if spec in BUILT_IN:
        return getattr(importlib.import_module("llama_index_rag_metrics.demo.retrievers"), spec)
    return imported(spec, "--retriever", _KINDS)


def imported(spec: str, option: str, kinds: str = "package.module:factory") -> Any:
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
            there = f"{_called(target)} has no function `{name}` ({_functions_of(target)})"
            raise InvalidInput(option, spec, sentence=f"{option}: {there}.")
        target = getattr(target, name)
    return target


def _called(holder: Any) -> str:
    """What a person calls a module or a class: "mods.py"."""
    is_file = inspect.ismodule(holder) and not hasattr(holder, "__path__")
    file = getattr(holder, "__file__", None) if is_file else None
    return Path(file).name if file else getattr(holder, "__name__", type(holder).__name__)


def _functions_of(holder: Any) -> str:
    """The functions and classes that a module defines, or else the ones that it imported."""
    public = {
        name: value
        for name, value in getattr(holder, "__dict__", {}).items()
        if not name.startswith("_") and callable(value)
    }
    module = getattr(holder, "__name__", None)
    own = [name for name, value in public.items() if getattr(value, "__module__", "") == module]
    names = own or list(public)
    return f"it has: {join_first(names, 8)}" if names else "it has none"


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
    offered: dict[str, Callable[[], Any]] = {
        "dataset": lambda: dataset,
        "nodes": dataset.to_nodes,
        "similarity_top_k": lambda: top_k,
    }
    wanted: Mapping[str, inspect.Parameter] = {}
    with suppress(ValueError):  # some functions in C have no signature
        wanted = inspect.signature(factory).parameters
    if unknown := [
        name for name, parameter in wanted.items() if name not in offered and _required(parameter)
    ]:
        raise InvalidInput(
            option,
            spec,
            "a factory that takes any of dataset, nodes and similarity_top_k",
            f"It needs {', '.join(unknown)}."
            + (" Call that similarity_top_k." if {"top_k", "k"} & set(unknown) else ""),
        )
    arguments = {name: offered[name]() for name in wanted if name in offered}
    if arguments.get("nodes") == [] and _required(wanted["nodes"]):
        remedy = "Give the dataset a corpus, or name a factory that doesn't take nodes."
        raise InvalidInput(option, spec, "a dataset with the texts of passages", remedy)
    try:
        return use(factory(**arguments))
    except (MissingExtra, InvalidInput):
        raise
    except (Exception, SystemExit) as error:
        raise broken(option, spec, "a factory that works", error) from error


def broken(option: str, spec: str, expected: str, error: BaseException) -> InvalidInput:
    """The error of a factory or a module that raised one: what, and in which line of it."""
    places = [
        f" ({Path(frame.filename).name}, line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in (__file__, importlib.__file__) and frame.filename[0] != "<"
    ]
    what = f"{describe_error(error)}{places[-1] if places else ''}"
    return InvalidInput(option, spec, expected, what)


def _required(parameter: inspect.Parameter) -> bool:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variadic


def tokenizer_named(spec: str | None) -> Tokenizer | None:
    """The tokenizer of an encoding of tiktoken, or of "package.module:function"."""
    if spec is None:
        return None
    import tiktoken

    encodings = tiktoken.list_encoding_names()
    if spec in encodings:
        try:
            # as LlamaIndex does: a text that looks like a special token isn't an error
            return partial(tiktoken.get_encoding(spec).encode, allowed_special="all")
        except Exception as error:  # it may have to be downloaded
            raise broken("--tokenizer", spec, "an encoding that can be loaded", error) from error
    kinds = f"package.module:function, or one of {', '.join(encodings)}"
    tokenizer: Tokenizer = imported(spec, "--tokenizer", kinds)
    TokenCounter(tokenizer)  # which refuses what can't be one
    return tokenizer


_TOP_K = 10


def passages_of(
    argument: str, spec: str | None, dataset: RetrievalDataset, match_on: str = "node_id"
) -> Passages:
    """The passages of a path, of what "package.module:factory" makes, or else of the dataset."""
    from llama_index_rag_metrics.evaluation.passages import Passages

    if spec is None:
        return Passages.of(dataset, match_on)
    if ":" not in spec or Path(spec).exists():
        return Passages.of(spec, match_on)
    factory = imported(spec, argument, "a path that is there, or package.module:factory")
    return built(argument, spec, factory, dataset, _TOP_K, partial(Passages.of, match_on=match_on))
