"""The grid of a sweep: its configurations, known by texts that hold no secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product, starmap
from typing import Any, TypeAlias

import numpy as np
from pydantic import SecretStr

from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, system_of
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import mask, names_secret, register_secret
from llama_index_rag_metrics.scores.scores import listed_means
from llama_index_rag_metrics.stories.first_line import nothing_measured

Grid: TypeAlias = "Mapping[str, Iterable[Any] | Mapping[str, Any]]"
"""Parameter to its values, of which every combination is meant, or to {name: value}."""

_EXAMPLE = 'For example {"chunk_size": [128, 256], "model": {"small": model, "large": other}}.'
_CREDENTIALS = re.compile(
    r"://[^/\s@]*:([^/\s@]+)@|[?&][\w-]*(?:key|token|secret)=([^&#\s]+)", re.I
)


@dataclass(frozen=True, eq=False, repr=False)
class Configuration(Sentence):
    """One configuration of a sweep.

    Attributes:
        params: what `build` gets, by parameter.
        shown: the same as reports have it: a value that has a name is that name.
        results: of its evaluation; None where there was none.
        error: what ended its build or its evaluation; "" where nothing did.
        tokens: the mean tokens of a question, as deep as the metric reads; None if not counted.
    """

    params: Mapping[str, Any]
    shown: Mapping[str, Any]
    results: EvaluationResults | None = None
    error: str = ""
    tokens: float | None = None

    @property
    def name(self) -> str:
        """Its parameters as a text, such as "chunk_size=128, top_k=5"."""
        texts = [f"{parameter}={value}" for parameter, value in self.shown.items()]
        return ", ".join(texts) or "as it is"

    @property
    def run(self) -> str:
        """The name with texts in quotes, so that a journal of 3 isn't one of "3"."""
        return ", ".join(f"{parameter}={value!r}" for parameter, value in self.shown.items())

    def __str__(self) -> str:
        text = self.error
        if self.results is not None:
            scores = self.results.scores
            text = self.failure(next(iter(scores), "")) or listed_means(scores.means)
        return f"{self.name}: {text}"

    def mean(self, metric: str) -> float | None:
        """The mean on a metric; None where there is none."""
        if self.results is None:
            return None
        return system_of(self.results).mean(metric)

    def failure(self, metric: str) -> str:
        """Why it can't be compared on a metric; "" where it can."""
        if self.results is None or self.error or self.mean(metric) is not None:
            return self.error
        system = system_of(self.results)
        return system.invalid(metric) or nothing_measured(system.scores)

    @property
    def p95(self) -> float | None:
        """The seconds in which 95 % of the questions were answered; None if they weren't timed."""
        if self.results is None or self.results.run.latency is None:
            return None
        return self.results.run.latency.p95


def configurations_of(grid: Grid) -> dict[str, Configuration]:
    """The configurations of a grid by their names; the first parameter varies slowest."""
    if not isinstance(grid, Mapping):
        raise InvalidInput("grid", type(grid), "parameter to its values", _EXAMPLE)
    configurations: dict[str, Configuration] = {}
    for row in product(*starmap(_column, grid.items())):
        params, shown = {}, {}
        for parameter, (content, value) in zip(grid, row, strict=True):
            params[parameter], shown[parameter] = content, value
        configuration = Configuration(params, shown)
        if configuration.name in configurations:
            expected = "values that are told apart by their texts or names"
            raise InvalidInput("grid", f"{configuration.name} twice", expected, _EXAMPLE)
        configurations[configuration.name] = configuration
    if not configurations:
        raise InvalidInput("grid", "a parameter without values", "at least one value", _EXAMPLE)
    return configurations


def _column(parameter: str, values: Any) -> list[tuple[Any, Any]]:
    column = []
    if isinstance(values, Mapping):
        for name, content in values.items():
            for credentials in _CREDENTIALS.finditer(content if isinstance(content, str) else ""):
                register_secret(credentials[1] or credentials[2])
            column.append((content, mask(str(name))))
        return column
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        expected = "a list of values, or {name: value}"
        raise InvalidInput(f"grid[{parameter!r}]", type(values), expected, _EXAMPLE)
    for value in values:
        content = value.item() if isinstance(value, np.generic) else value
        _check(parameter, content)
        column.append((content, content))
    return column


def _check(parameter: str, content: Any) -> None:
    argument = f"grid[{parameter!r}]"
    is_secret = isinstance(content, SecretStr)
    if isinstance(content, str) and content:
        is_secret = names_secret(parameter) or mask(content) != content
    if is_secret:
        sentence = f"{argument} looks like a secret, and grids are shown."
        remedy = 'Let build read it, such as from os.environ, or name it: {"mine": value}.'
        raise InvalidInput(argument, "", sentence=sentence, remedy=remedy)
    if content is not None and not isinstance(content, (bool, str, int, float)):
        expected = "texts, numbers, True, False or None"
        remedy = f'Name them: {{"{parameter}": {{"a name": value}}}}.'
        raise InvalidInput(argument, type(content).__qualname__, expected, remedy)
