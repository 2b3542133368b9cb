"""Scores of several systems for other programs, unrounded: JSON, CSV and Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.report import Records
from llama_index_rag_metrics.report.exports import to_csv, written
from llama_index_rag_metrics.runtime.atomic_files import whole_file
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.scores.scores import Scores

ENDINGS = (".parquet", ".csv", ".json")


def to_json(systems: Sequence[Scores]) -> str:
    """{name: scores}, each as `Scores.from_json` reads it."""
    parts = {scores.name: json.loads(scores.to_json()) for scores in systems}
    return json.dumps(parts, ensure_ascii=False, indent=1)


def means(systems: Sequence[Scores]) -> Records:
    """One row a run with its means and counts."""
    columns: dict[str, list[Any]] = {"run": [scores.name for scores in systems]}
    for metric in _metrics(systems):
        columns[metric] = [
            scores.means[metric] if metric in scores and scores.n(metric) else None
            for scores in systems
        ]
    counts = [asdict(scores.counts) for scores in systems]
    return Records({**columns, **{name: [count[name] for count in counts] for name in counts[0]}})


def per_query(systems: Sequence[Scores]) -> Records:
    """One row a run and query with its scores."""
    columns: dict[str, list[Any]] = {
        "run": [scores.name for scores in systems for _ in scores.query_ids],
        "query_id": [query_id for scores in systems for query_id in scores.query_ids],
    }
    for metric in _metrics(systems):
        by_query = [scores.by_query(metric) if metric in scores else {} for scores in systems]
        columns[metric] = [
            known.get(query_id)
            for scores, known in zip(systems, by_query, strict=True)
            for query_id in scores.query_ids
        ]
    return Records(columns)


def write_scores(path: Path, systems: Sequence[Scores]) -> None:
    """Write every query's scores: JSON with all there is, CSV or Parquet a row a run and query."""
    ending = path.suffix.lower()
    if ending == ".json":
        written(to_json(systems), path)
    elif ending == ".csv":
        written(to_csv(per_query(systems), for_people=False), path)
    elif ending == ".parquet":
        _write_parquet(path, per_query(systems))
    else:
        raise InvalidInput("--output", str(path), f"a file that ends in {' or '.join(ENDINGS)}")


def _write_parquet(path: Path, records: Records) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("a Parquet file", "batch") from error
    keys = ("run", "query_id")
    columns = {
        name: pa.array(column, None if name in keys else pa.float64())
        for name, column in records.columns.items()
    }
    with whole_file(path) as partial:
        parquet.write_table(pa.table(columns), partial)


def _metrics(systems: Sequence[Scores]) -> list[str]:
    return list(dict.fromkeys(metric for scores in systems for metric in scores))
