"""Scores for other programs, unrounded: JSON, CSV and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.formats.delimited import csv_line
from llama_index_rag_metrics.scores import Scores

ENDINGS = (".parquet", ".csv", ".json")


def to_json(systems: Sequence[Scores]) -> str:
    """{name: scores}, each as `Scores.from_json` reads it."""
    found = {one.name: json.loads(one.to_json()) for one in systems}
    return json.dumps(found, ensure_ascii=False, indent=1)


def to_csv(systems: Sequence[Scores], *, per_query: bool = False) -> str:
    """One row a run with its means and counts, or one row a run and query with its scores."""
    metrics = _metrics(systems)
    rows: list[list[object]] = []
    if per_query:
        rows.append(["run", "query_id", *metrics])
        for run, query_id, scores in _rows(systems):
            rows.append([run, query_id, *(scores.get(name) for name in metrics)])
    else:
        rows.append(["run", *metrics, *asdict(systems[0].counts)])
        for one in systems:
            means = [one.means[name] if one.n(name) else None for name in metrics]
            rows.append([one.name, *means, *asdict(one.counts).values()])
    return "".join(f"{csv_line(row)}\n" for row in rows)


def write_scores(path: Path, systems: Sequence[Scores]) -> None:
    """Write every query's scores: JSON with all there is, CSV or Parquet a row a run and query.

    Raises:
        InvalidInput: the ending is none of those.
        MissingExtra: Parquet needs pyarrow.
    """
    ending = path.suffix.lower()
    if ending == ".json":
        path.write_text(to_json(systems), encoding="utf-8")
    elif ending == ".csv":
        path.write_text(to_csv(systems, per_query=True), encoding="utf-8", newline="")
    elif ending == ".parquet":
        _write_parquet(path, systems)
    else:
        raise InvalidInput("--output", str(path), f"a file that ends in {' or '.join(ENDINGS)}")


def _write_parquet(path: Path, systems: Sequence[Scores]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("a Parquet file", "batch") from error
    columns: dict[str, Any] = {
        "run": [one.name for one in systems for _ in one.query_ids],
        "query_id": [query_id for one in systems for query_id in one.query_ids],
    }
    for name in _metrics(systems):
        known = [one.by_query(name) if name in one else {} for one in systems]
        columns[name] = pa.array(
            [
                found.get(query_id)
                for one, found in zip(systems, known, strict=True)
                for query_id in one.query_ids
            ],
            pa.float64(),
        )
    parquet.write_table(pa.table(columns), path)


def _metrics(systems: Sequence[Scores]) -> list[str]:
    return list(dict.fromkeys(name for one in systems for name in one.metric_names))


def _rows(systems: Sequence[Scores]) -> Iterator[tuple[str, str, dict[str, float]]]:
    for one in systems:
        for query_id, scores in one.per_query.items():
            yield one.name, query_id, scores
