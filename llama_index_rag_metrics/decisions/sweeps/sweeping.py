"""sweep(): every configuration of a grid built, evaluated and compared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from llama_index.core.base.base_retriever import BaseRetriever
from pydantic import SecretStr
from typing_extensions import Unpack

from llama_index_rag_metrics.decisions.clusters import Clusters, clusters_of
from llama_index_rag_metrics.decisions.comparison.comparison import margin_of
from llama_index_rag_metrics.decisions.sweeps.sweep_result import Configuration, Sweep
from llama_index_rag_metrics.evaluation.asking.answers_kept import Asking, answers_to, read_answers
from llama_index_rag_metrics.evaluation.asking.query_runner import NOT_ASKED
from llama_index_rag_metrics.evaluation.asking.run_options import (
    RunOptions,
    StageOptions,
    check_known,
    shows,
)
from llama_index_rag_metrics.evaluation.evaluator import aevaluate
from llama_index_rag_metrics.evaluation.source import CallableRetriever, Source
from llama_index_rag_metrics.evaluation.who_asks import Told
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matcher_names import MatcherLike
from llama_index_rag_metrics.rankings.run import Run, check_min_score
from llama_index_rag_metrics.rankings.tokens import TokenCounter
from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    JournalBusy,
    JournalDamaged,
    JournalMismatch,
    UnknownMetric,
)
from llama_index_rag_metrics.runtime.masking import (
    describe_error,
    mask,
    names_secret,
    register_secret,
    register_secrets_of,
)
from llama_index_rag_metrics.runtime.sync import in_thread, synchronous
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.scores.scoring.batches import Metrics
from llama_index_rag_metrics.statistics.intervals import check_options

Build: TypeAlias = "Callable[..., Any]"
"""Makes a retriever, an index, a query engine or a callable of the parameters of a configuration;
may be asynchronous."""

_LONGEST_NAME = 80
_CUT = "min_score"
"""What of a configuration `evaluate` gets, unless `build` takes it."""


class SweepOptions(StageOptions, total=False):
    """Options of `sweep` which `evaluate` has, too; signatures show their defaults."""

    match_on: MatchOn
    matcher: MatcherLike | None
    workers: int
    repeats: int
    show_progress: bool
    min_score: float | None
    run: str


@shows(SweepOptions)
async def asweep(
    build: Build,
    grid: Grid,
    dataset: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    primary: str | None = None,
    confidence: float = 0.95,
    tolerance: float | None = None,
    clusters: Clusters | None = None,
    journal: str | Path | None = None,
    **options: Unpack[SweepOptions],
) -> Sweep:
    """Evaluate every configuration of a grid, and recommend one if these questions can.

    `asweep` is awaited; `sweep` isn't.

    Args:
        build: makes what is evaluated, `build(chunk_size=128, top_k=5)`: a retriever, an index, a
            query engine or a callable from query text to ids; it may be asynchronous.
        grid: parameter to its values, of which every combination is evaluated, or a list of
            configurations, {parameter: value} each. Values are texts, numbers, True, False or None;
            objects have names: {"embed": {"small": model, ...}}. Secrets are refused: `build` reads
            them. Unless `build` takes a `min_score` of its own, it is that of `evaluate`.
        dataset: a `RetrievalDataset`, or what `RetrievalDataset.of` takes. Labels have to fit every
            configuration: ids of chunks change with the chunk size, while spans, texts and ids of
            documents don't.
        metrics: names or metrics. The first one decides.
        primary: the name of the metric that decides; None for the first.
        confidence: 1 - this is how often, at most, a winner is named though there is none, and how
            often bounds on how much worse than the best one configurations are don't hold.
        tolerance: how much worse than the best one, on the primary metric, a recommended
            configuration may be, in the metric's unit; None is 0.02 for metrics from 0 to 1, and 0
            for others: then only what is shown to be the best is recommended.
        clusters: what questions belong to, such as the document that they were made from: a key of
            their metadata, or query id to cluster; None for the conversations that they are of.
        journal: a folder with a journal for each configuration, named by its values. A second call
            goes on where the first ended, and builds only what it still has to ask.

    The further arguments are those of `evaluate`, such as `matcher`, `workers` and
    `tokenizer`. All configurations share the `cache`: by default, a file
    beside the journal's folder; without one, memory, for this call only.

    Returns:
        The configurations. One that can't be built or evaluated, or fails on every question, is
        listed with its error; the others go on, but there is no winner then.

    Raises:
        InvalidInput: the grid or an option can't be used.
        JournalMismatch: a journal is of another `run` or option.
        JournalBusy: a journal is being written by another run.

    Examples:
        >>> def build(top_k):
        ...     return lambda query: ["d2", "d1"][:top_k]
        >>> dataset = {"queries": {"q1": "x?", "q2": "y?"}, "corpus": {},
        ...            "relevant_docs": {"q1": ["d1"], "q2": ["d1"]}}
        >>> found = sweep(build, {"top_k": [1, 2]}, dataset, ["recall"])
        >>> [configuration.mean("recall") for configuration in found]
        [0.0, 1.0]
    """
    if not callable(build):
        expected = "a function of the parameters, which returns a retriever or an index"
        raise InvalidInput("build", build, expected)
    _check(options)
    check_options(confidence)
    named = combinations(grid)
    chosen = resolve(metrics)
    names = [metric.metric_name for metric in chosen]
    decides = _primary_of(primary, names)
    tolerance = margin_of(decides, tolerance, "tolerance")
    questions = RetrievalDataset.of(dataset)
    clusters_of(clusters, [*questions.queries], questions.metadata)
    options["cache"] = Cache.of(options.get("cache"), journal)
    options["tokenizer"] = TokenCounter.of(options.get("tokenizer"))
    times = range(1, options.get("repeats", 1) + 1)
    askings = {Asking(query_id, time) for time in times for query_id in questions.queries}
    for point in named.values():
        register_secrets_of(point.params, *point.params.values())
    is_own = _takes(build, _CUT)
    for point in named.values():
        if _CUT in point and not is_own:
            check_min_score(point[_CUT].held)
    run = options.pop("run", "")

    async def evaluated(name: str, point: Point) -> Configuration:
        params, texts = point.params, {key: value.text for key, value in point.items()}
        given = params if is_own else {key: held for key, held in params.items() if key != _CUT}
        cut: SweepOptions = {} if len(given) == len(params) else {"min_score": params[_CUT]}
        path = None if journal is None else Path(journal, file_name(name))
        try:
            results = await aevaluate(
                await _source(build, given, path, questions, askings),
                questions,
                chosen,
                name=name,
                run=point.run(run),
                journal=path,
                **{**options, **cut},
            )
        except (JournalMismatch, JournalDamaged, JournalBusy):
            raise
        except Exception as error:  # noqa: BLE001 - any build, any error: it is listed
            return Configuration(name, params, None, describe_error(error), texts)
        return Configuration(name, params, results, _reason_given_up(results.run), texts)

    return Sweep(
        [await evaluated(*pair) for pair in named.items()],
        primary=decides,
        metric_names=names,
        confidence=confidence,
        tolerance=tolerance,
        clusters=clusters,
    )


sweep = synchronous(asweep)


def _check(options: SweepOptions) -> None:
    """Refuse what every configuration would refuse, before any is built."""
    if "name" in options:
        sentence = "sweep() has no argument 'name': it sets that of every configuration."
        raise InvalidInput("name", options.get("name"), sentence=sentence)
    check_known(asweep, options)
    _ = RunOptions.of({**options, "cache": None})


def _takes(build: Build, parameter: str) -> bool:
    try:
        return parameter in inspect.signature(build).parameters
    except ValueError:  # of some that are written in C
        return False


def file_name(name: str) -> str:
    """The file name of a configuration's journal: its name, made safe, and a hash."""
    readable = re.sub(r"[^\w.]+", "-", name).strip("-")[:_LONGEST_NAME]
    return f"{readable}.{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.jsonl"


