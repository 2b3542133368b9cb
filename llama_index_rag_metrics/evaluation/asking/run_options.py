"""Options of an evaluation: declared once, with their defaults, and checked before any question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matched import MatcherLike
from llama_index_rag_metrics.rankings.run import check_min_score
from llama_index_rag_metrics.rankings.tokens import Tokenizer
from llama_index_rag_metrics.runtime.amounts import WORKERS, check_amount, check_integer
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput, unknown_argument
from llama_index_rag_metrics.scores.scoring.batches import Failed, NoRelevant, ScoringOptions

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


class StageOptions(TypedDict, total=False):
    """Options of `evaluate_stages`, which `evaluate` has, too; signatures show their defaults.

    Examples:
        >>> from llama_index_rag_metrics import StageOptions
        >>> options = StageOptions(timeout=10, failed="exclude")
        >>> options["timeout"]
        10
    """

    cache: Cache | str | Path | None
    """Keeps what was paid for, embeddings, reranks and judgements, so that a second call asks for
    none of it again: a `Cache`, or the path of its file. By default, a file beside the journal,
    run.jsonl.cache; without one, memory, for this call only."""

    no_relevant: NoRelevant
    """Whether queries that have nothing relevant are left out of the means and counted ("exclude"),
    score "zero", or are an "error"."""

    failed: Failed
    """Whether a query on which the retriever failed scores "zero", or is left out ("exclude")."""

    raise_on_error: bool
    """End at the first query on which the retriever fails."""

    use_async: bool | None
    """Whether the retriever is asked by its `aretrieve`, or by its `retrieve` in as many threads as
    there are workers. None finds out on the first query which works and doesn't block; where one
    doesn't work, a note says so."""

    timeout: float | None
    """Seconds that the retriever, and each postprocessor, matcher and metric of texts, may take on
    a query; then the query, or the metric's value, has failed. A thread that hangs is abandoned,
    and another takes its place."""

    tokenizer: Tokenizer | None
    """Counts the tokens of what a prompt would hold of each node, for cutoffs such as
    `recall@2000tokens`: a function from a text to its tokens, or what has `encode`. LlamaIndex's
    `get_tokenizer()` where a metric needs tokens and none is given."""


class EvaluateOptions(StageOptions, total=False):
    """Options of `evaluate`, of `RetrieverEvaluator.aevaluate_dataset`, and of the same on Ray.

    They are those of `StageOptions`, and further ones; signatures show their defaults. A function
    of your own hands them on, and type checkers know their names.

    Examples:
        >>> from typing_extensions import Unpack
        >>> from llama_index_rag_metrics import EvaluateOptions, evaluate
        >>> def mean_of(retriever, dataset, **options: Unpack[EvaluateOptions]) -> float:
        ...     return evaluate(retriever, dataset, ["mrr"], **options).scores.means["mrr"]
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
        >>> mean_of(lambda query: ["d2", "d1"], dataset, timeout=10)
        0.5
    """

    name: str
    """What to call the retriever in reports."""

    repeats: int
    """How many times every question is asked, of what answers differently each time, such as an
    agent. A question's score is the mean of its runs, and what is compared or tested is the
    question; `results.repeats` has each run. Every run begins anew; of `cache`, they share what
    metrics and matchers paid for, which is no part of what is evaluated."""

    journal: str | Path | None
    """A file that keeps every answer. A second call with it asks what has no answer yet, also after
    a kill, and may have other metrics; a note says how many answers it brought back. It doesn't see
    that the retriever or its index was changed: give what was changed another file, or `run`."""

    run: str
    """Names the run in its journal, such as "k=20, index of 12 March"; a journal of another run is
    refused."""

    min_score: float | None
    """Leave out passages with a lower score of the retriever, or of the last postprocessor, as
    LlamaIndex's `SimilarityPostprocessor(similarity_cutoff=min_score)` behind it would. A journal
    keeps all passages: another threshold asks nothing again."""


@dataclass(frozen=True)
class RunOptions:
    """`EvaluateOptions` with their defaults, checked, and the arguments beside them."""

    workers: int = WORKERS
    show_progress: bool = False
    match_on: MatchOn = "node_id"
    matcher: MatcherLike | None = None
    cache: Cache = field(default_factory=Cache)
    repeats: int = 1
    no_relevant: NoRelevant = "exclude"
    failed: Failed = "zero"
    raise_on_error: bool = False
    use_async: bool | None = None
    timeout: float | None = None
    tokenizer: Tokenizer | None = None
    name: str = ""
    journal: str | Path | None = None
    run: str = ""
    min_score: float | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], **further: Any) -> RunOptions:
        """The options of a call, with their cache opened, and `further` fields."""
        cache = Cache.of(options.get("cache"), options.get("journal"))
        return cls(**{**options, **further, "cache": cache})

    def __post_init__(self) -> None:
        check_count("workers", self.workers, "questions to ask at once")
        check_count("repeats", self.repeats, "times to ask each question")
        if not isinstance(self.name, str):
            raise InvalidInput("name", self.name, "a text, what to call the system in reports")
        if not isinstance(self.run, str):
            raise InvalidInput("run", self.run, "a text, which names the run in its journal")
        check_min_score(self.min_score)
        _ = self.scoring  # checks what it is made of
        if self.timeout is not None:
            expected = "seconds above 0, or None"
            check_amount("timeout", self.timeout, expected, lambda seconds: seconds > 0)
        if self.use_async is not None and not isinstance(self.use_async, bool):
            expected = "True, False, or None to find out which works"
            raise InvalidInput("use_async", self.use_async, expected)

    @property
    def scoring(self) -> ScoringOptions:
        return ScoringOptions(self.no_relevant, self.failed)


def shows(options: type) -> Callable[[AnyFunction], AnyFunction]:
    """Let a function's run-time signature show each of its `**options`, with its default."""
    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=getattr(RunOptions, name, None),
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in options.__annotations__.items()
    ]

    def shown(function: AnyFunction) -> AnyFunction:
        own = signature(function)
        named = [each for each in own.parameters.values() if each.kind != Parameter.VAR_KEYWORD]
        function.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*named, *parameters]
        )
        return function

    return shown


def check_known(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    known = signature(function).parameters
    for argument, value in options.items():
        if argument in known:
            continue
        near = get_close_matches(argument, known, n=1)
        remedy = "Parameters of a metric belong to the metric."
        if near:
            remedy = f"Did you mean {near[0]!r}?"
        if argument == "min_score":
            cutoff = f"SimilarityPostprocessor(similarity_cutoff={value!r})"
            remedy = f"A threshold is a stage of its own: put {cutoff} among the postprocessors."
        if argument in ("top_k", "k", "similarity_top_k"):
            remedy = (
                "The retriever decides how many nodes it returns: "
                f"index.as_retriever(similarity_top_k={value!r}). A metric's cutoff is in its "
                f"name: 'ndcg@{value}'."
            )
        raise unknown_argument(argument, value, function.__name__.removeprefix("a"), remedy)


def check_count(argument: str, value: object, what: str) -> None:
    check_integer(argument, value, 1, f"a number of {what}, from 1 on")
