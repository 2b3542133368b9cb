"""Stages: a retriever alone and after each of its postprocessors, every query asked once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.evaluation.as_ask import (
    Answer,
    Question,
    SourceLike,
    as_source,
    ask_captured,
    postprocessor_call,
    retrieval_depth,
)
from llama_index_rag_metrics.evaluation.ask_all import Answers
from llama_index_rag_metrics.evaluation.capturing import copies
from llama_index_rag_metrics.evaluation.evaluating import Evaluation
from llama_index_rag_metrics.evaluation.evaluation_results import (
    EvaluationResults,
    curve_figures,
    ranking_metric,
    system_of,
)
from llama_index_rag_metrics.evaluation.plan import Plan, checked_postprocessor
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.rankings.judging.beside import Tokenizer
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn, names_of
from llama_index_rag_metrics.rankings.matching.matched import MatcherLike
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.model import Cell, Listing, Report, Row, Statement, Table
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.report.text import excerpt, listed
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.containers import map_values
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import WORKERS, stopwatch, synchronous, within
from llama_index_rag_metrics.scores.batches import Failed, Metrics
from llama_index_rag_metrics.statistics.intervals import alpha_of
from llama_index_rag_metrics.stories import whereabouts
from llama_index_rag_metrics.stories.first_line import is_unmeasured, with_failures
from llama_index_rag_metrics.stories.label_view import Item, System, metrics_of
from llama_index_rag_metrics.stories.results_report import means_table, queries_of, systems_report

from .comparison.difference import TALLY, Difference, differences_of, what_to_do
from .comparison.pairing import Paired, pair

_CONFIDENCE = 0.95
_LISTED_LOSSES = 5


@dataclass(frozen=True, slots=True, repr=False)
class LostPassage(Sentence):
    """A relevant passage of a question that is missing at the end, with the stage that lost it."""

    stage: str  # the first after the last one that had it; "retriever" where none had
    query_id: str
    item: str  # the id of the passage; of a group, that of its best placed passage
    grade: float
    text: str = ""  # what it says, "" where nobody knows
    rank: int | None = None  # where the stage before had it; None where none did
    cause: str = whereabouts.NEVER  # how it was lost, such as "dropped by reranker"

    def __str__(self) -> str:
        passage = self.text and f" “{excerpt(self.text)}”"
        rank = "" if self.rank is None else f" (was {self.rank:,})"
        return f"{self.item} [{self.grade:g}]{passage}: {self.cause}{rank}"


class StageFlow(NamedTuple):
    """How many relevant passages are there after a stage, and how many it lost for good."""

    stage: str
    kept: int
    lost: int


class StageResults(Reportable, dict[str, EvaluationResults]):
    """The results of the pipeline up to every stage, by its name; `compare` takes them, too."""

    @property
    def losses(self) -> list[LostPassage]:
        """Every relevant passage that is missing at the end, with the one stage that lost it."""
        return self._counts[0]

    @property
    def flow(self) -> list[StageFlow]:
        """What each stage kept and lost, in order; all losses add up to what is missing."""
        return self._counts[1]

    @cached_property
    def differences(self) -> list[Difference]:
        """Each postprocessor beside the stage before; all intervals hold with 95 % confidence."""
        return [difference for difference in self._differences if difference.metric == self._metric]

    @cached_property
    def _differences(self) -> list[Difference]:
        keys = []
        for metric in self._paired.columns:
            keys += [(stage, metric, previous) for previous, stage in pairwise(self)]
        return list(differences_of(self._paired, keys, _CONFIDENCE)) if keys else []

    def report(self, *, full: bool = False) -> Report:
        """What each stage gains, where relevant passages were lost, scores and latencies."""
        systems, rows, listings = self._systems, [], []
        for flow in self.flow:
            by_question, causes = defaultdict[str, list[str]](list), dict[str, None]()
            for loss in sorted(self.losses, key=lambda loss: loss.rank or 0):
                if loss.stage == flow.stage:
                    by_question[loss.query_id].append(str(loss))
                    causes[loss.cause] = None
            n_lost = Cell.of(flow.lost, "count", "alarm")._replace(losses="|".join(causes))
            n_questions = Cell.of(len(by_question), "count")
            rows.append(Row(flow.stage, [Cell.of(flow.kept, "count"), n_lost, n_questions]))
            texts = systems[0].scores.queries
            lines = [(key, texts.get(key, ""), losses) for key, losses in by_question.items()]
            title = f"Questions that lost passages at {flow.stage}"
            listings.append(Listing.of(title, lines, _LISTED_LOSSES))
        report = systems_report(systems, figures=curve_figures(systems), decision=self._decision())
        metrics = [metric for metric in metrics_of(systems) if metric != self._metric]
        means = self._means(f"On {self._metric}", [self._metric], ["difference", TALLY])
        other_means = self._means("On other metrics", metrics, ["difference"])
        flows = Table("Relevant passages by stage", ("kept", "lost", "in questions"), rows, "stage")
        counts = [replace(table, label_head="stage") for table in report.tables if table.is_detail]
        compared = len(systems) > 1
        return replace(
            report,
            title=f"Stages: {listed(list(self), most=9)}",
            tables=[means, flows, other_means, *counts],
            listings=listings,
            queries=partial(queries_of, systems, self._metric, compared=compared, stages=True),
        )

    def _means(self, title: str, metrics: Sequence[str], columns: Sequence[str]) -> Table:
        """The mean of each stage on each metric, and how it differs from the last, in columns."""
        head, rows = list[str](), []
        cells = {(row.system, row.metric): row.cells for row in self._differences}
        for metric in metrics:
            head += [metric, *columns]
        for stage, means in means_table(self._systems, metrics).rows:
            row = []
            for metric, mean in zip(metrics, means, strict=True):
                differences = cells.get((stage, metric), [Cell(None, tone="quiet")] * 2)
                row += [mean, *differences[: len(columns)]]
            rows.append(Row(stage, row))
        text = "Differences are from the stage before."
        return Table(title, head, rows, "stage", metrics != [self._metric], text)

    def __repr__(self) -> str:
        return f"<StageResults of {' → '.join(self)}>"

    @cached_property
    def _paired(self) -> Paired:
        metrics = [self._metric, *metrics_of(self._systems)]
        return pair(map_values(attrgetter("scores"), self), metrics)

    @cached_property
    def _systems(self) -> list[System]:
        return [system_of(results, stage) for stage, results in self.items()]

    @property
    def _metric(self) -> str:
        metrics = self[whereabouts.RETRIEVER].scores.metric_names
        for metric in metrics:
            if ranking_metric(metric) is not None:
                return metric
        return next(iter(metrics), "")

    @cached_property
    def _counts(self) -> tuple[list[LostPassage], list[StageFlow]]:
        losses: list[LostPassage] = []
        n_kept = Counter(dict.fromkeys(self, 0))
        retrieved, scores = self._systems[0], self._systems[-1].scores
        query_ids = [query_id for query_id in scores.query_ids if query_id not in scores.excluded]
        if retrieved.invalid(self._metric) or is_unmeasured(retrieved.scores):
            query_ids = []
        for query_id in query_ids:
            question = whereabouts.QuestionView(query_id, self._systems, self._metric, stages=True)
            for need, places in question.needs:
                # nobody knows where something is if its matcher failed
                if not need[0].grade or not all(place.is_known for place in places):
                    continue
                for stage, place in zip(self, places, strict=True):
                    n_kept[stage] += place.rank is not None
                last = places[-1]
                if question.end:
                    n_kept[question.end] += not last.loss
                if last.loss:
                    losses.append(_lost_passage(query_id, need, last))
        n_lost = Counter(map(attrgetter("stage"), losses))
        return losses, [StageFlow(stage, n, n_lost[stage]) for stage, n in n_kept.items()]

    def _decision(self) -> list[Statement]:
        n_wanted = self.flow[-1].kept + len(self.losses)
        statements = []
        for difference in self.differences:
            if difference.n:
                statements.append(difference.statement)
            if difference.changed and difference.outcome == "can't tell":
                meanwhile = f"leave {difference.system} out"
                choice = what_to_do(self._paired, [difference], alpha_of(_CONFIDENCE), meanwhile)
                statements.append(Statement(choice))
        if n_wanted:
            counts = Counter(map(attrgetter("cause"), self.losses)).most_common()
            words = ", ".join(f"{n:,} {cause}" for cause, n in counts)
            passages = counted(n_wanted, "relevant passage", "relevant passages")
            causes = words and f": {words}"
            statements.append(Statement(f"{len(self.losses):,} of {passages} lost{causes}."))
        # what failed at one stage has failed at those after it
        failed: dict[tuple[str, ...], System] = {}
        for system in self._systems:
            failed.setdefault(tuple(system.scores.failed), system)
        return with_failures(statements, list(failed.values()), self._metric)


def _lost_passage(
    query_id: str, need: Sequence[Item], place: whereabouts.Whereabouts
) -> LostPassage:
    """A passage that was wanted and lost; of alternatives that which was retrieved, or the best."""
    item = next((alternative for alternative in need if alternative.id == place.item), need[0])
    rank, text = place.rank, item.text or ""
    if place.loss == whereabouts.DROPPED:
        rank = place.was
    return LostPassage(place.stage, query_id, item.id, item.grade, text, rank, place.cause)


async def aevaluate_stages(
    retriever: SourceLike,
    postprocessors: Mapping[str, BaseNodePostprocessor],
    dataset: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    workers: int = WORKERS,
    timeout: float | None = None,
    cache: Cache | str | Path | None = None,
    tokenizer: Tokenizer | None = None,
    failed: Failed = "zero",
    show_progress: bool = False,
    raise_on_error: bool = False,
) -> StageResults:
    """Evaluate a retriever alone and after each postprocessor, asking every query once.

    Each postprocessor is compared with the stage before it. If a stage fails on a query, that stage
    and those after it have failed on it.

    Args:
        retriever, dataset, metrics, match_on, matcher, workers, timeout, cache: as of `evaluate`.
        tokenizer, failed, show_progress, raise_on_error: the same.
        postprocessors: name to LlamaIndex's node postprocessor, in the order of their use.

    Raises:
        InvalidInput: an argument can't be used.
        RetrievalFailed: with `raise_on_error`.

    Examples:
        >>> from llama_index.core.postprocessor import SimilarityPostprocessor
        >>> from llama_index.core.schema import NodeWithScore, TextNode
        >>> def retrieve(query):
        ...     return [NodeWithScore(node=TextNode(id_=name, text=name), score=score)
        ...             for name, score in [("d1", 0.9), ("d2", 0.2)]]
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d2"]}}
        >>> cutoff = SimilarityPostprocessor(similarity_cutoff=0.5)
        >>> stages = evaluate_stages(retrieve, {"cutoff": cutoff}, dataset, ["mrr"])
        >>> print(stages.losses[0])
        d2 [1] “d2”: dropped by cutoff (was 2)
        >>> [tuple(stage) for stage in stages.flow]
        [('retriever', 1, 0), ('cutoff', 0, 1)]
    """
    if not isinstance(postprocessors, Mapping):
        expected = 'name to postprocessor, such as {"reranker": reranker}'
        raise InvalidInput("postprocessors", type(postprocessors), expected)
    for name, postprocessor in postprocessors.items():
        checked_postprocessor("postprocessors", postprocessor)
        if name in (whereabouts.RETRIEVER, whereabouts.CUT, whereabouts.BUDGET):
            raise InvalidInput("postprocessors", name, "another name: this is a stage's own")
    plan = Plan.of(
        dataset,
        metrics,
        match_on=match_on,
        matcher=matcher,
        workers=workers,
        timeout=timeout,
        cache=cache,
        tokenizer=tokenizer,
        failed=failed,
        show_progress=show_progress,
        raise_on_error=raise_on_error,
    )
    source = as_source(retriever, retrieval_depth(plan.metrics))
    results: dict[str, EvaluationResults] = {}
    with plan.cache or nullcontext():
        evaluation = Evaluation(source, plan)
        ask = _StageAsk(evaluation, postprocessors)
        answers = await evaluation.answers(ask)
        for stage in (whereabouts.RETRIEVER, *postprocessors):
            results[stage] = await evaluation.results(ask.answers_after(stage, answers), stage)
    return StageResults(results)


evaluate_stages = synchronous(aevaluate_stages)


class _StageAsk:
    def __init__(
        self, evaluation: Evaluation, postprocessors: Mapping[str, BaseNodePostprocessor]
    ) -> None:
        self._evaluation = evaluation
        self._calls = map_values(postprocessor_call, postprocessors)
        self.rankings: dict[str, dict[str, Ranking]] = defaultdict(dict)

    async def __call__(self, question: Question) -> Answer:
        source, timeout = self._evaluation.source, self._evaluation.plan.timeout
        seconds_of_stage = stopwatch()
        answer = await ask_captured(source, question, timeout)
        notes, nodes = list(answer.notes), answer.nodes()
        seconds = seconds_of_stage()
        self._keep(whereabouts.RETRIEVER, question, nodes, seconds)
        for stage, call in self._calls.items():
            seconds_of_stage = stopwatch()
            nodes = await within(timeout, call(copies(nodes), QueryBundle(question.query_str)))
            seconds += seconds_of_stage()
            self._keep(stage, question, nodes, seconds)
            notes.extend(call.notes)
        return Answer(nodes, seconds=seconds, notes=notes)

    def _keep(
        self, stage: str, question: Question, nodes: Sequence[NodeWithScore], seconds: float
    ) -> None:
        reader = self._evaluation.reader
        ranking = reader.filled(reader.ranking(nodes))
        # what a later stage drops may be a label all the same
        reader.labels.see(ranking.ids, names_of(nodes))
        self.rankings[stage][question.query_id] = replace(ranking, latency=seconds)

    def answers_after(self, stage: str, answers: Answers) -> Answers:
        """The answers after a stage; where it failed, those of the last stage."""
        rankings = {}
        for attempt, answer in answers.rankings.items():
            ranking = self.rankings[stage].get(attempt.query_id, answer)
            rankings[attempt] = replace(ranking, concurrency=answer.concurrency)
        return replace(answers, rankings=rankings)
