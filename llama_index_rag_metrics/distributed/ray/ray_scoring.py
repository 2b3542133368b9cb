"""Stored rankings in a Ray Dataset: scored where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.distributed.ray.sharing import import_ray, worker_options
from llama_index_rag_metrics.rankings.judging.judged import Selection
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.scoring.batches import (
    Failed,
    Metrics,
    NoRelevant,
    ScoringOptions,
    ranking_metrics,
)
from llama_index_rag_metrics.scores.scoring.score_tables import score_table

if TYPE_CHECKING:
    from ray.data import Dataset


def score_dataset(
    dataset: Dataset,
    metrics: Metrics,
    *,
    no_relevant: NoRelevant = "exclude",
    failed: Failed = "zero",
    min_score: float | None = None,
    num_cpus: float = 1,
    validate: bool = False,
    **options: Any,
) -> Dataset:
    """Score a Ray Dataset of rankings, one row per query, on the workers of the cluster.

    What a lost worker or node had in hand is scored again by Ray.

    Args:
        dataset: a `ray.data.Dataset` with the columns of `score_table`: `retrieved_ids`,
            `expected_ids` and, optionally, `grades`, `query_id`, `error`. It is scored block by
            block: a dataset of one block keeps one worker busy (`dataset.repartition(n)`).
        metrics: names, or metrics.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            of the means and count it, score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.
        min_score: as for `score_table`; the column `scores` is needed.
        num_cpus: CPUs of a worker; Polars uses as many threads.
        validate: as for `score_table`: whether to check every offset and text of a block first.
        options: further options of `ray.data.Dataset.map_batches`, such as `compute`.

    Returns:
        The scores of each query, as a Ray Dataset that is computed when it is used, with the
        columns of `score_table`. Ray's own `mean` leaves out the queries that have no value:
        `score_dataset(rankings, "mrr").mean("mrr")`.

    Raises:
        InvalidInput: an argument can't be used. What is wrong with a row is raised by Ray, with
            the error of `score_table` as its cause.
        MissingExtra: Ray isn't installed.
    """
    ray = import_ray("score_dataset()")
    ScoringOptions(no_relevant, failed, Selection(min_score=min_score))  # refuses what can't be
    chosen = ranking_metrics(metrics)
    if not isinstance(dataset, ray.data.Dataset):
        expected = "a ray.data.Dataset"
        raise InvalidInput("dataset", type(dataset).__name__, expected, "Or use score_table().")
    scoring = {
        "metrics": chosen,
        "no_relevant": no_relevant,
        "failed": failed,
        "min_score": min_score,
        "validate": validate,
    }
    return dataset.map_batches(
        score_table,
        fn_kwargs=scoring,
        batch_format="pyarrow",
        **worker_options(num_cpus, {"batch_size": None, **options}),
    )
