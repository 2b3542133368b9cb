"""Sweep: every configuration of a grid with its quality and its cost, and what is best of them."""

from __future__ import annotations

import math
from typing import Any

from llama_index_rag_metrics.decisions.comparison.comparison import Comparison, compare
from llama_index_rag_metrics.decisions.comparison.pairing import clusters_in_words
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.model import (
    Cell,
    Records,
    Report,
    Row,
    Section,
    Statement,
    Table,
    Tone,
)
from llama_index_rag_metrics.report.numbers import (
    counted,
    mean_of,
    percent,
    questions,
    rounded_up,
    score,
)
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import failures, glossary, remarks, unsaid

from .choice import Choice, Configuration
from .sweep_sentences import costs_in_words, decision_in_words

_DIGITS = 3
_CONFIGURATIONS, _FAILED = "Configurations", "Failed"
_COST_HEADINGS = {"tokens": "tokens a question", "p95": "p95"}
_HOW = (
    "At most worse by: how far the true mean on {metric} may lie below the best configuration's; "
    "all bounds hold at once with {confidence} confidence."
)
_LEFT_OUT = "left out of ranks and bounds: {questions} that not every configuration has a value for"


class Sweep(Reportable, Choice):
    """What `sweep` found: its configurations in the order of the grid.

    Attributes:
        metric_names: all metrics, of which the first decides.
        confidence: 1 - this is how often, at most, a winner is named though there is none, and how
            often a configuration that isn't within the tolerance is taken to be.
        tolerance: how much worse than the best one the recommended configuration may be.

    Examples:
        >>> from llama_index_rag_metrics import sweep
        >>> def build(top_k):
        ...     return lambda query: ["d2", "d1"][:top_k]
        >>> dataset = {"queries": {f"q{n}": "x?" for n in range(10)}, "corpus": {},
        ...            "relevant_docs": {f"q{n}": ["d1" if n else "d2"] for n in range(10)}}
        >>> swept = sweep(build, {"top_k": [1, 2]}, dataset, ["recall"])
        >>> swept.winner.name, swept["top_k=1"].mean("recall")
        ('top_k=2', 0.1)
    """

    @property
    def decision(self) -> str:
        """The result in one or two sentences."""
        return decision_in_words(self)

    def compare(self, baseline: str | None = None, **options: Any) -> Comparison:
        """The configurations compared with one of them, by default the first that was evaluated.

        `options` are the further arguments of `compare`.
        """
        settings = {"metrics": self.metric_names, **options}
        return compare(self.results, baseline or next(iter(self.results), ""), **settings)

    def report(self, *, full: bool = False) -> Report:
        """The decision, and every configuration with its quality and cost."""
        systems = self._systems()
        query_ids: set[str] = set()  # that have a value in any configuration, or should have one
        for system in systems:
            query_ids |= system.scores.by_query(self.primary).keys()
            query_ids |= system.scores.due(self.primary)
        sizes = [
            counted(len(self), "configuration", "configurations"),
            questions(len(query_ids)),
            counted(len(self.metric_names), "metric", "metrics"),
        ]
        about = list(systems[0].about.items()) if systems else []
        for system in systems:
            about = [pair for pair in about if pair in system.about.items()]
        statements = self._statements(systems)
        notes = []
        if self.finished and len(query_ids) > self.n_questions:
            missing = questions(len(query_ids) - self.n_questions)
            notes.append(_LEFT_OUT.format(questions=missing))
        if self.question_clusters is not None:
            notes.append(f"{clusters_in_words(None, self.question_clusters)}, each counted as one")
        return Report(
            title=f"Sweep over {', '.join(self._parameters) or 'one configuration'}",
            lead=", ".join(sizes),
            decision=statements,
            about=about,
            sections=self._sections(),
            failures=failures(systems),
            notes=[*notes, *unsaid(remarks(systems), statements)],
            glossary=glossary(self.metric_names),
            metrics=self.metric_names,
            primary=self.primary,
            figures={"tradeoff": self._tradeoff},
            records=self._records(),
        )

    def __repr__(self) -> str:
        return f"<Sweep of {len(self)} configurations: {self.decision}>"

    def _systems(self) -> list[System]:
        return [system_of(point.results, point.name) for point in self if point.results is not None]

    @property
    def _parameters(self) -> list[str]:
        names: dict[str, None] = {}
        for configuration in self:
            names |= dict.fromkeys(configuration.params)
        return list(names)

    def _statements(self, systems: list[System]) -> list[Statement]:
        tone: Tone = "open"
        if self.failed:
            tone = "alarm"
        elif self.recommended is not None and len(self.finished) > 1:
            tone = "best"
        evidence = _FAILED if self.failed else _CONFIGURATIONS
        statements = [Statement(self.decision, tone, evidence=evidence)]
        if costs := costs_in_words(self):
            statements.append(Statement(costs, evidence=_CONFIGURATIONS))
        # who graded, or that labels don't fit, where it holds for all configurations
        for note in systems[0].scores.label_notes if systems else ():
            if all(note in system.scores.label_notes for system in systems):
                statements.append(Statement(f"{note}.", "alarm"))
        return statements

    def _sections(self) -> list[Section]:
        sections = []
        if self.finished:
            text = _HOW.format(metric=self.primary, confidence=percent(self.confidence))
            sections.append(Section(_CONFIGURATIONS, [self._table()], text))
        if self.failed:
            rows = []
            for configuration in self.failed:
                error = Cell(configuration.error or "no question has a value")
                rows.append(Row(configuration.name, [error]))
            title = "Failed configurations"
            table = Table(title, ["error"], [rows], "configuration", text_columns=1)
            sections.append(Section(_FAILED, [table]))
        return sections

    def _table(self) -> Table:
        """The configurations, best mean first."""
        primary, *others = self.metric_names
        head = [*self._parameters, primary, "at most worse by"]
        head += [_COST_HEADINGS[cost] for cost in self.costs]
        head += [f"{percent(self.confidence)} interval", *others]
        rows = []
        for rank, configuration in enumerate(self.ranked, 1):
            rows.append(Row(str(rank), self._cells(configuration)))
        title, n_texts = f"Configurations on {primary}", len(self._parameters)
        return Table(title, head, [rows], "rank", text_columns=n_texts)

    def _cells(self, configuration: Configuration) -> list[Cell]:
        tone: Tone = "best" if configuration is self.recommended else "normal"
        texts = configuration.texts
        cells = [Cell(texts.get(name, ""), tone=tone) for name in self._parameters]
        means = []
        for metric in self.metric_names:
            mean = Cell.of(configuration.mean(metric), "score")
            means.append(mean_of(mean, self.n_questions, _DIGITS))
        bound = self._bound(configuration)
        if bound is not None:
            bound = float(rounded_up(bound, _DIGITS))
        cells += [means[0], Cell.of(bound, "score")._replace(digits=_DIGITS)]
        for cost in self.costs:
            amount = getattr(configuration, cost)
            cells.append(Cell.of(amount, "count" if cost == "tokens" else "seconds"))
        ends = self.interval(configuration)
        cells.append(Cell("score", "bounds", low=ends.low, high=ends.high, digits=_DIGITS))
        return [*cells, *means[1:]]

    def _bound(self, configuration: Configuration) -> float | None:
        """How much worse at most; None for what failed, and where there is no bound."""
        if configuration not in self.finished:
            return None
        bound = self.at_most_worse(configuration)
        return bound if math.isfinite(bound) else None

    def _records(self) -> Records:
        rows = []
        for configuration in self:
            row: dict[str, Any] = {"configuration": configuration.name}
            for name in self._parameters:
                # a number or None as it is, anything else as a text
                value, text = configuration.params.get(name), configuration.texts.get(name)
                is_plain = value is None or isinstance(value, (int, float))
                row[name] = value if is_plain and text == str(value) else text
            for metric in self.metric_names:
                row[metric] = configuration.mean(metric)
            row |= {
                "tokens": configuration.tokens,
                "p95": configuration.p95,
                "at_most_worse": self._bound(configuration),
                "recommended": configuration is self.recommended,
                "not_beaten": configuration in self.not_beaten,
                "error": configuration.error or None,
            }
            rows.append(row)
        return Records.of(rows, rows[0])

    def _tradeoff(self, metric: str | None = None) -> Figure | None:
        """Every configuration by its tokens and its quality; the recommended one has its name."""
        name = metric or self.primary
        named = self.recommended or next(iter(self.ranked), None)
        tokens, means, texts, labels = [], [], [], []
        for point in self.finished:
            mean = point.mean(name)
            if point.tokens is None or mean is None:
                continue
            tokens.append(point.tokens)
            means.append(mean)
            texts.append(f"{point}; tokens {score(point.tokens)}")
            labels.append(point.name if point is named else "")
        if not means:
            return None
        series = Series("configurations", 0, tokens, means, remarks=texts, labels=labels)
        return Figure("marks", Axis("tokens a question"), Axis(name), [series])
