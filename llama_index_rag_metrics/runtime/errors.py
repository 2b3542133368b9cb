"""The errors and warnings of this package.

RagMetricsError
├── InvalidInput ─ UnusableAnswer            an argument, or what a retriever returned
├── NotJudged, NothingRelevant, NoRetrieval, IdTypeMismatch    a query can't be scored
├── UnknownName ─ UnknownMetric ─ NotScored, UnknownParameter
├── DuplicateMetric, MissingExtra, MissingKey
├── FileFormatError, UnknownFormat                             a file can't be read
├── JournalMismatch, JournalDamaged, JournalBusy
├── RetrievalFailed, QueryTimeout, StrayError, CaptureDamaged, WorkersFailed
├── ScorerFailed, GenerationFailed, NoQuestions    a service or a model
└── BaselineMismatch, GateFailed
UserWarning
├── RowsDropped, CacheWarning
└── EveryQueryFailed, LabelWarning, WorkerWarning, InconclusiveGate
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, ClassVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from llama_index_rag_metrics.runtime.masking import join_first, shorten


class _Worded(Exception):
    """An error whose class makes its message of values.

    Warnings are made of their message alone, from which pytest-xdist makes them anew.
    """

    template: ClassVar[str] = "{}"

    def __init__(self, *values: object) -> None:
        super().__init__(self.template.format(*(values or ("",))))

    def __repr__(self) -> str:
        # what it was made of may hold a key; its message masks that
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, vars(self))


def _rebuilt(
    kind: type[_Worded], args: tuple[object, ...], values: Mapping[str, object]
) -> _Worded:
    """Unpickle an error without calling its class, whose arguments aren't kept."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(values)
    return error


class RagMetricsError(_Worded):
    """Base class of every error that this package raises on purpose.

    Examples:
        >>> from llama_index_rag_metrics import RagMetricsError, metric
        >>> try:
        ...     metric("ngcd@10")
        ... except RagMetricsError as error:
        ...     print(type(error).__name__)
        UnknownMetric
    """


_DISTRIBUTION = "llama-index-rag-metrics"
_CREDENTIALS = re.compile(r"(?<=://)(?!git@)[^/]*(?=@)|(?<=\?).*")


class InvalidInput(RagMetricsError, ValueError):
    """An argument can't be used: the message has its name, its value, and what was expected.

    `sentence` says what is wrong where "expected" isn't the word for it; `remedy`, what to do about
    it. `lacks` is the argument that the remedy gives, where a command has another way to give it.
    """

    def __init__(
        self,
        argument: str,
        value: object,
        expected: str = "",
        remedy: str = "",
        *,
        sentence: str = "",
        lacks: str = "",
    ) -> None:
        self.argument, self.value, self.expected, self.remedy = argument, value, expected, remedy
        self.sentence, self.lacks = sentence, lacks
        super().__init__(self.worded(argument, remedy))

    def worded(self, argument: str, remedy: str) -> str:
        """The message, with another name of the argument, or another remedy."""
        sentence = f"{argument}: expected {self.expected}, got {shorten(self.value)}."
        if self.sentence:
            is_subject = self.sentence.startswith(f"{self.argument} ")
            sentence = self.sentence
            if is_subject:
                sentence = f"{argument}{sentence.removeprefix(self.argument)}"
            elif argument != self.argument:
                sentence = f"{argument}: {sentence}"
        return f"{sentence} {remedy}" if remedy else sentence


class UnknownArgument(InvalidInput):
    """A function was given an argument that it doesn't have."""

    def __init__(self, argument: str, value: object, function: str, remedy: str) -> None:
        sentence = f"{function}() has no argument {argument!r}."
        super().__init__(argument, value, remedy=remedy, sentence=sentence)


class UnusableAnswer(InvalidInput):
    """A retriever's answers can't be evaluated: ends a run in which it gave no other."""


class NotJudged(RagMetricsError, ValueError):
    """The metric needs relevance and none was given."""

    template = (
        "expected_ids is None: the question has no labels, and this metric needs relevance. "
        "Pass the relevant ids, a {{id: grade}} mapping or a Relevance."
    )


class NothingRelevant(RagMetricsError, ValueError):
    """There are judgements, but none has a grade above 0."""

    template = (
        "expected_ids holds nothing relevant (it is empty, or every grade is 0 or less), "
        "so the metric has no value. Score a dataset instead: it leaves such questions out of "
        "the means and counts them (no_relevant='exclude')."
    )


class NoRetrieval(RagMetricsError, ValueError):
    """No retrieval was given, which isn't the same as an empty one."""

    template = "{} is None: pass what was retrieved; an empty list is fine, scored 0."


