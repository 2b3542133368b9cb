"""What the user names as package.module:name on the command line."""

from __future__ import annotations

import importlib
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.masking import describe_error
from llama_index_rag_metrics.tokens import TokenCounter, Tokenizer


def imported(option: str, spec: str, kinds: str) -> Any:
    """What stands at that name; the current folder is importable.

    Args:
        option: where it was given, for messages.
        spec: "package.module:name".
        kinds: what the option takes, for messages.

    Raises:
        InvalidInput: there is none, or the module can't be imported.
    """
    module, colon, attribute = spec.partition(":")
    if not (module and colon and attribute):
        raise InvalidInput(option, spec, kinds)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise broken(option, spec, "a module that can be imported", error) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise InvalidInput(option, spec, f"something in {module}", f"It has no {name}.")
        found = getattr(found, name)
    return found


def broken(option: str, spec: str, expected: str, error: BaseException) -> InvalidInput:
    """The error of code of the user's that fails; says where."""
    own = (str(Path(__file__)), importlib.__file__)
    places = [
        f" ({Path(frame.filename).name}, line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in own and frame.filename[0] != "<"
    ]
    what = f"{describe_error(error)}{places[-1] if places else ''}"
    return InvalidInput(option, spec, expected, what)


def tokenizer(spec: str | None) -> Tokenizer | None:
    """The tokenizer of that name; None where none is named, which stands for LlamaIndex's.

    Args:
        spec: the name of an encoding of tiktoken, or "package.module:function".

    Raises:
        InvalidInput: there is no such tokenizer.
    """
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
    found = imported(
        "--tokenizer", spec, f"package.module:function, or one of {', '.join(encodings)}"
    )
    TokenCounter(found)  # which refuses what can't be one
    return found
