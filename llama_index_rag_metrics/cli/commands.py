"""Commands made of functions: a signature has the options, its docstring their help.

A command ends with exit code 2 and one line on standard error where its user can mend what is
wrong, and with 130 after Ctrl-C.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import reload
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import typer

from llama_index_rag_metrics.cli import outcome
from llama_index_rag_metrics.cli.help import Command, Docstring, Group, epilog, read_rows, styled
from llama_index_rag_metrics.runtime.atomic_files import is_stream
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics.report.reportable import Reportable

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., None])

Count = Annotated[T, {"min": 1, "metavar": "N"}]
Natural = Annotated[T, {"min": 0, "metavar": "N"}]
NewFile = Annotated[T, {"dir_okay": False}]
Form = Literal["table", "markdown", "json"]

_JSON = inspect.Parameter(
    "json",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[Path | None, {"dir_okay": False}],
)
"""What every command has."""

_SHARED = """
Args:
    corpus: What can be retrieved today: a folder that LlamaIndex persisted, a dataset, a file like
        BEIR's corpus.jsonl, or package.module:factory that makes an index, a vector store or nodes.
        Default: the dataset's own corpus.
    dataset (DATASET): The labels: a BEIR folder, or a file that RetrievalDataset.load reads.
    depth: How many of each ranking are read, best first.
    form (--format): How the result is printed.
    html: Write the report as one HTML file.
    json: Write the unrounded numbers as JSON.
    llm (FACTORY): package.module:factory, which makes an LLM of LlamaIndex, or the LLM.
    min_score: Leave out passages with a lower score of the retriever, as
        SimilarityPostprocessor(similarity_cutoff=…) would.
    match_on (KEY): Which id of a passage the labels use: node_id, ref_doc_id or a metadata key.
    metric (-m, METRIC): A metric, such as ndcg@10. Repeat the option, or use commas.
        `rag-metrics metrics` lists all.
    progress (--progress/--no-progress): Show a progress bar.
    question_id (ATTRIBUTE): If RUN is a file of traces: the attribute of the spans that holds the
        id of the question, such as question_id. Default: every trace is a question.
    tokenizer: What tokens are counted by: an encoding of tiktoken, such as cl100k_base, or
        package.module:function. Default: LlamaIndex's.
    top_k: How many passages to retrieve. Default: the largest cutoff; at least 10 if a metric has
        none.
    workers: How many questions to ask at once.
    worst: How many of the hardest questions to show.
"""
"""The help of what several commands have."""

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes: the command did its work and something is wrong with what it found; and others."""

app = typer.Typer(
    name="rag-metrics",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 1000},
)
labels = typer.Typer(
    name="labels",
    cls=Group,
    help="Check labels, move them to new nodes, add to them.",
    no_args_is_help=True,
)
app.add_typer(labels)


def command(
    group: typer.Typer, name: str, *, ok: str = "", failed: str = "", needs_llama_index: bool = True
) -> Callable[[Function], Function]:
    """Make a function a command; its positional arguments are arguments, the others options."""
    meanings = {0: ok, FAILED: failed, WRONG_USAGE: "the command can't run as written"}
    codes = [f"Exit code {code}: {meaning}." for code, meaning in meanings.items() if meaning]

    def decorate(function: Function) -> Function:
        docstring = Docstring(inspect.getdoc(function) or "")
        rows = read_rows(_SHARED) | docstring.rows
        own = inspect.signature(function, eval_str=True).parameters
        parameters = {**own, "json": _JSON}
        written = [name for name in own if "dir_okay" in str(own[name].annotation)]
        names = {name: rows[name].name(parameter) for name, parameter in parameters.items()}

        def run(*, json: Path | None, **given: Any) -> None:
            with _errors_in_one_line(names):
                for option in ["json", *written]:
                    if {**given, "json": json}[option] == outcome.STDOUT:
                        raise InvalidInput(names[option], "-", "the name of a file")
                check_files({"--json": json})
                outcome.check_path(json, given, names, written)
            with (
                outcome.recorded(json),
                _errors_in_one_line(names),
                interrupted("nothing was written"),
            ):
                run_package(needs_llama_index=needs_llama_index)
                function(**given)

        if docstring.groups:
            docstring.groups.setdefault("json", "Output")
        order = [name for name in docstring.groups if name in parameters]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                rows[name].described(parameters[name], docstring.groups.get(name))
                for name in sorted(parameters, key=lambda name: name in order and order.index(name))
            ]
        )
        below = epilog(docstring.examples, codes)
        group.command(name, cls=Command, help=docstring.summary, epilog=below)(run)
        return function

    return decorate


