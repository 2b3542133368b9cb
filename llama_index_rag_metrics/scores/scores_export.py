"""Scores of several systems for other programs, unrounded: JSON, CSV and Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files.lines import Location, from_json, read_text
from llama_index_rag_metrics.report.model import Records
from llama_index_rag_metrics.report.reportable import csv_text, written
from llama_index_rag_metrics.runtime.atomic_files import json_text, whole_file
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.scores.scores import Scores

ENDINGS = (".parquet", ".csv", ".json")


def to_json(systems: Sequence[Scores]) -> str:
    """{name: scores}, each as `Scores.from_json` reads it."""
    parts = {scores.name: json.loads(scores.to_json()) for scores in systems}
    return json_text(parts, indent=1)


def read_json(path: Path) -> dict[str, Scores]:
    """What `to_json` wrote, or `Scores.to_json`, whose scores are under ""."""
    text, place = read_text(path), Location(str(path))
    expected = "scores, as `rag-metrics evaluate --json` or Scores.to_json writes them"
    try:
        data = from_json(text, place)
        parts = data if isinstance(data, dict) and data and "format" not in data else {"": data}
        if all(isinstance(part, dict) for part in parts.values()):
            return {name: Scores.from_json(json.dumps(part)) for name, part in parts.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise place.wrong(expected) from error
    raise place.wrong(expected)


def means(systems: Sequence[Scores]) -> Records:
    names = [scores.name for scores in systems]
    values = {metric: [_mean(scores, metric) for scores in systems] for metric in _metrics(systems)}
    counts = [asdict(scores.counts) for scores in systems]
    numbers = {name: [count[name] for count in counts] for name in counts[0]}
    return Records({"run": names, **values, **numbers})


def per_query(systems: Sequence[Scores]) -> Records:
    columns: dict[str, list[Any]] = {
        "run": [scores.name for scores in systems for _ in scores.query_ids],
        "query_id": [query_id for scores in systems for query_id in scores.query_ids],
    }
    for metric in _metrics(systems):
        column: list[float | None] = []
        for scores in systems:
            values = scores.by_query(metric) if _is_measured(scores, metric) else {}
            column += map(values.get, scores.query_ids)
        columns[metric] = column
    return Records(columns)


def _metrics(systems: Sequence[Scores]) -> list[str]:
    return list(dict.fromkeys(metric for scores in systems for metric in scores))


def _is_measured(scores: Scores, metric: str) -> bool:
    return scores.is_measured and metric in scores


def _mean(scores: Scores, metric: str) -> float | None:
    is_known = _is_measured(scores, metric) and scores.n(metric)
    return scores.means[metric] if is_known else None


def write_scores(path: Path, systems: Sequence[Scores]) -> None:
    """Write every query's scores: JSON with all there is, CSV or Parquet a row a run and query."""
    ending = path.suffix.lower()
    if ending == ".json":
        written(to_json(systems), path)
    elif ending == ".csv":
        written(csv_text(per_query(systems)), path)
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
