"""Tokenizers by name on the command line."""

from __future__ import annotations

from functools import partial

from llama_index_rag_metrics.cli.retriever_factories import broken, imported
from llama_index_rag_metrics.tokens import TokenCounter, Tokenizer


def tokenizer_named(spec: str | None) -> Tokenizer | None:
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
    kinds = f"package.module:function, or one of {', '.join(encodings)}"
    tokenizer: Tokenizer = imported(spec, "--tokenizer", kinds)
    TokenCounter(tokenizer)  # which refuses what can't be one
    return tokenizer
