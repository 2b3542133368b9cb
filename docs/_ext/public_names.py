"""`{public-names}`: autodoc of every public name, from `__all__`, in the order of its module.

Behind a result, autodoc of what it holds.
"""

from __future__ import annotations

import inspect
import re
import sys
from operator import attrgetter

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import llama_index_rag_metrics as package

TITLES = {
    "evaluation": "Evaluating retrievers",
    "report": "Evaluating retrievers",
    "files.retrieval_dataset": "Datasets",
    "labels.question_generation": "Generated questions",
    "rankings": "Relevance and runs",
    "scores.scoring": "Stored rankings",
    "files": "Reading and writing files",
    "scores": "Scores",
    "labels": "Labels: checked, moved, pooled, reviewed, calibrated",
    "decisions.calibration": "Labels: checked, moved, pooled, reviewed, calibrated",
    "labels.nugget_creation": "Nuggets",
    "labels.nuggets": "Nuggets",
    "decisions": "Comparing",
    "rankings.fusion": "Several retrievals as one",
    "decisions.gate": "The gate",
    "metrics": "Metrics of rankings",
    "metrics.texts": "Metrics of texts",
    "rankings.matching": "Matchers",
    "metrics.metric_names": "Names",
    "rankings.tokens": "Names",
    "runtime.cache": "Cache",
    "evaluation.trace_scores": "Inside other tools",
    "runtime.errors": "Errors",
}
"""The headings of the page in order, by where a name is defined; the longest fit counts."""

PARTS = {
    "EvaluationResults": ("HardQuestions",),
    "Scores": ("Counts", "MetricInterval"),
    "LabelFindings": ("Finding", "Coverage"),
    "MovedLabels": ("Move",),
    "Calibration": ("Calibrated",),
    "Comparison": ("Difference", "SystemPair", "Holes", "MeanInterval"),
    "Power": ("MetricPower",),
    "GateReport": ("Verdict", "WorstQuery"),
}
"""What results hold, as the modules of their classes name it."""


def title_of(name: str) -> str:
    """The heading under which a public name stands."""
    value = getattr(package, name)
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
    module = sys.modules[getattr(package, name).__module__]
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


class PublicNames(SphinxDirective):
    """Headings, and under each its names, each with its documentation."""

    def run(self) -> list[nodes.Node]:
        by_title: dict[str, list[str]] = {title: [] for title in TITLES.values()}
        for name in sorted(package.__all__):
            if name == getattr(getattr(package, name), "__name__", name):  # not another name of one
                by_title[title_of(name)].append(name)
        lines: list[str] = []
        for title, names in by_title.items():
            names.sort(key=lambda name: inspect.isclass(getattr(package, name)))  # functions first
            listed = [each for name in names for each in (name, *parts_of(name))]
            lines += [f"## {title}", "", " · ".join(map(linked, listed)), "", "```{eval-rst}"]
            lines += [documented(name) for name in listed]
            lines += ["```", ""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", as_restructured, priority=100)  # before napoleon
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
