"""The errors and warnings of this package: a class for what somebody may want to catch.

RagMetricsError
├── InvalidInput ─ UnusableAnswer      an argument, or what a retriever returned
├── UnknownMetric ─ NotScored          a name
├── MissingExtra, MissingKey
├── FileFormatError, JournalMismatch   a file
├── RetrievalFailed, QueryTimeout, StrayError, ScorerFailed
└── GateFailed
UserWarning
└── CacheWarning, LabelWarning, EveryQueryFailed, InconclusiveGate
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from .masking import join_first, shorten

_DISTRIBUTION = "llama-index-rag-metrics"


class RagMetricsError(Exception):
    """Base class of every error that this package raises on purpose.

    Examples:
        >>> from llama_index_rag_metrics import RagMetricsError, metric
        >>> try:
        ...     metric("ngcd@10")
        ... except RagMetricsError as error:
        ...     print(type(error).__name__)
        UnknownMetric
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(message)

    def __repr__(self) -> str:
        # what it was made of may hold a key; its message masks that
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.args, vars(self))


def _unpickled(
    kind: type[RagMetricsError], arguments: tuple[object, ...], values: Mapping[str, object]
) -> RagMetricsError:
    """An error, made without calling its class, whose arguments aren't kept."""
    error = kind.__new__(kind)
    error.args = arguments
    vars(error).update(values)
    return error


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
        return f"{sentence} {remedy}".rstrip()


class UnusableAnswer(InvalidInput):
    """A retriever's answers can't be evaluated: ends a run in which it gave no other."""


class UnknownMetric(RagMetricsError, ValueError):
    """No metric has this name, or it has no such parameter; `nearest` are the known ones."""

    def __init__(self, name: str, nearest: Sequence[str] = (), *, kind: str = "metric") -> None:
        self.nearest = tuple(nearest)
        sentences = [f"unknown {kind} {shorten(name)}."]
        if nearest:
            sentences.append(f"Did you mean {' or '.join(map(repr, nearest))}?")
        if kind == "metric":
            sentences.append("`rag-metrics metrics` lists every metric with its parameters.")
        super().__init__(" ".join(sentences))


class NotScored(UnknownMetric):
    """There is such a metric, but it wasn't scored here; `nearest` are those that were."""

    def __init__(self, name: str, scored: Sequence[str]) -> None:
        self.nearest = tuple(scored)
        there = f"there are {join_first(self.nearest, 10)}" if scored else "nothing was"
        RagMetricsError.__init__(self, f"metric {shorten(name)} wasn't scored here; {there}.")


class MissingExtra(RagMetricsError, ImportError):
    """An optional dependency isn't installed: one of an extra, or a package of no extra."""

    def __init__(self, purpose: str, extra: str = "", *, package: str = "") -> None:
        command = f"an extra: python -m pip install '{_DISTRIBUTION}[{extra}]'"
        if package:
            command = f"{package}: python -m pip install {package}"
        super().__init__(f"{purpose} needs {command}")


class MissingKey(RagMetricsError, ValueError):
    """A service needs an API key, and there is none."""

    def __init__(self, scorer: str, variables: Sequence[str]) -> None:
        self.scorer, self.variables = scorer, " or ".join(variables)
        super().__init__(self.worded("pass api_key=..., or set "))

    def worded(self, way: str) -> str:
        """The message, with the way in which a key is given."""
        return f"{self.scorer} needs an API key: {way}{self.variables}."


class FileFormatError(RagMetricsError, ValueError):
    """A file can't be read: the message says where, and what was expected there."""

    def __init__(
        self,
        path: str,
        line: int | None = None,
        expected: str = "",
        value: object = "",
        *,
        sentence: str = "",
    ) -> None:
        self.path, self.line = path, line
        location = path if line is None else f"{path}, line {line}"
        message = f"{location}: expected {expected}."
        if not isinstance(value, str) or value:  # an array has no truth, nor equals a text
            message = f"{location}: expected {expected}, got {shorten(value)}."
        super().__init__(sentence or message)


