"""Commands made of functions: a signature has the options, its docstring their help.

A command ends with exit code 2 and one line on standard error where its user can mend what is
wrong, and with 130 after Ctrl-C.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import reload
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import typer

from llama_index_rag_metrics.runtime.atomic_files import is_stream
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingKey, RagMetricsError

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.reportable import Reportable

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., None])

Count = Annotated[T, {"min": 1, "metavar": "N"}]
Natural = Annotated[T, {"min": 0, "metavar": "N"}]
NotNegative = Annotated[T, {"min": 0}]
NewFile = Annotated[T, {"dir_okay": False}]
Form = Literal["table", "markdown", "json"]

_SHARED = """
Args:
    corpus: What can be retrieved today: a folder that LlamaIndex persisted, a dataset, a file like
        BEIR's corpus.jsonl, or package.module:factory that makes an index, a vector store or nodes.
        Default: the dataset's own corpus.
    dataset: The labels: a BEIR folder, or a file that RetrievalDataset.load reads.
    depth: How many of each ranking are read, best first.
    form (--format): How the result is printed.
    html: Write the report as one HTML file.
    ignore_identical_ids: Leave out documents whose id is the query's own.
    json: Write every score, unrounded, as JSON.
    llm: package.module:factory, which makes an LLM of LlamaIndex, or the LLM.
    match_on: Which id of a node the labels use: node_id, ref_doc_id or a metadata key.
    metric (-m, METRIC): A metric, such as ndcg@10. Repeat the option, or use commas. `rag-metrics
        metrics` lists all.
    on_error: Stop at a line that can't be read (raise), or skip it.
    progress (--progress/--no-progress): Show a progress bar.
    question_id: If RUN is a file of traces: the attribute of the spans that holds the id of the
        question, such as question_id. Default: every trace is a question.
    split: Which qrels of a BEIR folder. Default: test.
    tokenizer: What tokens are counted by: an encoding of tiktoken, such as cl100k_base, or
        package.module:function. Default: LlamaIndex's.
    top_k: How many nodes to retrieve. Default: the largest cutoff; at least 10 if a metric has
        none.
    workers: How many queries to run at once.
    worst: How many of the hardest queries to show.
"""
"""The help of what several commands have."""

_ROW = re.compile(r"^ {4}(\w+)(?: \(([^)]*)\))?: (.+(?:\n {8}.+)*)", re.MULTILINE)
"""A row of `Args`: in brackets stand flags, and what help calls the value."""

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes: the command did its work and something is wrong with what it found; and others."""

app = typer.Typer(
    name="rag-metrics",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its columns cut long words off at 80 characters
    context_settings={"help_option_names": ["-h", "--help"]},
)
labels = typer.Typer(
    name="labels",
    help="Check labels, move them to new nodes, add to them.",
    no_args_is_help=True,
)
app.add_typer(labels)


class _Help(NamedTuple):
    flags: list[str]
    metavar: str | None
    text: str
    default: str

    @classmethod
    def rows(cls, docstring: str) -> dict[str, _Help]:
        """The help of each argument that a docstring describes."""
        rows = {}
        for name, brackets, words in _ROW.findall(docstring):
            parts = brackets.split(", ") if brackets else []
            flags = [part for part in parts if part.startswith("-")]
            if not any(flag.startswith("--") for flag in flags):
                flags.insert(0, f"{'-' if len(name) == 1 else '--'}{name.replace('_', '-')}")
            metavar = next((part for part in parts if not part.startswith("-")), None)
            text, _, default = " ".join(words.split()).partition(" Default: ")
            rows[name] = cls(flags, metavar, text, default.rstrip("."))
        return rows


