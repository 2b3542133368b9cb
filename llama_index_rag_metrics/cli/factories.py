"""Objects by name: retrievers, passages, LLMs, built in or made by a function."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.runtime.masking import describe_error

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.passages import Passages
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

BUILT_IN = ("bm25", "lsa")  # functions of `demo.retrievers`
_FACTORY = "package.module:factory"
_ARGUMENTS = "a factory that works with any of dataset, nodes and similarity_top_k"
_TOP_K = 10


def retriever_of(spec: str, dataset: RetrievalDataset, top_k: int) -> Any:
    name = spec
    if spec in BUILT_IN:
        name = f"llama_index_rag_metrics.demo.retrievers:{spec}"
    retriever = built("--retriever", name, dataset, top_k, f"{', '.join(BUILT_IN)} or {_FACTORY}")
    if retriever is None:
        raise InvalidInput("--retriever", spec, "what makes a retriever", "It returned None.")
    return retriever


def built(
    option: str, spec: str, dataset: RetrievalDataset, top_k: int = _TOP_K, kinds: str = _FACTORY
) -> Any:
    """Return what "package.module:factory" makes of the arguments it takes; or the object there."""
    module, colon, attribute = spec.partition(":")
    if not (module and colon and attribute):
        raise InvalidInput(option, spec, kinds)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with _blamed(option, spec, "a module that can be imported, with that name in it"):
        factory = attrgetter(attribute)(importlib.import_module(module))
    if not callable(factory):
        return factory
    with _blamed(option, spec, _ARGUMENTS):
        parameters = inspect.signature(factory).parameters
        offered: dict[str, Any] = {"dataset": dataset, "similarity_top_k": top_k}
        if "nodes" in parameters:
            offered["nodes"] = dataset.to_nodes()
        return factory(**{name: offered[name] for name in offered if name in parameters})


def passages_of(
    argument: str, spec: str | None, dataset: RetrievalDataset, match_on: str = "node_id"
) -> Passages:
    """The passages of a path, of what "package.module:factory" makes, or else of the dataset."""
    from llama_index_rag_metrics.evaluation.passages import Passages

    source: Any = dataset if spec is None else spec
    if spec is not None and ":" in spec and not Path(spec).exists():
        source = built(argument, spec, dataset, kinds=f"a path that is there, or {_FACTORY}")
    with _blamed(argument, str(spec), "passages that can be listed"):
        return Passages.of(source, match_on)


@contextmanager
def _blamed(option: str, spec: str, expected: str) -> Iterator[None]:
    """Turn an error of other people's code into one that names the option and their line."""
    try:
        yield
    except RagMetricsError:
        raise
    except (Exception, SystemExit) as error:
        line = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if Path.cwd() in Path(frame.filename).parents:
                line = f" ({Path(frame.filename).name}, line {frame.lineno})"
        raise InvalidInput(option, spec, expected, describe_error(error) + line) from error