class IdTypeMismatch(RagMetricsError, TypeError, ValueError):
    """Expected and retrieved ids have different types, so they could never match."""

    def __init__(self, type_names: Iterable[str]) -> None:
        self.types = ", ".join(sorted(type_names))
        super().__init__(
            f"expected_ids and retrieved_ids mix ids of different types ({self.types}); "
            "ids compare exactly, so these can never match. Convert one side, e.g. with str()."
        )


class MissingExtra(RagMetricsError, ImportError):
    """An optional dependency isn't installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        requirement = _requirement(extra)
        super().__init__(f"{purpose} needs an extra: python -m pip install {requirement}")


class MissingPackage(RagMetricsError, ImportError):
    """A package isn't installed that no extra of this one brings."""

    def __init__(self, purpose: str, package: str) -> None:
        super().__init__(f"{purpose} needs {package}: python -m pip install {package}")


def _requirement(extra: str) -> str:
    """The folder, file or address of this installation for pip (PEP 610), or the name."""
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


class UnknownName(RagMetricsError, ValueError):
    """An unknown name, with the nearest known ones."""

    kind: ClassVar[str] = "name"
    remedy: ClassVar[str] = ""

    def __init__(self, given: str, nearest: Sequence[str] = ()) -> None:
        self.given, self.nearest = given, tuple(nearest)
        guess = f" Did you mean {' or '.join(map(repr, self.nearest))}?" if nearest else ""
        super().__init__(f"unknown {self.kind} {shorten(given)}.{guess} {self.remedy}".rstrip())


class UnknownMetric(UnknownName):
    """No metric has this name."""

    kind = "metric"
    remedy = "`rag-metrics metrics` lists every metric with its parameters."


class NotScored(UnknownMetric):
    """There is such a metric, but it wasn't scored here."""

    def __init__(self, given: str, scored: Sequence[str]) -> None:
        self.given, self.nearest = given, tuple(scored)
        there = f"there are {join_first(self.nearest, 10)}" if scored else "nothing was"
        _Worded.__init__(self, f"metric {shorten(given)} wasn't scored here; {there}.")


class UnknownParameter(UnknownName):
    """The metric has no such parameter."""

    kind = "metric parameter"


class DuplicateMetric(RagMetricsError, ValueError):
    """Two metrics of one evaluation have the same name."""

    template = (
        "two metrics are called {!r}, and one would overwrite the other. "
        "Drop one, or give it other parameters: they are part of the name."
    )


class FileFormatError(RagMetricsError, ValueError):
    """A file can't be read: the message says where, and what was expected there."""

    def __init__(self, path: str, line: int | None, expected: str, value: object = "") -> None:
        self.path, self.line = path, line
        place = path if line is None else f"{path}, line {line}"
        is_known = not isinstance(value, str) or value  # an array has no truth, nor equals a text
        got = f", got {shorten(value)}" if is_known else ""
        super().__init__(f"{place}: expected {expected}{got}.")


class UnknownFormat(RagMetricsError, ValueError):
    """A path or an object isn't a dataset, a run or qrels in any supported form."""

    def __init__(
        self, what: str, reason: str, understood: Sequence[str], kind: str = "a dataset"
    ) -> None:
        forms = "; ".join(understood)
        super().__init__(f"{what} isn't {kind}: {reason}. Supported forms: {forms}.")


class JournalMismatch(RagMetricsError, ValueError):
    """The journal belongs to another run."""

    def __init__(
        self,
        path: str,
        differing: Mapping[str, tuple[str, str]],
        remedy: str = "Give this run a journal of its own.",
    ) -> None:
        aspects = "; ".join(
            f"{aspect} is {now!r}, but the journal has {then!r}"
            for aspect, (then, now) in differing.items()
        )
        super().__init__(f"journal {path!r} is of another run: {aspects}. {remedy}")


class JournalDamaged(RagMetricsError, ValueError):
    """The journal can't be read."""

    def __init__(self, path: str, line: int) -> None:
        expected, remedy = "an answer as a journal has it", "Delete the line"
        if line == 1:
            expected, remedy = "the first line of a journal written by this package", "Move it away"
        super().__init__(
            f"{path}, line {line}: expected {expected}. {remedy}, or give the run another journal."
        )


class JournalBusy(RagMetricsError):
    """Another run is writing the journal."""

    template = "journal {!r} is in use by another run: wait, or use another path."


class CacheWarning(UserWarning):
    """The cache can't be read or written; the run continues without it."""


class RetrievalFailed(RagMetricsError):
    """A retriever failed on a query, and `raise_on_error=True` ends the run there."""

    def __init__(self, query_id: str, error: str) -> None:
        self.query_id = query_id
        super().__init__(f"retrieval failed on question {query_id!r}: {error}")


