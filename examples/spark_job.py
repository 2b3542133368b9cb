"""Stored rankings on Spark: `score_table` is a function of record batches, as mapInArrow wants.

Needs Java and `pip install ".[spark,batch]"`.
"""

# ci: spark

import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from llama_index_rag_metrics import score_schema, score_table

METRICS = ["ndcg@10", "mrr", "recall@1"]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield score_table(batch, METRICS)


spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.executorEnv.POLARS_MAX_THREADS", "1")  # as many as a task has cores
    .getOrCreate()
)
rankings = spark.createDataFrame(
    [("q1", ["d3", "d1"], ["d1"]), ("q2", ["d2"], ["d2", "d5"]), ("q3", ["d9", "d4"], ["d4"])],
    "query_id string, retrieved_ids array<string>, expected_ids array<string>",
)
schema = score_schema(to_arrow_schema(rankings.schema), METRICS)
scores = rankings.mapInArrow(score, from_arrow_schema(schema))
scores.show()
scores.select(METRICS).summary("count", "mean").show()
spark.stop()
