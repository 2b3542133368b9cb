"""The models of LlamaIndex's `Settings`, where a caller gave none."""

from __future__ import annotations

import re
from typing import Any, Literal

from llama_index_rag_metrics.runtime.errors import InvalidInput


def model_of_settings(kind: Literal["llm", "embed_model"], wanted_by: str) -> Any:
    """`Settings.llm` or `Settings.embed_model`, or an error that names what needs it."""
    from llama_index.core import Settings

    try:
        return getattr(Settings, kind)
    except (ImportError, ValueError) as error:
        lines = (line.strip() for line in str(error).splitlines())
        said = next((line for line in lines if re.search(r"\w", line)), type(error).__name__)
        reason = " ".join(said.split()).rstrip(".:")
        model = "an LLM" if kind == "llm" else "an embedding model"
        raise InvalidInput(
            f"{kind} of {wanted_by}",
            None,
            sentence=f"{wanted_by} needs {model}, and LlamaIndex's default fails: {reason}.",
            remedy=f"Pass {kind}=..., or set Settings.{kind}.",
            lacks=kind,
        ) from error
