"""What a report says of questions that were asked several times: how they vary, and which most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llama_index_rag_metrics.metrics.passes import Passes
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import cut_line
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.report.numbers import mean_of, questions
from llama_index_rag_metrics.scores.repeats import Spread, of_repeats
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.scores.stories import query_answers
from llama_index_rag_metrics.scores.systems import System, query_text

REPEATS = "Runs of the same question"  # the heading of the section
_HEAD = ("questions that differ", "within a question", "between questions")
_PASSES = "pass@k: the chance that at least one of k runs scores 1; pass^k: that all k do."
_AS_LONG = "in conversations as long as these"
_TIMES = (1, 2, 3, 5, 10)
_MOST_QUESTIONS, _MOST_RUNS = 10, 10
_QUESTION_CHARACTERS = 48


def repeats_section(systems: Sequence[System], metrics: Sequence[str], metric: str) -> m.Section:
    """How runs differ, of one system on all metrics; empty without repeats."""
    is_one = len(systems) == 1
    shown = [(system, name) for system in systems for name in (metrics if is_one else [metric])]
    known = {
        spread.metric if is_one else system.name: spread
        for system, name in shown
        if (spread := _spread(system, name)) is not None
    }
    if not known:
        return m.Section(REPEATS, [])
    rows = [m.Row(label, _cells(spread)) for label, spread in known.items()]
    title = "Standard deviation of scores" + ("" if is_one else f" on {Passes.split(metric)[1]}")
    tables = [m.Table(title, _HEAD, [rows], first="metric" if is_one else "system")]
    passes: list[m.Table] = []
    if is_one and (spread := _spread(systems[0], metric)):
        passes = [*_passes(systems[0].scores, known)]
        tables = [*_differing(systems[0], spread), *tables, *passes, *_as_precise(spread)]
    return m.Section(REPEATS, tables, text=_PASSES if passes else "")


def _spread(system: System, metric: str) -> Spread | None:
    """None where no question was asked several times, or the metric has no value."""
    _, of_one_run = Passes.split(metric)
    if not any(of_one_run in run for run in system.scores.repeats[:1]):
        return None
    spread = system.scores.spread(of_one_run)
    return spread if spread.runs else None


def _cells(spread: Spread) -> list[m.Cell]:
    n = len(spread.runs)
    spreads = (m.Cell.of(value, "score") for value in (spread.within, spread.between))
    return [m.Cell((len(spread.unstable), n), "share"), *(mean_of(cell, n) for cell in spreads)]


def _differing(system: System, spread: Spread) -> Iterator[m.Table]:
    """The scores of the questions whose runs differ most."""
    shown = spread.unstable[:_MOST_QUESTIONS]
    runs = system.repeats[:_MOST_RUNS]
    columns = [run.by_query(spread.metric) for run in runs]
    digits, rows = 0 if spread.is_binary else 2, []
    for query_id in shown:
        text = cut_line(query_text(query_id, [system]), _QUESTION_CHARACTERS)
        scores = (m.Cell.of(column.get(query_id), "score") for column in columns)
        cells = [cell._replace(digits=digits) for cell in scores]
        rows.append(m.Row(f"{query_id}  {text}".strip(), cells))
    if rows:
        n = len(spread.unstable)
        remark = f"the first {len(rows)} of {n:,}" if n > len(rows) else ""
        title = f"Questions whose runs differ most on {spread.metric}"
        yield m.Table(title, [run.name for run in runs], [rows], first="question", remark=remark)


def _passes(scores: Scores, spreads: Mapping[str, Spread]) -> Iterator[m.Table]:
    """The chances to pass, of the metrics that are 0 or 1."""
    binary = [name for name, spread in spreads.items() if spread.is_binary]
    names = [f"pass{sign}{{}} {name}" for name in binary for sign in "@^"][:MOST_ABREAST]
    if not names:
        return
    rows = []
    for k in range(1, len(scores.repeats) + 1):
        chances = of_repeats(scores.repeats, [name.format(k) for name in names])
        means = ((m.Cell.of(chances.means[name], "score"), chances.n(name)) for name in chances)
        rows.append(m.Row(f"{k}", [mean_of(*each) for each in means]))
    yield m.Table("Chance to pass", [name.format("k") for name in names], [rows], first="k")


def _as_precise(spread: Spread) -> Iterator[m.Table]:
    """How many questions, asked how often, give an equally narrow interval of the mean."""
    rows = []
    for times in sorted({*_TIMES, max(map(len, spread.runs.values()))}):
        if (n := spread.questions(times)) is not None:
            label = "once" if times == 1 else f"{times} times"
            rows.append(m.Row(label, [m.Cell(n, "count"), m.Cell(n * times, "count")]))
    if rows:
        title = f"How many questions give as precise a mean of {spread.metric}"
        remark = _AS_LONG if spread.conversations else ""
        head = ["questions", "answers"]
        yield m.Table(title, head, [rows], first="each asked", place="detail", remark=remark)


def repeats_decision(systems: Sequence[System], metric: str) -> Iterator[m.Statement]:
    """How many questions differ between their runs, and how many asked once would do, of one."""
    if len(systems) > 1 or (spread := _spread(systems[0], metric)) is None:
        return
    n, times = len(spread.unstable), len(systems[0].scores.repeats)
    often = "" if all(len(runs) == times for runs in spread.runs.values()) else "up to "
    differing = f"{f'{n:,}' if n else 'none'} of {questions(len(spread.runs))}"
    score = "score" if n > 1 else "scores"
    text = f"{differing} {score} differently from run to run on {spread.metric}"
    if n and (once := spread.questions(1)):
        text += f"; {questions(once)} asked once would give as precise a mean"
        text += f", {_AS_LONG}" if spread.conversations else ""
    yield m.Statement(f"Asked {often}{times} times each, {text}.", evidence=REPEATS)


def unstable(systems: Sequence[System], metric: str, n: int) -> list[m.Listing]:
    """Of each system the questions whose runs differ most, with what each run retrieved."""
    listings = []
    for system in systems:
        if (spread := _spread(system, metric)) is None or not spread.unstable[:n]:
            continue
        repeats = system.repeats
        columns = [run.by_query(spread.metric) for run in repeats]
        shown = spread.unstable[:n]
        stories = [query_answers(each, repeats, spread.metric, columns) for each in shown]
        of_whom = f" of {system.name}" if len(systems) > 1 else ""
        title = f"What differs most on {spread.metric}{of_whom}, run by run"
        more = len(spread.unstable) - len(stories)
        listings.append(m.Listing(title, stories, more=more, on_request=True))
    return listings


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
