"""Arguments that can't be used, and what is missing to use them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import urlsplit
from urllib.request import url2pathname

from llama_index_rag_metrics.errors.base import RagMetricsError
from llama_index_rag_metrics.wording import shorten

_DISTRIBUTION = "llama-index-rag-metrics"
_CREDENTIALS = re.compile(r"(?<=://)(?!git@)[^/]*(?=@)|(?<=\?).*")


class InvalidInput(RagMetricsError, ValueError):
    """An argument can't be used: the message has its name, its value, and what was expected."""

    def __init__(self, argument: str, value: object, expected: str, remedy: str = "") -> None:
        super().__init__(argument, value, expected, remedy)
        self.argument = argument
        self.value = value

    def __str__(self) -> str:
        argument, value, expected, remedy = self.args
        sentence = f"{argument}: expected {expected}, got {shorten(value)}."
        return f"{sentence} {remedy}" if remedy else sentence


class UnusableAnswer(InvalidInput):
    """What a retriever returned can't be evaluated, on any query: ends a run without answers."""


class NotJudged(RagMetricsError, ValueError):
    """The metric needs relevance and none was given."""

    def __str__(self) -> str:
        return (
            "expected_ids is None: the query is unjudged, and this metric needs relevance. "
            "Pass the relevant ids, a {id: grade} mapping or a Relevance."
        )


class NothingRelevant(RagMetricsError, ValueError):
    """There are judgements, but none has a grade above 0."""

    def __str__(self) -> str:
        return (
            "expected_ids holds nothing relevant (it is empty, or every grade is 0 or less), "
            "so the metric has no value. Score a dataset instead: it leaves such queries out of "
            "the means and counts them (no_relevant='exclude')."
        )


class NoRetrieval(RagMetricsError, ValueError):
    """No retrieval was given, which isn't the same as an empty one."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument)
        self.argument = argument

    def __str__(self) -> str:
        return f"{self.argument} is None: pass what was retrieved; an empty list is fine, scored 0."


class IdTypeMismatch(RagMetricsError, TypeError, ValueError):
    """Expected and retrieved ids have different types, so they could never match."""

    def __init__(self, type_names: Iterable[str]) -> None:
        super().__init__(tuple(sorted(type_names)))

    def __str__(self) -> str:
        types = ", ".join(self.args[0])
        return (
            f"expected_ids and retrieved_ids mix ids of different types ({types}); "
            "ids compare exactly, so these can never match. Convert one side, e.g. with str()."
        )


class MissingExtra(RagMetricsError, ImportError):
    """An optional dependency isn't installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(purpose, extra)

    def __str__(self) -> str:
        purpose, extra = self.args
        return f"{purpose} needs an extra: python -m pip install {_requirement(extra)}"


def _requirement(extra: str) -> str:
    """What pip takes: the folder, file or address of this installation (PEP 610), or the name."""
    name = f"{_DISTRIBUTION}[{extra}]"
    try:
        origin = json.loads(distribution(_DISTRIBUTION).read_text("direct_url.json") or "")
        url, vcs = origin["url"], origin.get("vcs_info")
        if url.startswith("file:") and not vcs:
            path = url2pathname(urlsplit(url).path)
            editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
            return f"{editable}'{path}[{extra}]'"
        address = _CREDENTIALS.sub("***", url)
        if vcs:
            revision = vcs.get("requested_revision") or vcs["commit_id"]
            address = f"{vcs['vcs']}+{address}@{revision}"
        if "subdirectory" in origin:
            address += f"#subdirectory={origin['subdirectory']}"
    except (PackageNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return f"'{name}'"
    return f"'{name} @ {address}'"
