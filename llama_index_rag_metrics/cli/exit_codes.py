"""Exit codes and the words on standard error that go with them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer
from typer.models import ArgumentInfo, OptionInfo

from llama_index_rag_metrics.files.lines import LacksField
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.runtime.atomic_files import is_stream
from llama_index_rag_metrics.runtime.errors import (
    GateFailed,
    InvalidInput,
    MissingKey,
    RagMetricsError,
)

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics.decisions.gate import GateReport
    from llama_index_rag_metrics.evaluation import EvaluationResults
    from llama_index_rag_metrics.scores import Scores


_CALLED = {
    "index_or_nodes": ("corpus", "new_nodes"),
    "judgements": ("qrels", "output"),
    "metrics": ("metric",),
    "path": ("output",),
}
"""Arguments that a command's function calls otherwise."""

_REMEDIES = {
    "texts": "A metric of texts needs the query and the texts, which `rag-metrics evaluate` has.",
    "matcher": "A matcher needs what it compares: `rag-metrics score --matcher` and `rag-metrics "
    "evaluate --matcher` have it.",
    "llm": "Set Settings.llm in the module of --retriever.",
    "embed_model": "Set Settings.embed_model in the module of --retriever.",
    "spans": "Give RUN as JSON lines with retrieved_spans.",
    "tokens": "Give RUN as JSON lines with retrieved_texts, or use a cutoff by rank, such as @10.",
    "forbidden": "Give RUN with a column forbidden_ids.",
}
"""How a command is given what an error says that it lacks."""


def message_for(error: RagMetricsError, command: Callable[..., Any] | None) -> str:
    """The message of an error, in the options that the annotations of a command's function name."""
    options = dict(_options(command)) if command is not None else {}
    if isinstance(error, InvalidInput):
        argument, space, rest = error.argument.partition(" ")
        known = (name for name in (argument, *_CALLED.get(argument, ())) if name in options)
        name = next(known, None)
        shown = error.argument if name is None else f"{options[name]}{space}{rest}"
        return error.worded(shown, _REMEDIES.get(error.lacks, error.remedy))
    if isinstance(error, LacksField):
        return error.worded("--columns FIELD=COLUMN" if "columns" in options else "")
    return error.worded("set ") if isinstance(error, MissingKey) else str(error)


