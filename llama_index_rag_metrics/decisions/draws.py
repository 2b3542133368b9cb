"""draw_changed(): which questions to label, where only some retrieve something else.

Where two systems retrieve the same, their difference is known to be 0 without a label. So the
difference over all questions is that over the changed ones times their share, and labels are needed
for a random sample of the changed ones alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.clusters import Clusters, clusters_of
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.files.lines import Place, from_json, read_text
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import metric as metric_of
from llama_index_rag_metrics.rankings.judging.judged import TokenBudget
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.numbers import percent, questions, significant
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable, write_text
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, RagMetricsError
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.mappings import ranking_digest, slice_of
from llama_index_rag_metrics.statistics.intervals import mean_interval

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

RunLike: TypeAlias = "Run | EvaluationResults | Mapping[str, Sequence[str]]"

_FORMAT = "llama-index-rag-metrics draw, version 1"

_GOLDEN = (math.sqrt(5) - 1) / 2

_OF_ANY_ORDER = frozenset(
    ("hit_rate", "precision", "recall", "f", "complete", "facet_recall", "group_recall", "group_f1")
)
"""Metrics that see which passages are within the cutoff, not in which order."""


@dataclass(frozen=True, repr=False)
class Draw(Sentence):
    """Questions drawn at random among those for which two systems retrieve something else.

    Attributes:
        systems: the names of the two systems.
        k: how many passages were compared; None for whole lists.
        whole: whether no list was longer than that.
        order: whether the same passages in another order count as something else.
        seed: of the random order.
        asked: all questions, sorted.
        changed: those that retrieve something else, sorted; questions on which a system failed are
            among them.
        drawn: those to label, in the order drawn.
        labelled: those of the drawn that have labels already.
        rankings: question to the digests of both rankings, by which other runs are noticed.
        metadata: question to its metadata, where it has any.

    Examples:
        >>> old = {"q1": ["a", "b"], "q2": ["c", "d"], "q3": ["e"]}
        >>> new = {"q1": ["a", "b"], "q2": ["d", "c"], "q3": ["e"]}
        >>> draw = draw_changed({"old": old, "new": new}, k=10, n=60)
        >>> print(draw)
        33 % of 3 questions retrieve something else in the first 10: 1, which is drawn.
        >>> draw.drawn, round(draw.share, 4)
        (('q2',), 0.3333)
    """

    systems: tuple[str, str]
    k: int | None
    whole: bool
    order: bool
    seed: int
    asked: tuple[str, ...]
    changed: tuple[str, ...]
    drawn: tuple[str, ...]
    labelled: tuple[str, ...] = ()
    rankings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the questions that retrieve something else, from 0 to 1."""
        return len(self.changed) / len(self.asked)

    @property
    def found(self) -> str:
        """Such as "41 % of 2,000 questions retrieve something else in the first 10"."""
        what = "something else" if self.order else "other passages"
        where = "" if self.k is None else f" in the first {self.k}"
        n = questions(len(self.asked))
        if not self.changed:
            return f"None of {n} retrieves {what}{where}"
        rounded = significant(self.share, 2)
        share = percent(self.share if rounded == 1 > self.share else rounded)
        return f"{share} of {n} retrieve {what}{where}"

    @property
    def used(self) -> str:
        """What a decision on the draw rests on, as one sentence."""
        n, verb = len(self.drawn), "shows" if len(self.drawn) == 1 else "show"
        return (
            f"{self.found}; {n:,} of them, labelled, {verb} the difference over all "
            f"{len(self.asked):,}."
        )

    def __str__(self) -> str:
        n, changed = len(self.drawn), len(self.changed)
        if not changed:
            return f"{self.found}: there is nothing to label."
        if n == changed:
            drawn = ": 1, which is drawn" if n == 1 else f": all {n:,} of these are drawn"
        else:
            drawn = f"; {n:,} of these {changed:,} are drawn"
        labelled = f", {len(self.labelled):,} of them labelled already" if self.labelled else ""
        return f"{self.found}{drawn}{labelled}."

    def share_between(
        self, confidence: float, clusters: Clusters | None = None
    ) -> tuple[float, float]:
        """The true share is above the one and below the other, each with this confidence."""
        changed = set(self.changed)
        is_changed = np.array([query_id in changed for query_id in self.asked], np.float64)
        numbers = clusters_of(clusters, self.asked, self.metadata)
        interval = mean_interval(is_changed, confidence=2 * confidence - 1, clusters=numbers)
        low, high = interval.low, interval.high
        return (0.0, 1.0) if low is None or high is None else (low, high)

    def select(self, run: Run) -> Run:
        """The run for the drawn questions alone, in order of their ids."""
        if missing := [query_id for query_id in self.drawn if query_id not in run]:
            expected = "a ranking for each drawn question"
            raise InvalidInput("runs", f"none for {join_first(missing)}", expected)
        return run.select(sorted(self.drawn))

    def in_slice(self, key: str, value: object) -> Draw:
        """The draw among the questions with a value of their metadata; None for those without."""
        wanted = slice_of(value)
        members = {query_id for query_id in self.asked if self._value(query_id, key) == wanted}

        def kept(query_ids: Sequence[str]) -> tuple[str, ...]:
            return tuple(query_id for query_id in query_ids if query_id in members)

        return replace(
            self,
            asked=kept(self.asked),
            changed=kept(self.changed),
            drawn=kept(self.drawn),
            labelled=kept(self.labelled),
        )

    def by_slice(self, key: str) -> str:
        """How many changed and how many are drawn of each value of a key of the metadata."""
        parts = [(value, self.in_slice(key, value)) for value in self.slice_values(key)]
        counts = [
            f"{'without' if value is None else value} {len(part.changed):,} of "
            f"{len(part.asked):,} and {len(part.drawn):,}"
            for value, part in parts
        ]
        return f"changed and drawn by {key}: {'; '.join(counts)}"

    def slice_values(self, key: str) -> list[str | None]:
        """The values of a key of the metadata, in order of their questions."""
        return list(dict.fromkeys(self._value(query_id, key) for query_id in self.asked))

    def _value(self, query_id: str, key: str) -> str | None:
        return slice_of(self.metadata.get(query_id, {}).get(key))

    def unseen_by(self, name: str) -> str:
        """Why a metric may differ where nothing else is retrieved; "" where it can't."""
        try:
            metric = metric_of(name)
        except RagMetricsError:
            return "nobody knows how much of a ranking it reads"
        if not isinstance(metric, RankingMetric):
            return "it reads texts, not rankings"
        if beyond := sorted(metric.needs & {"calls", "forbidden"}):
            what = {"calls": "calls", "forbidden": "what is forbidden"}[beyond[0]]
            return f"it reads {what}, which wasn't compared"
        cutoff = getattr(metric, "cutoff", None)
        if self.k is not None and not self.whole:
            if not isinstance(cutoff, int):
                reads = "the whole ranking" if cutoff is None else "as many as fit into its tokens"
                return f"it reads {reads}, and {self.k} passages were compared: draw with k=None"
            if cutoff > self.k:
                return f"it reads {cutoff} passages, and {self.k} were compared"
        if self.order:
            return ""
        if metric.name not in _OF_ANY_ORDER or isinstance(cutoff, TokenBudget):
            return "it depends on the order, which wasn't compared: draw with order=True"
        if cutoff == self.k or (self.whole and (cutoff is None or cutoff > (self.k or 0))):
            return ""
        return "passages in another order can change it: draw with its own cutoff as k"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the draw as JSON, for `load`, `rag-metrics labels pool` and `rag-metrics gate`."""
        changed = set(self.changed)
        content = {
            "format": _FORMAT,
            "systems": self.systems,
            "k": self.k,
            "whole": self.whole,
            "order": self.order,
            "seed": self.seed,
            "drawn": self.drawn,
            "labelled": self.labelled,
            "rankings": {query_id: " ".join(both) for query_id, both in self.rankings.items()},
            "changed": self.changed,
            "unchanged": [query_id for query_id in self.asked if query_id not in changed],
            "metadata": self.metadata,
        }
        write_text(Path(path), f"{json_text(jsonable(content, 'draw'), indent=1)}\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Draw:
        """Read what `save` wrote.

        Raises:
            FileFormatError: `save` didn't write it, or it was damaged since.
        """
        data = from_json(read_text(Path(path)), Place(str(path)))
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise FileFormatError(str(path), None, f"a file whose format is {_FORMAT!r}")
        try:
            old, new = data["systems"]
            draw = cls(
                systems=(str(old), str(new)),
                k=data["k"],
                whole=bool(data["whole"]),
                order=bool(data["order"]),
                seed=int(data["seed"]),
                asked=tuple(sorted([*data["changed"], *data["unchanged"]])),
                changed=tuple(data["changed"]),
                drawn=tuple(data["drawn"]),
                labelled=tuple(data["labelled"]),
                rankings={query_id: _two(both) for query_id, both in data["rankings"].items()},
                metadata=data["metadata"],
            )
            sizes = (set(draw.asked), set(draw.changed), set(draw.drawn), set(draw.labelled))
            lengths = (draw.asked, draw.changed, draw.drawn, draw.labelled)
            if not sizes[0] >= sizes[1] >= sizes[2] >= sizes[3] or not draw.asked:
                raise ValueError("questions drawn that didn't change")
            if [*map(len, sizes)] != [*map(len, lengths)] or draw.rankings.keys() != sizes[0]:
                raise ValueError("a question twice, or without its rankings")
            if [*draw.drawn] != _at_random(sorted(draw.changed), draw.seed)[: len(draw.drawn)]:
                raise ValueError(f"questions other than those that seed {draw.seed} draws")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            expected = "a draw as it was written; draw again"
            raise FileFormatError(str(path), None, expected, f"{error}") from error
        return draw


DrawLike: TypeAlias = "Draw | str | os.PathLike[str]"
"""A draw, or the file that holds one."""


def as_draw(drawn: DrawLike) -> Draw:
    if isinstance(drawn, (str, os.PathLike)):
        return Draw.load(drawn)
    if not isinstance(drawn, Draw):
        raise InvalidInput("drawn", drawn, "what draw_changed() made, or the file that holds it")
    return drawn


def draw_changed(
    runs: Mapping[str, RunLike],
    *,
    k: int | None = 10,
    n: int = 60,
    order: bool = True,
    seed: int = 0,
    dataset: RetrievalDataset | None = None,
) -> Draw:
    """Draw the questions to label among those for which two systems retrieve something else.

    Run both systems on as many questions as there are, labelled or not. Where their first k
    passages are the same, in the same order, no metric up to that cutoff can differ. The questions
    to label are a random sample of the others; label all passages that both retrieve for them,
    score both runs, and give the draw to `compare` or `check_rules`.

    Args:
        runs: name to run, of two systems, the baseline first, over the same questions.
        k: how many passages are compared, copies dropped: the largest cutoff of the metrics that
            matter. None compares whole lists, for metrics without a cutoff or by tokens.
        n: how many questions to draw; all changed ones where there are no more.
        order: False counts only other passages as a change, whatever their order: fewer questions
            change, and hit rate, precision, recall and their like can be compared, at k alone.
        seed: the same seed gives the same order, and a larger n only adds questions to it.
        dataset: what is known of the questions: labels, which count where the draw hits them, and
            metadata, for slices.

    Raises:
        InvalidInput: not two runs, other questions in one than in the other, or a number out of
            range.

    Examples:
        >>> old = {f"q{number}": ["a", "b", "c"] for number in range(50)}
        >>> new = {**old, "q7": ["b", "a", "c"], "q9": ["a", "c", "b"], "q30": ["c"]}
        >>> print(draw_changed({"old": old, "new": new}, k=3, n=2))
        6 % of 50 questions retrieve something else in the first 3; 2 of these 3 are drawn.
        >>> draw_changed({"old": old, "new": new}, k=2, order=False).changed
        ('q30', 'q9')
    """
    if not isinstance(runs, Mapping) or len(runs) != 2:
        remedy = 'For example {"old": run, "new": run}; draw for each pair of systems on its own.'
        value = list(runs) if isinstance(runs, Mapping) else runs
        raise InvalidInput("runs", value, "two systems by name", remedy)
    if k is not None:
        check_integer("k", k, 1, "a number of passages, from 1 on, or None for whole lists")
    check_integer("n", n, 1)
    check_integer("seed", seed, 0)
    names = [*runs]
    old, new = (run_of(name, run) for name, run in runs.items())
    asked = _same_questions(names, old, new)
    changed = [
        query_id for query_id in asked if _retrieves_else(old[query_id], new[query_id], k, order)
    ]
    drawn = _at_random(changed, seed)[:n]
    labels = {} if dataset is None else dataset.relevance
    metadata = {} if dataset is None else dataset.metadata
    return Draw(
        systems=(names[0], names[1]),
        k=k,
        whole=k is None
        or all(len(set(each.ids)) <= k for run in (old, new) for each in run.values()),
        order=order,
        seed=seed,
        asked=tuple(asked),
        changed=tuple(changed),
        drawn=tuple(drawn),
        labelled=tuple(query_id for query_id in drawn if query_id in labels),
        rankings={
            query_id: (ranking_digest(old[query_id].ids), ranking_digest(new[query_id].ids))
            for query_id in asked
        },
        metadata={query_id: metadata[query_id] for query_id in asked if metadata.get(query_id)},
    )


def _at_random(changed: Sequence[str], seed: int) -> list[str]:
    in_random_order = np.random.default_rng(seed).permutation(np.array(changed, np.object_))
    return list(in_random_order.tolist())


def drawn_along(scores: Mapping[str, float], n: int, seed: int) -> list[str]:
    """N of the queries, each as likely as any other, spread over their scores.

    In order of their scores, ties by lot, they lie on a circle; from a random place on it goes
    round by the golden ratio. Any number of such steps is spread evenly (Weyl 1916), and a larger n
    only adds queries.

    >>> scores = {f"q{number}": number / 9 for number in range(10)}
    >>> drawn_along(scores, 4, seed=0), drawn_along(scores, 5, seed=0)
    (['q6', 'q2', 'q8', 'q4'], ['q6', 'q2', 'q8', 'q4', 'q0'])
    """
    rng = np.random.default_rng(seed)
    ordered = sorted(rng.permutation(np.array(sorted(scores), np.object_)), key=scores.__getitem__)
    start = rng.random()
    steps = np.arange(3 * len(ordered))  # enough to meet every query
    places = ((start + _GOLDEN * steps) % 1 * len(ordered)).astype(np.int64).tolist()
    return [ordered[place] for place in dict.fromkeys(places)][:n]


def run_of(name: str, source: Any) -> Run:
    """A run, of results or of query id to ranked ids."""
    run = source.run if isinstance(source, EvaluationResults) else source
    run = run if isinstance(run, Run) else Run(run, name=name)
    if run.repeats:
        expected = "one in which each question was asked once"
        remedy = "To pool them, give each of run.repeats as a run of its own."
        raise InvalidInput(f"run {name!r}", f"{len(run.repeats)} of each", expected, remedy)
    return run


def _same_questions(names: Sequence[str], old: Run, new: Run) -> list[str]:
    """The sorted questions of both runs."""
    lacking = [
        f"{name} lacks {len(missing):,} ({join_first(missing)})"
        for name, run, other in ((names[0], old, new), (names[1], new, old))
        if (missing := sorted(map(str, set(other) - set(run))))
    ]
    if lacking or not old:
        remedy = (
            "Where nothing was retrieved, a run needs an empty list; run.select() keeps the "
            "questions in common."
        )
        found = "; ".join(lacking) or "none"
        raise InvalidInput("runs", found, "rankings of the same questions", remedy)
    for query_id in old:
        if not isinstance(query_id, str):
            raise InvalidInput("query id", query_id, "a text", "Convert it with str().")
    return sorted(old)


def _two(digests: str) -> tuple[str, str]:
    first, second = digests.split(" ")
    return first, second


def _retrieves_else(old: Ranking, new: Ranking, k: int | None, order: bool) -> bool:
    """Whether the first k passages or an agent's calls differ, as far as known, or one failed."""
    if old.error is not None or new.error is not None:
        return True
    columns = [
        name
        for name in ("ids", "texts", "spans", "tokens")
        if getattr(old, name) is not None and getattr(new, name) is not None
    ]
    before, after = (_first(ranking, columns, k) for ranking in (old, new))
    same = before == after if order else set(before) == set(after)
    return not same or _searches(old) != _searches(new)


def _first(ranking: Ranking, columns: Sequence[str], k: int | None) -> list[tuple[Any, ...]]:
    """The first k passages, each once, with what is known of them."""
    first: dict[Any, tuple[Any, ...]] = {}
    for row in zip(*(getattr(ranking, name) for name in columns), strict=True):
        first.setdefault(row[0], row)
    return list(first.values())[:k]


def _searches(ranking: Ranking) -> list[list[str]]:
    """What each call retrieved, and what went to the model."""
    parts = [*(ranking.calls or ()), *([] if ranking.context is None else [ranking.context])]
    return [list(part.ids) for part in parts]