class JournalMismatch(RagMetricsError, ValueError):
    """The journal belongs to another run, or another run is writing it."""

    def __init__(
        self,
        path: str,
        differing: Mapping[str, tuple[str, str]],
        remedy: str = "Give this run a journal of its own.",
        *,
        sentence: str = "",
    ) -> None:
        aspects = "; ".join(
            f"{aspect} is {now!r}, but the journal has {then!r}"
            for aspect, (then, now) in differing.items()
        )
        message = f"journal {path!r} is of another run: {aspects}. {remedy}"
        super().__init__(sentence or message)


class RetrievalFailed(RagMetricsError):
    """A retriever failed on a query, and `raise_on_error=True` ends the run there."""

    def __init__(self, query_id: str, error: str) -> None:
        self.query_id = query_id
        super().__init__(f"retrieval failed on question {query_id!r}: {error}")


class QueryTimeout(RagMetricsError, TimeoutError):
    """Something took longer than `timeout` allows."""

    def __init__(self, seconds: float, remark: str = "") -> None:
        self.seconds = seconds
        super().__init__(f"not finished within {seconds:g} s (timeout={seconds:g}){remark}")


class StrayError(RagMetricsError):
    """A call raised something that would end more than itself: StopIteration, SystemExit, etc."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)  # whose own message may be broken

    @property
    def stray(self) -> BaseException:
        cause: BaseException = self.args[0]
        return cause

    def __str__(self) -> str:
        if isinstance(self.stray, asyncio.CancelledError):
            return "it was cancelled by code that ran meanwhile, such as one that cancels all tasks"
        return f"{type(self.stray).__name__} was raised, which isn't an error to be handled"


class ScorerFailed(RagMetricsError):
    """A service or a model gave no scores of texts, or no questions."""

    def __init__(
        self, scorer: str, reason: str, request_id: str | None = None, status: int | None = None
    ) -> None:
        self.request_id, self.status = request_id, status
        message = f"{scorer}: {reason}"
        if request_id:
            message = f"{message} (request {request_id})"
        super().__init__(message)


class GateFailed(RagMetricsError, AssertionError):
    """A rule is broken: the message says which, with the numbers and the worst queries."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _gate_failed, self.args


def _gate_failed(*arguments: Any) -> GateFailed:
    return GateFailed(*arguments)


# the last line that pytest prints is cut: it begins with the verdict, not with the module's name
GateFailed.__module__ = "builtins"


class CacheWarning(UserWarning):
    """The cache can't be read or written; the run continues without it."""


class EveryQueryFailed(UserWarning):
    """The retriever failed on every query: something is wrong with it or with its setup."""


class LabelWarning(UserWarning):
    """The labels of a dataset don't match what was retrieved."""


class InconclusiveGate(UserWarning):
    """The queries are too few to tell whether a rule is kept."""


def not_judged() -> InvalidInput:
    """The error of a metric that needs relevance where none was given."""
    sentence = "expected_ids is None: the question has no labels, and this metric needs relevance."
    remedy = "Pass the relevant ids, a {id: grade} mapping or a Relevance."
    return InvalidInput("expected_ids", None, sentence=sentence, remedy=remedy)


def without_relevant() -> InvalidInput:
    """The error of a metric where there are judgements, but none has a grade above 0."""
    sentence = (
        "expected_ids holds nothing relevant (it is empty, or every grade is 0 or less), "
        "so the metric has no value. Score a dataset instead: it leaves such questions out of "
        "the means and counts them (no_relevant='exclude')."
    )
    return InvalidInput("expected_ids", [], sentence=sentence)


def no_retrieval(argument: str) -> InvalidInput:
    """The error where no retrieval was given, which isn't the same as an empty one."""
    sentence = f"{argument} is None: pass what was retrieved; an empty list is fine, scored 0."
    return InvalidInput(argument, None, sentence=sentence)


def mixed_id_types(type_names: Iterable[str]) -> InvalidInput:
    """The error of expected and retrieved ids that have different types, and so never match."""
    types = ", ".join(sorted(type_names))
    sentence = (
        f"expected_ids and retrieved_ids mix ids of different types ({types}); "
        "ids compare exactly, so these can never match. Convert one side, e.g. with str()."
    )
    return InvalidInput("expected_ids", types, sentence=sentence)


