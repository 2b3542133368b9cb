"""The report of a pool: how certain each verdict is, and what to judge next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index_rag_metrics.labels.pooling import Pool, State
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted, percent

_STATES: Mapping[State, m.Cell] = {
    "certain": m.Cell("certain", tone="best"),
    "likely": m.Cell("likely", tone="best"),
    "open": m.Cell("undecided", tone="open"),
}
_HEAD = ("state", "difference", "at least … at most", "chance of a change")
_MOST_SHOWN = 5


def pool_report(pool: Pool) -> m.Report:
    rows = [
        m.Row(
            f"{pair.first} > {pair.second}",
            [
                _STATES[pair.state],
                m.Cell(pair.difference, "signed"),
                m.Cell("signed", "bounds", low=pair.low, high=pair.high),
                m.Cell(pair.chance, "p"),
            ],
        )
        for pair in pool.pairs
    ]
    explained = (
        "Differences count unlabelled passages as not relevant. A result is certain when no label "
        "can change it, likely when the labels, of relevant and other passages, show a difference "
        f"and the chance that the rest changes it is at most {percent(pool.level)}."
    )
    items: list[dict[str, Any]] = [
        {**record, "weight": item.weight}
        for record, item in zip(pool.records(), pool.items, strict=True)
    ]
    remarks = [
        (item["query_id"], item["query"], [f"{item['doc_id']}  {item['text']}".rstrip()])
        for item in items
    ]
    outcome: tuple[str, m.Tone] = ("enough", "best") if pool.is_enough else ("not enough", "open")
    return m.Report(
        title=f"Judgements for {pool.metric}",
        lead=f"{pool.n_judged:,} labelled, {pool.n_unjudged:,} unlabelled in sight",
        outcome=m.Cell(outcome[0], "outcome", outcome[1]),
        decision=[_decision(pool)],
        sections=[m.Section("Comparisons", [m.Table("", _HEAD, [rows], pool.metric)], explained)],
        listings=[m.Listing.of("To label next", remarks, _MOST_SHOWN)],
        metrics=[pool.metric],
        records=m.Records.of(items, ("query_id", "doc_id", "weight")),
    )


def _decision(pool: Pool) -> m.Statement:
    if pool.is_enough:
        return m.Statement("Labelling can stop: every comparison is decided.", "best")
    n_open = sum(1 for pair in pool.pairs if pair.state == "open")
    pairs = counted(n_open, "comparison is", "comparisons are")
    passages = "this passage" if len(pool) == 1 else f"these {len(pool):,} passages"
    return m.Statement(f"{pairs} undecided. Label {passages}, then rerun.", "open")
