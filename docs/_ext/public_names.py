"""`{public-names}`: the pages of the reference, a page for each title, from `__all__`.

Behind a result stands what it holds.
"""

from __future__ import annotations

import inspect
import re
import sys
from operator import attrgetter
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import llama_index_rag_metrics as package
from llama_index_rag_metrics import labels

TITLES = {
    "evaluation": "Evaluating retrievers",
    "report": "Evaluating retrievers",
    "files.retrieval_dataset": "Datasets",
    "labels.question_generation": "Generated questions",
    "rankings": "Relevance and runs",
    "scores.score_rankings": "Stored rankings",
    "scores.score_tables": "Stored rankings",
    "files": "Reading and writing files",
    "scores": "Scores",
    "labels": "Labels: checked, moved, pooled, reviewed",
    "decisions": "Comparing",
    "rankings.fusion": "Several retrievals as one",
    "decisions.gate": "The gate",
    "metrics": "Metrics of rankings",
    "metrics.texts": "Metrics of texts",
    "rankings.matching": "Matchers",
    "metrics.metric_names": "Names",
    "rankings.judging.beside": "Names",
    "runtime.cache": "Cache",
    "runtime.errors": "Errors",
}
"""The titles of the pages in order, by where a name is defined; the longest fit counts."""

PARTS = {
    "EvaluationResults": ("HardQuestions",),
    "Scores": ("Counts",),
    "labels.LabelFindings": ("Finding",),
    "Comparison": ("Difference", "MeanInterval"),
    "check_rules": ("GateReport", "Verdict"),
    "evaluate_stages": ("StageResults",),
    "sweep": ("Sweep",),
}
"""What results hold, as the modules of their classes name it."""


def public_names() -> list[str]:
    """The names of the package, and those of its tools for labels, behind their room."""
    tools = [f"labels.{name}" for name in labels.__all__ if name not in package.__all__]
    return sorted([*package.__all__, *tools])


def title_of(name: str) -> str:
    """The title of the page on which a public name stands."""
    value = attrgetter(name)(package)
    module = value.__module__ if hasattr(value, "__module__") else type(value).__module__
    place = module.removeprefix(f"{package.__name__}.")
    return TITLES[max((key for key in TITLES if f"{place}.".startswith(f"{key}.")), key=len)]


def as_restructured(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Docstrings are plain text with `code` in backticks; outside of it a bar is only a bar."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(?<!`)`([^`]+)`(?!`)", line)
            parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
            parts[1::2] = [f"``{part}``" for part in parts[1::2]]
            lines[number] = "".join(parts)


def parts_of(name: str) -> list[str]:
    """Where the classes of what a result holds are defined, within the package."""
    module = sys.modules[attrgetter(name)(package).__module__]
    parts = [getattr(module, part) for part in PARTS.get(name, ())]
    inside = f"{package.__name__}."
    return [f"{part.__module__}.{part.__name__}".removeprefix(inside) for part in parts]


def documented(name: str) -> str:
    """The autodoc directive of a public name, or of a part of one."""
    value = attrgetter(name)(package)
    if inspect.isclass(value):
        # fields of pydantic stand in the class's own docstring
        options = "" if hasattr(value, "model_fields") else "   :members:\n"
        return f".. autoclass:: {package.__name__}.{name}\n{options}"
    if inspect.isfunction(value):
        return f".. autofunction:: {package.__name__}.{name}\n"
    return f".. autodata:: {package.__name__}.{name}\n   :no-value:\n"


def linked(name: str) -> str:
    """A public name that leads to its documentation."""
    return f"{{py:obj}}`{name.rpartition('.')[2]} <{package.__name__}.{name}>`"


def by_title() -> dict[str, list[str]]:
    """Title of a page to its public names, functions first."""
    pages: dict[str, list[str]] = {title: [] for title in TITLES.values()}
    for name in public_names():
        short = name.rpartition(".")[2]
        value = attrgetter(name)(package)
        if short == getattr(value, "__name__", short):  # not another name of one
            pages[title_of(name)].append(name)
    for names in pages.values():
        names.sort(key=lambda name: inspect.isclass(attrgetter(name)(package)))
    return pages


def place_of(title: str) -> str:
    """The page of a title, beside the reference's own."""
    return f"reference/{re.sub('[^a-z]+', '-', title.lower()).strip('-')}"


def write_pages(app: Sphinx) -> None:
    """A page for each title, which only its directive fills, and no other."""
    pages = {Path(app.srcdir) / f"{place_of(title)}.md": title for title in by_title()}
    for path in {*(Path(app.srcdir) / "reference").glob("*.md")} - pages.keys():
        path.unlink()
    for path, title in pages.items():
        text = f"# {title}\n\n```{{public-names}} {title}\n```\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


class PublicNames(SphinxDirective):
    """The names of a title, each with its documentation; without one, where each is found."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        if self.arguments:
            names = [each for name in by_title()[self.arguments[0]] for each in parted(name)]
            documents = map(documented, names)
            lines = [" · ".join(map(linked, names)), "", "```{eval-rst}", *documents, "```"]
        else:
            lines = []
            for title, names in by_title().items():
                lines += [f"## [{title}]({place_of(title)}.md)", "", " · ".join(map(linked, names))]
            lines += ["", "```{toctree}", ":hidden:", "", *map(place_of, by_title()), "```"]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def parted(name: str) -> list[str]:
    """A public name, and the classes of what its results hold."""
    return [name, *parts_of(name)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", as_restructured, priority=100)  # before napoleon
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
