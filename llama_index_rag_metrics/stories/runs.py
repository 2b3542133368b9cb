"""What a report says of questions that were asked several times, of one system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.scores.repeats import runs_of
from llama_index_rag_metrics.stories.label_view import System

_DECISION = (
    "Asked {times} times each, {differing} of {all} {score} differently from run to run "
    "on {metric}."
)


def repeats_decision(systems: Sequence[System], metric: str) -> Iterator[m.Statement]:
    """How many questions differ between their runs, of one system."""
    repeats = systems[0].scores.repeats
    if len(systems) > 1 or not repeats or metric not in repeats[0]:
        return
    runs = runs_of(repeats, metric)
    if not runs:
        return
    differing = sum(len({*scores}) > 1 for scores in runs.values())
    is_complete = all(len(scores) == len(repeats) for scores in runs.values())
    text = _DECISION.format(
        times=len(repeats) if is_complete else f"up to {len(repeats)}",
        differing=f"{differing:,}" if differing else "none",
        all=questions(len(runs)),
        score="score" if differing > 1 else "scores",
        metric=metric,
    )
    yield m.Statement(text)


def with_runs(systems: Sequence[System]) -> Sequence[System]:
    """The means of one system without rankings, and its runs beside them; several as they are."""
    if len(systems) > 1 or not systems[0].scores.repeats or not systems[0].run:
        return systems
    [system] = systems
    means = system.scores.replace(answers={}, repeats=())
    return [system._replace(scores=means, run=system.run.replaced({})), *system.repeats]


def in_first_run(systems: Sequence[System], text: str) -> str:
    """A sentence of what is counted in rankings, where these are of the first of several runs."""
    if not text or not any(system.scores.repeats for system in systems):
        return text
    return f"In the first run: {text[0].lower()}{text[1:]}"
