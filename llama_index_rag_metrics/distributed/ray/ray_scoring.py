"""Stored rankings in a Ray Dataset: scored where they lie."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from llama_index_rag_metrics.distributed.ray.sharing import import_ray, worker_options
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.judged import Selection
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.lazy import Lazy
from llama_index_rag_metrics.scores.scoring.batches import (
    Failed,
    Metrics,
    NoRelevant,
    ScoringOptions,
    ranking_metrics,
)
from llama_index_rag_metrics.scores.scoring.score_tables import score_table, score_totals
from llama_index_rag_metrics.scores.scoring.totals import ScoreTotals

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset
else:
    pa = Lazy("pyarrow")

_TOTALS = "totals"


@overload
def score_dataset(
    dataset: Dataset,
    metrics: Metrics,
    *,
    per_query: Literal[False] = ...,
    no_relevant: NoRelevant = ...,
    failed: Failed = ...,
    min_score: float | None = ...,
    name: str = ...,
    num_cpus: float = ...,
    validate: bool = ...,
    **options: Any,
) -> ScoreTotals: ...


@overload
def score_dataset(
    dataset: Dataset,
    metrics: Metrics,
    *,
    per_query: Literal[True],
    no_relevant: NoRelevant = ...,
    failed: Failed = ...,
    min_score: float | None = ...,
    name: str = ...,
    num_cpus: float = ...,
    validate: bool = ...,
    **options: Any,
) -> Dataset: ...


def score_dataset(
    dataset: Dataset,
    metrics: Metrics,
    *,
    per_query: bool = False,
    no_relevant: NoRelevant = "exclude",
    failed: Failed = "zero",
    min_score: float | None = None,
    name: str = "",
    num_cpus: float = 1,
    validate: bool = False,
    **options: Any,
) -> ScoreTotals | Dataset:
    """Score a Ray Dataset of rankings, one row per query, on the workers of the cluster.

    Only sums come to the driver. They are exact, so means are those of `score_files` and
    `score_rankings`, to the last bit, however the rows are spread. What a lost worker or node had
    in hand is scored again by Ray.

    Args:
        dataset: a `ray.data.Dataset` with the columns of `score_table`: `retrieved_ids`,
            `expected_ids` and, optionally, `grades`, `query_id`, `error`. It is scored block by
            block: a dataset of one block keeps one worker busy (`dataset.repartition(n)`).
        metrics: names, or metrics.
        per_query: whether to return the scores of each query, as a Ray Dataset that is computed
            when it is used, with the columns of `score_table`; it never comes to the driver unless
            asked to. `table_totals` computes its means, a batch at a time.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            of the means and count it, score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.
        min_score: as for `score_table`; the column `scores` is needed.
        name: what to call the scored system in reports.
        num_cpus: CPUs of a worker; Polars uses as many threads.
        validate: as for `score_table`: whether to check every offset and text of a block first.
        options: further options of `ray.data.Dataset.map_batches`, such as `compute`.

    Returns:
        Means and counts; or the scores of each query.

    Raises:
        InvalidInput: an argument can't be used. What is wrong with a row is raised by Ray, with
            the error of `score_table` as its cause.
        MissingExtra: Ray isn't installed.
    """
    ray = import_ray("score_dataset()")
    scoring = ScoringOptions(no_relevant, failed, Selection(min_score=min_score))
    chosen = ranking_metrics(metrics)
    if not isinstance(dataset, ray.data.Dataset):
        expected = "a ray.data.Dataset"
        raise InvalidInput("dataset", type(dataset).__name__, expected, "Or use score_table().")

    def scored(function: Any, **arguments: Any) -> Dataset:
        return dataset.map_batches(
            function,
            fn_kwargs={"metrics": chosen, "validate": validate, **arguments},
            batch_format="pyarrow",
            **worker_options(num_cpus, {"batch_size": None, **options}),
        )

    if per_query:
        return scored(score_table, no_relevant=no_relevant, failed=failed, min_score=min_score)
    totals = ScoreTotals.nothing(metric.metric_name for metric in chosen)
    for row in scored(_totals, options=scoring).iter_rows():
        totals += ScoreTotals.from_state(json.loads(row[_TOTALS]))
    return replace(totals, name=name)


def _totals(
    table: pa.Table, metrics: list[RankingMetric], options: ScoringOptions, validate: bool
) -> pa.Table:
    totals = score_totals(table, metrics, options, validate=validate)
    return pa.table({_TOTALS: [json.dumps(totals.state())]})