async def _source(
    build: Build,
    params: dict[str, Any],
    path: Path | None,
    questions: RetrievalDataset,
    askings: set[Asking],
) -> Source:
    """A configuration, built unless its journal has every answer."""
    if path is not None:
        header, answers = read_answers(path)
        if answers_to(questions, answers).keys() >= askings:
            told = {answer.told for answer in answers}
            return _never_asked_again(header, next(iter(told), None))
    built: Any = (
        build(**params)
        if inspect.iscoroutinefunction(build)
        else await in_thread(partial(build, **params))
    )
    source: Source = await built if inspect.isawaitable(built) else built
    return source


def _never_asked_again(journal: Mapping[str, str], told: Told | None) -> BaseRetriever:
    """Stands for a source whose journal has the answer to every question."""

    def fail(query: str, **who_asks: Any) -> list[str]:
        raise AssertionError("the journal has every answer")

    retriever = CallableRetriever(fail)
    retriever.told, retriever.stands_for_index = told, "depth" in journal
    return retriever


def _reason_given_up(run: Run) -> str:
    """Why a run can't be compared: every query failed, or not all were asked; else ""."""
    rankings = run.every_ranking
    errors = [ranking.error for ranking in rankings if ranking.error is not None]
    unasked = next((error for error in errors if error.startswith(NOT_ASKED)), None)
    if unasked is not None:
        return unasked
    return f"every question failed: {errors[0]}" if errors and len(errors) == len(rankings) else ""


Grid: TypeAlias = "Mapping[str, Iterable[Any] | Mapping[str, Any]] | Iterable[Mapping[str, Any]]"
"""Parameter to its values, of which every combination is meant, or to {name: value}; or the
combinations themselves."""

_REMEDY = 'For example {"chunk_size": [128, 256], "top_k": [3, 5]}.'
_LONGEST_NUMBER = 6
_CREDENTIALS = re.compile(
    r"://[^/\s@]*:([^/\s@]+)@|[?&][\w-]*(?:key|token|secret)=([^&#\s]+)", re.I
)