def run_package(*, needs_llama_index: bool = True) -> None:
    """Import the package itself, which the script leaves out, and LlamaIndex if it is needed.

    Otherwise the metrics get LlamaIndex's base class alone: its packages are empty meanwhile, and
    forgotten afterwards, so that whatever asks for LlamaIndex later imports it as usual.
    """
    package = sys.modules[__name__.partition(".")[0]]
    if hasattr(package, "__all__"):
        return
    if needs_llama_index or "llama_index.core" in sys.modules:
        reload(package)
        return
    for name in _PACKAGES_OF_METRICS:
        sys.modules[name] = module_from_spec(cast("ModuleSpec", find_spec(name)))
    reload(package)
    for name in [name for name in sys.modules if name.startswith(_PACKAGES_OF_METRICS[0])]:
        del sys.modules[name]


_PACKAGES_OF_METRICS = (
    "llama_index.core",
    "llama_index.core.evaluation",
    "llama_index.core.evaluation.retrieval",
)
"""The packages around LlamaIndex's `metrics_base`, which itself needs pydantic only."""


@contextmanager
def _errors_in_one_line(names: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except (RagMetricsError, OSError) as error:
        message = _message(error, names)
        say(message, is_error=True)
        raise typer.Exit(WRONG_USAGE) from None


@contextmanager
def interrupted(kept: str, path: Path | None = None) -> Iterator[None]:
    """Say after Ctrl-C what is kept of the work, if there is such a file."""
    try:
        yield
    except KeyboardInterrupt:
        is_kept = path is None or path.exists()
        say(f"interrupted: {kept if is_kept else 'nothing was kept'}")
        raise typer.Exit(INTERRUPTED) from None


_CALLED = {
    "index_or_nodes": ("corpus", "new_nodes", "nodes"),
    "judgements": ("qrels", "output"),
    "metrics": ("metric",),
    "path": ("output",),
}
"""Arguments of the package that a command calls otherwise."""

_REMEDIES = {
    "texts": "A metric of texts needs questions and texts, which `rag-metrics evaluate` has.",
    "matcher": "A matcher needs what it compares: `rag-metrics evaluate --matcher` has it.",
    "llm": "Set Settings.llm in the module of --retriever.",
    "embed_model": "Set Settings.embed_model in the module of --retriever.",
    "spans": "Give RUN as JSON lines with retrieved_spans.",
    "scores": "Give RUN as a TREC run, or as JSON lines with scores.",
    "tokens": "Give RUN as JSON lines with retrieved_texts, or use a cutoff by rank, such as @10.",
}
"""How a command is given what an error says that it lacks."""


def _message(error: RagMetricsError | OSError, names: Mapping[str, str]) -> str:
    """The message of an error, with a command's names of its arguments."""
    from llama_index_rag_metrics.files.lines import LacksField

    if isinstance(error, InvalidInput):
        argument, space, rest = error.argument.partition(" ")
        known = (name for name in (argument, *_CALLED.get(argument, ())) if name in names)
        shown = next((names[name] for name in known), argument)
        return error.worded(f"{shown}{space}{rest}", _REMEDIES.get(error.lacks, error.remedy))
    if isinstance(error, LacksField):
        return error.worded("")
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


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


def chosen_metrics(names: Iterable[str] | None) -> list[BaseRetrievalMetric]:
    """The metrics of those names, which may be joined by commas; by default the usual ones."""
    from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS, metrics, split_names

    single = [part.strip() for name in names or () for part in split_names(name)]
    return metrics(single or DEFAULT_METRICS)


def say_of_threshold(min_score: float | None, systems: int, what: str) -> None:
    """Say that one threshold doesn't fit several systems unless their scores are of one kind."""
    if min_score is not None and systems > 1:
        say(f"--min-score cuts {systems} {what} at the same score: only scores of one kind compare")


def fail_if(something_is_wrong: object) -> None:
    """End with exit code 1 where something is wrong."""
    if something_is_wrong:
        raise typer.Exit(FAILED)


def say(message: str, *, is_error: bool = False) -> None:
    """Print a message on standard error, in one line; what is in it can't steer a terminal."""
    from llama_index_rag_metrics.report.escape import terminal

    line = f"rag-metrics: {terminal(message)}"
    typer.echo(styled(line, fg="red") if is_error else line, err=True)


def show(result: Reportable, form: Form, *, html: Path | None = None) -> None:
    """Print a result, after it was written to the files that were asked for."""
    from llama_index_rag_metrics.report.terminal import print_report

    outcome.found_in(result)
    if html is not None:
        result.to_html(html)
    if form == "table":
        print_report(result.report())
    else:
        text = result.to_json() if form == "json" else result.to_markdown()
        typer.echo(text.rstrip("\n"))
