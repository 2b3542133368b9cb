"""Queries as a table."""

from collections.abc import Sequence

import polars as pl

from support.strategies import Query

TEXTS = pl.List(pl.String)


def frame_of(batch: Sequence[Query]) -> pl.DataFrame:
    relevance = [query.relevance for query in batch]
    return pl.DataFrame(
        {
            "retrieved_ids": [query.ranking for query in batch],
            "expected_ids": [list(judgement.grades) for judgement in relevance],
            "grades": [list(judgement.grades.values()) for judgement in relevance],
        },
        schema={"retrieved_ids": TEXTS, "expected_ids": TEXTS, "grades": pl.List(pl.Float64)},
    )