@dataclass(frozen=True, eq=False)
class Value:
    """A value that `build` gets, its name if it has one, and a text without secrets."""

    held: Any
    name: str | None
    text: str

    @classmethod
    def of(cls, parameter: str, held: Any) -> Value:
        """A value without a name, whose text says all of it."""
        held = held.item() if isinstance(held, np.generic) else held
        if _is_secret(parameter, held):
            sentence = f"grid[{parameter!r}] looks like a secret, and grids are shown."
            remedy = 'Let build read it, such as from os.environ, or name it: {"mine": value}.'
            raise InvalidInput(f"grid[{parameter!r}]", "", sentence=sentence, remedy=remedy)
        if held is not None and not isinstance(held, (bool, str, int, float)):
            expected = "texts, numbers, True, False or None"
            remedy = f'Name them: {{"{parameter}": {{"a name": value}}}}.'
            kind = type(held).__qualname__
            raise InvalidInput(f"grid[{parameter!r}]", kind, expected, remedy)
        return cls(held, None, _whole(str(held)))

    @classmethod
    def named(cls, parameter: str, name: str, held: Any) -> Value:
        """A value with a name, which is all that is shown of it."""
        if isinstance(held, str) and _is_secret(parameter, held):
            register_secret(held)
            for credentials in _CREDENTIALS.finditer(held):
                register_secret(credentials[1] or credentials[2])
        return cls(held, name, mask(_whole(name)))

    def is_same(self, other: Value) -> bool:
        """Whether two values of one text are surely one."""
        if self.name is not None or other.name is not None:
            return self.held is other.held
        return type(self.held) is type(other.held) and repr(self.held) == repr(other.held)


class Point(dict[str, Value]):
    """A configuration: parameter to its value."""

    @property
    def name(self) -> str:
        return ", ".join(f"{name}={value.text}" for name, value in self.items()) or "as it is"

    @property
    def params(self) -> dict[str, Any]:
        return {name: value.held for name, value in self.items()}

    def run(self, name: str) -> str:
        """The name of a configuration's run in its journal, in which a text has quotes."""
        texts = [name] if name else []
        for parameter, value in self.items():
            is_text = isinstance(value.held, str) and value.name is None
            texts.append(f"{parameter}={value.text!r}" if is_text else f"{parameter}={value.text}")
        return ", ".join(texts)


def combinations(grid: Grid) -> dict[str, Point]:
    """The configurations of a grid by their names; the first parameter varies slowest."""
    if isinstance(grid, Mapping):
        columns = [_column(name, values) for name, values in grid.items()]
        chosen = [Point(zip(grid, row, strict=True)) for row in product(*columns) if row]
    elif isinstance(grid, (str, bytes)) or not isinstance(grid, Iterable):
        expected = "parameter to values, or configurations"
        raise InvalidInput("grid", type(grid), expected, _REMEDY)
    else:
        chosen = []
        for row in grid:
            if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
                argument, expected = "a configuration of the grid", "{parameter: value}"
                raise InvalidInput(argument, type(row), expected, _REMEDY)
            chosen.append(Point({name: Value.of(name, value) for name, value in row.items()}))
    if not chosen:
        raise InvalidInput("grid", "nothing", "at least one configuration", _REMEDY)
    named: dict[str, Point] = {}
    known: dict[tuple[str, str], Value] = {}
    remedy = 'Tell values apart by names: {"splitter": {"a": ..., "b": ...}}.'
    for point in chosen:
        if point.name in named:
            sentence = f"grid has two configurations called {point.name!r}."
            raise InvalidInput("grid", point.name, sentence=sentence, remedy=remedy)
        named[point.name] = point
        for parameter, value in point.items():
            if not value.is_same(known.setdefault((parameter, value.text), value)):
                sentence = f"grid has two values of {parameter!r} called {value.text!r}."
                raise InvalidInput("grid", value.text, sentence=sentence, remedy=remedy)
    return named


def varied(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The parameters that have more than one text."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if len({row.get(name) for row in rows}) > 1]


def _is_secret(parameter: str, held: Any) -> bool:
    """Whether a value is a secret by its type, its own text or the name of its parameter."""
    if isinstance(held, SecretStr):
        return True
    if not isinstance(held, str) or not held:
        return False
    is_number = held.replace(".", "", 1).isdecimal() and len(held) < _LONGEST_NUMBER
    is_named = names_secret(parameter) and not is_number
    return is_named or _CREDENTIALS.search(held) is not None or mask(held) != held


def _whole(text: str) -> str:
    """The text, with half a character written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _column(name: str, values: Any) -> list[Value]:
    if isinstance(values, Mapping) and values and all(isinstance(key, str) for key in values):
        return [Value.named(name, key, value) for key, value in values.items()]
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        expected = "a list of values, or {name: value}"
        raise InvalidInput(f"grid[{name!r}]", type(values), expected, _REMEDY)
    return [Value.of(name, value) for value in values]


def _primary_of(wanted: str | None, names: Sequence[str]) -> str:
    """The name of the metric that decides: the first, or the one wanted, perhaps by an alias."""
    try:
        return names[0] if wanted is None else name_among(wanted, names)
    except UnknownMetric:
        raise InvalidInput("primary", wanted, " or ".join(map(repr, names))) from None