def duplicate_metric(name: str) -> InvalidInput:
    """The error of two metrics of one evaluation that have the same name."""
    sentence = f"two metrics are called {name!r}, and one would overwrite the other."
    remedy = "Drop one, or give it other parameters: they are part of the name."
    return InvalidInput("metrics", name, sentence=sentence, remedy=remedy)


def unknown_parameter(name: str, nearest: Sequence[str] = ()) -> UnknownMetric:
    """The error of a metric's parameter that it doesn't have."""
    return UnknownMetric(name, nearest, kind="metric parameter")


def unknown_format(
    what: str, reason: str, understood: Sequence[str], kind: str = "a dataset"
) -> FileFormatError:
    """The error of what isn't a dataset, a run or qrels in any supported form."""
    sentence = f"{what} isn't {kind}: {reason}. Supported forms: {'; '.join(understood)}."
    return FileFormatError(what, sentence=sentence)


def journal_damaged(path: str, line: int) -> FileFormatError:
    """The error of a journal that can't be read."""
    expected, remedy = "an answer as a journal has it", "Delete the line"
    if line == 1:
        expected, remedy = "the first line of a journal written by this package", "Move it away"
    remedy = f"{remedy}, or give the run another journal."
    sentence = f"{path}, line {line}: expected {expected}. {remedy}"
    return FileFormatError(path, line, sentence=sentence)


def journal_busy(path: str) -> JournalMismatch:
    """The error of a journal that another run is writing."""
    sentence = f"journal {path!r} is in use by another run: wait, or use another path."
    return JournalMismatch(path, {}, sentence=sentence)


def capture_damaged(events: int, error: str) -> RagMetricsError:
    """The error where the retrievals that were recorded are no basis for scores."""
    sentence = "{} events of retrievals couldn't be recorded; the first: {}"
    return RagMetricsError(sentence.format(events, error))


def generation_failed(node_id: str, error: str, failed: int, asked: int) -> ScorerFailed:
    """The error where asking the LLM for questions failed, for one node or for all."""
    extent = "it failed on"
    if failed > 1:
        extent = f"{failed} of {asked} nodes failed; the first is"
    return ScorerFailed("generating questions failed", f"{extent} node {node_id!r}: {error}")


def no_questions(nodes: int, refused: Sequence[str]) -> ScorerFailed:
    """The error where the LLM answered, and nothing in its answers is a question."""
    if not nodes:
        return ScorerFailed("no questions", "none of the nodes has any text. Pass nodes with text.")
    answers = "They are empty."
    if refused:
        answers = f"Answers by node: {join_first(refused)}."
    remedy = (
        "Questions end with a question mark or begin like 'Explain …', one per line: ask for that "
        "in qa_generate_prompt_tmpl, or leave it out for the prompt of this package."
    )
    reason = f"no questions in the LLM's answers for {nodes} nodes. {answers} {remedy}"
    return ScorerFailed("generate_question_context_pairs", reason)


def baseline_mismatch(differences: Mapping[str, Sequence[str]]) -> InvalidInput:
    """The error of a baseline that has other queries than the scores compared with it."""
    parts = []
    for difference, ids in differences.items():
        listed = ", ".join([*ids[:5], "…"] if len(ids) > 5 else ids)
        parts.append(f"{len(ids)} {difference} ({listed})")
    sentence = f"the baseline has other questions: {'; '.join(parts)}."
    remedy = (
        "Accept these results as the baseline (rag-metrics gate --accept, or pytest --rag-accept)."
    )
    return InvalidInput("baseline", "", sentence=sentence, remedy=remedy)


def id_remedy(item: object) -> str:
    return "Give node.node_id of each node." if hasattr(item, "node_id") else ""


def unawaited(value: object) -> str:
    """What to do about a coroutine where its result is expected; "" for anything else."""
    return "It is a coroutine: await it." if isinstance(value, Coroutine) else ""