class StrayError(RagMetricsError):
    """A call raised something that would end more than itself: StopIteration, SystemExit, etc."""

    def __init__(self, error: BaseException) -> None:
        Exception.__init__(self, error)  # whose own message may be broken

    @property
    def stray(self) -> BaseException:
        cause: BaseException = self.args[0]
        return cause

    def __str__(self) -> str:
        if isinstance(self.stray, asyncio.CancelledError):
            return "it was cancelled by code that ran meanwhile, such as one that cancels all tasks"
        return f"{type(self.stray).__name__} was raised, which isn't an error to be handled"


class QueryTimeout(RagMetricsError, TimeoutError):
    """Something took longer than `timeout` allows."""

    def __init__(self, seconds: float, remark: str = "") -> None:
        self.seconds = seconds
        super().__init__(f"not finished within {seconds:g} s (timeout={seconds:g}){remark}")


class CaptureDamaged(RagMetricsError):
    """Some retrievals couldn't be recorded, so the rest is no basis for scores."""

    template = "{} events of retrievals couldn't be recorded; the first: {}"


class WorkersFailed(RagMetricsError):
    """No worker of a cluster could be made ready."""

    template = "none of {} workers is left that could build the retriever: {}"


class EveryQueryFailed(UserWarning):
    """The retriever failed on every query: something is wrong with it or with its setup."""


class LabelWarning(UserWarning):
    """The labels of a dataset don't match what was retrieved."""


class WorkerWarning(UserWarning):
    """A worker of a cluster is gone for good; the run continues with the others."""


class MissingKey(RagMetricsError, ValueError):
    """A service needs an API key, and there is none."""

    def __init__(self, scorer: str, variables: Sequence[str]) -> None:
        self.scorer, self.variables = scorer, " or ".join(variables)
        super().__init__(self.worded("pass api_key=..., or set "))

    def worded(self, way: str) -> str:
        """The message, with the way in which a key is given."""
        return f"{self.scorer} needs an API key: {way}{self.variables}."


class ScorerFailed(RagMetricsError):
    """A service or a model that scores texts gave no score."""

    def __init__(
        self, scorer: str, reason: str, request_id: str | None = None, status: int | None = None
    ) -> None:
        self.request_id, self.status = request_id, status
        request = f" (request {request_id})" if request_id else ""
        super().__init__(f"{scorer}: {reason}{request}")


class GenerationFailed(RagMetricsError):
    """Asking the LLM for questions failed, for one node or for all."""

    def __init__(self, node_id: str, error: str, failed: int, asked: int) -> None:
        self.node_id = node_id
        extent = f"{failed} of {asked} nodes failed; the first is" if failed > 1 else "it failed on"
        super().__init__(f"generating questions failed: {extent} node {node_id!r}: {error}")


class NoQuestions(RagMetricsError, ValueError):
    """The LLM answered, and nothing in its answers is a question."""

    def __init__(self, nodes: int, refused: Sequence[str]) -> None:
        answers = f" Answers by node: {join_first(refused)}." if refused else " They are empty."
        message = (
            f"no questions in the LLM's answers for {nodes} nodes.{answers} Questions end with a "
            "question mark or begin like 'Explain …', one per line: ask for that in "
            "qa_generate_prompt_tmpl, or leave it out for the prompt of this package."
        )
        if not nodes:
            message = "no questions: none of the nodes has any text. Pass nodes with text."
        super().__init__(message)


class BaselineMismatch(RagMetricsError, ValueError):
    """The baseline has other queries than the scores that are compared with it."""

    def __init__(self, differences: Mapping[str, Sequence[str]]) -> None:
        listed = "; ".join(
            f"{len(ids)} {what} ({', '.join(ids[:5])}{', …' if len(ids) > 5 else ''})"
            for what, ids in differences.items()
        )
        super().__init__(
            f"the baseline has other questions: {listed}. "
            "Accept these results as the baseline (rag-metrics gate --accept, or pytest "
            "--rag-accept)."
        )


class GateFailed(RagMetricsError, AssertionError):
    """A rule is broken: the message says which, with the numbers and the worst queries."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _gate_failed, self.args


def _gate_failed(*arguments: Any) -> GateFailed:
    return GateFailed(*arguments)


# the last line that pytest prints is cut: it begins with the verdict, not with the module's name
GateFailed.__module__ = "builtins"


class InconclusiveGate(UserWarning):
    """The queries are too few to tell whether a rule is kept."""


def id_remedy(item: object) -> str:
    return "Give node.node_id of each node." if hasattr(item, "node_id") else ""


def unawaited(value: object) -> str:
    """What to do about a coroutine where its result is expected; "" for anything else."""
    return "It is a coroutine: await it." if isinstance(value, Coroutine) else ""
