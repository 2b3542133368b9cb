"""Scores of several systems for other programs, unrounded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files.lines import Location, from_json, read_text
from llama_index_rag_metrics.report.model import Records
from llama_index_rag_metrics.runtime.atomic_files import json_text

from .scores import Scores


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


def per_query(systems: Sequence[Scores]) -> Records:
    """A row a system and query; a score that isn't there is None."""
    columns: dict[str, list[Any]] = {"run": [], "query_id": []}
    for scores in systems:
        columns["run"] += [scores.name] * len(scores.query_ids)
        columns["query_id"] += scores.query_ids
    for metric in dict.fromkeys(chain.from_iterable(systems)):
        columns[metric] = []
        for scores in systems:
            is_known = scores.is_measured and metric in scores
            values = scores.by_query(metric) if is_known else {}
            columns[metric] += map(values.get, scores.query_ids)
    return Records(columns)