def command(
    group: typer.Typer, name: str, *, ok: str = "", failed: str = ""
) -> Callable[[Function], Function]:
    """Make a function a command; its positional arguments are arguments, the others options.

    Args:
        group: the commands that it belongs to.
        name: what it is called.
        ok: the meaning of exit code 0, where that isn't plain.
        failed: the meaning of exit code 1, where it has one.
    """
    meanings = {0: ok, FAILED: failed, WRONG_USAGE: "the command can't run as written"}
    codes = [f"Exit code {code}: {meaning}." for code, meaning in meanings.items() if meaning]

    def decorate(function: Function) -> Function:
        docstring = inspect.getdoc(function) or ""
        rows = _Help.rows(_SHARED) | _Help.rows(docstring)
        signature = inspect.signature(function, eval_str=True)
        parameters = [_described(each, rows[each.name]) for each in signature.parameters.values()]
        names = {
            name: _name(parameter, rows[name]) for name, parameter in signature.parameters.items()
        }

        def run(**given: Any) -> None:
            with _errors_in_one_line(names), interrupted("nothing was written"):
                run_package()
                function(**given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        summary = docstring.partition("\n\nArgs:")[0]
        group.command(name, help=summary, epilog="\n\n".join(codes))(run)
        return function

    return decorate


def _name(parameter: inspect.Parameter, row: _Help) -> str:
    """What a user calls it: --option or ARGUMENT."""
    is_option = parameter.kind is parameter.KEYWORD_ONLY
    return row.flags[0] if is_option else row.metavar or parameter.name.upper()


def _described(parameter: inspect.Parameter, row: _Help) -> inspect.Parameter:
    """The parameter as Typer reads it."""
    kind, further = parameter.annotation, {}
    if get_origin(kind) is Annotated:
        kind, further = get_args(kind)
    further = {"metavar": row.metavar, "show_default": row.default or True, **further}
    if parameter.kind is parameter.KEYWORD_ONLY:
        about = typer.Option(*row.flags, help=row.text, **further)
    else:
        further["metavar"] = _name(parameter, row)
        about = typer.Argument(help=row.text, **further)
    return parameter.replace(annotation=Annotated[kind, about])


def run_package() -> None:
    """Import the package itself, which the script leaves out; it brings LlamaIndex along."""
    package = sys.modules[__name__.partition(".")[0]]
    if not hasattr(package, "__all__"):
        reload(package)


@contextmanager
def _errors_in_one_line(names: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except (RagMetricsError, OSError) as error:
        say(_message(error, names))
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
    "index_or_nodes": ("corpus", "new_nodes"),
    "judgements": ("qrels", "output"),
    "metrics": ("metric",),
    "path": ("output",),
}
"""Arguments of the package that a command calls otherwise."""

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


def _message(error: RagMetricsError | OSError, names: Mapping[str, str]) -> str:
    """The message of an error, with a command's names of its arguments."""
    from llama_index_rag_metrics.files.lines import LacksField

    if isinstance(error, InvalidInput):
        argument, space, rest = error.argument.partition(" ")
        known = (name for name in (argument, *_CALLED.get(argument, ())) if name in names)
        shown = next((names[name] for name in known), argument)
        return error.worded(f"{shown}{space}{rest}", _REMEDIES.get(error.lacks, error.remedy))
    if isinstance(error, LacksField):
        return error.worded("--columns FIELD=COLUMN" if "columns" in names else "")
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return error.worded("set ") if isinstance(error, MissingKey) else str(error)


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


def fail_if(something_is_wrong: object) -> None:
    """End with exit code 1 where something is wrong."""
    if something_is_wrong:
        raise typer.Exit(FAILED)


def say(message: str) -> None:
    """Print a message on standard error, in one line; what is in it can't steer a terminal."""
    from llama_index_rag_metrics.report.escape import terminal

    typer.echo(f"rag-metrics: {terminal(message)}", err=True)


def show(
    result: Reportable, form: Form, *, json: Path | None = None, html: Path | None = None
) -> None:
    """Print a result, after it was written to the files that were asked for."""
    from llama_index_rag_metrics.report.terminal import print_report

    if json is not None:
        result.to_json(json)
    if html is not None:
        result.to_html(html)
    if form == "table":
        print_report(result.report())
    else:
        text = result.to_json() if form == "json" else result.to_markdown()
        typer.echo(text.rstrip("\n"))