def _options(command: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """The name of each parameter of a command's function, and its option."""
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        for info in get_args(parameter.annotation):
            if isinstance(info, OptionInfo):
                # as an annotation, an option's first name stands where its default would
                flags = [flag for flag in (info.default, *(info.param_decls or ())) if flag]
                yield name, next((flag for flag in flags if flag.startswith("--")), flags[0])
            elif isinstance(info, ArgumentInfo):
                yield name, info.metavar or name.upper()


FAILED_QUERIES, RULE_BROKEN, LABELS_WRONG, WRONG_USAGE, INTERRUPTED = 1, 1, 1, 2, 130

_EXIT_CODES: Mapping[str, Mapping[int, str]] = {
    "demo": {FAILED_QUERIES: "queries failed"},
    "evaluate": {FAILED_QUERIES: "queries failed, or a metric has no value for some of them"},
    "score": {FAILED_QUERIES: "a RUN has failed queries"},
    "judge": {FAILED_QUERIES: "queries failed or couldn't be graded"},
    "gate": {
        0: "no rule is broken",
        RULE_BROKEN: "a rule is broken; with --strict also if one is inconclusive",
    },
    "metrics": {},
    "labels check": {0: "no label is wrong", LABELS_WRONG: "some labels are wrong"},
    "labels move": {0: "every label has a new place", LABELS_WRONG: "some labels are lost"},
    "labels remember": {},
    "labels pool": {0: "every verdict is decided, or items were written"},
    "labels review": {},
    "labels agree": {},
    "labels nuggets": {FAILED_QUERIES: "questions or passages failed"},
}
"""The exit codes of each command that mean something of its own."""


def exit_words(command: str) -> str:
    """The exit codes of a command, for the end of its help."""
    words = {**_EXIT_CODES[command], WRONG_USAGE: "the command can't run as written"}
    return "\n\n".join(f"Exit code {code}: {meaning}." for code, meaning in words.items())


@contextmanager
def exit_codes(
    kept: str = "nothing was kept",
    command: Callable[..., Any] | None = None,
    kept_in: Path | None = None,
) -> Iterator[None]:
    """Turn errors that the user can fix into one line and exit code 2, and Ctrl-C into 130.

    After Ctrl-C it says `kept` of the work, if `kept_in` exists or is None.
    """
    try:
        yield
    except RagMetricsError as error:
        say(message_for(error, command))
        raise typer.Exit(WRONG_USAGE) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise typer.Exit(WRONG_USAGE) from None
    except KeyboardInterrupt:
        is_kept = kept_in is None or kept_in.exists()
        say(f"interrupted: {kept if is_kept else 'nothing was kept'}")
        raise typer.Exit(INTERRUPTED) from None


def exit_for(systems: Iterable[Scores]) -> None:
    """End with exit code 1 when a query failed."""
    if any(scores.failed for scores in systems):
        raise typer.Exit(FAILED_QUERIES)


def exit_for_results(
    results: Sequence[EvaluationResults], metrics: Sequence[BaseRetrievalMetric]
) -> None:
    """End with exit code 1 when a query failed, or a metric lacks a value that it should have.

    Metrics of texts have none if nothing was retrieved, the others none if nothing is relevant.
    """
    from llama_index_rag_metrics.metrics.texts import TextMetric

    is_complete = not any(result.scores.failed for result in results)
    for result in results:
        scores = result.scores
        for metric in metrics:
            name = metric.metric_name
            due = set(scores.query_ids) - scores.excluded.keys()
            if isinstance(metric, TextMetric):
                due = {query_id for query_id, ranking in result.run.items() if ranking.ids}
            if missing := len(due - scores.by_query(name).keys()):
                say(f"{scores.name}: {name} has no value for {missing} of {len(due)} queries")
                is_complete = False
    if not is_complete:
        raise typer.Exit(FAILED_QUERIES)


def exit_for_gate(report: GateReport, *, strict: bool) -> None:
    """End with exit code 1 when a rule is broken; warn when one is inconclusive."""
    if report.outcome == "inconclusive" and not strict:
        say("inconclusive; --strict makes this exit code 1")
    if report.broken(strict=strict):
        raise typer.Exit(RULE_BROKEN)


@contextmanager
def refusal_to_store() -> Iterator[None]:
    """Print the verdicts of a baseline that wasn't stored, and end with exit code 1."""
    try:
        yield
    except GateFailed as error:
        typer.echo(str(error).strip())
        say("the baseline stays as it was, since a rule is broken; --force stores it anyway")
        raise typer.Exit(RULE_BROKEN) from None


def check_files(files: Mapping[str, Path | None], read: Iterable[Path | None] = ()) -> None:
    """Refuse files that couldn't be written, and a page whose extra is missing, before any work."""
    taken = {path.resolve(): "a file that the command doesn't read" for path in read if path}
    for option, path in files.items():
        if path is None:
            continue
        if not is_stream(path):
            if (expected := taken.get(path.resolve())) is not None:
                raise InvalidInput(option, str(path), expected)
            taken[path.resolve()] = f"another file than that of {option}"
        folder = path.absolute().parent
        if not folder.is_dir():
            raise InvalidInput(option, str(path), "a file in a folder that exists")
        # a file is replaced by another beside it
        if not os.access(path if is_stream(path) else folder, os.W_OK):
            raise InvalidInput(option, str(path), "a file that may be written")
        if option == "--html":
            from llama_index_rag_metrics.report.html.assets import check_libraries

            check_libraries()


def say(message: str) -> None:
    """Print a message on standard error, in one line; what is in it can't steer a terminal."""
    typer.echo(f"rag-metrics: {terminal(message)}", err=True)
