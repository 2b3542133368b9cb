"""The report of a pool: how certain each verdict is, and what to judge next."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from llama_index_rag_metrics.labels.pooling import Pool, State
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted, digits_of, percent

_STATES: Mapping[State, m.Cell] = {
    "certain": m.Cell("certain", tone="best"),
    "likely": m.Cell("likely", tone="best"),
    "open": m.Cell("undecided", tone="open"),
}
_HEAD = ("state", "difference", "at least … at most", "chance of a change")
_COMPARISONS = "Comparisons"
_LISTING = "To label next"
_MOST_SHOWN = 5


def pool_report(pool: Pool) -> m.Report:
    rows = [
        m.Row(
            f"{pair.first} > {pair.second}",
            [
                _STATES[pair.state],
                m.Cell(pair.difference, "signed", limit=0.0, digits=digits_of(pair.n)),
                m.Cell(None, "range", low=pair.low, high=pair.high, digits=digits_of(pair.n)),
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
        title=f"Labels for {pool.metric}",
        lead=f"{pool.n_judged:,} labelled, {pool.n_unjudged:,} unlabelled passages retrieved",
        outcome=m.Cell(outcome[0], "outcome", outcome[1]),
        decision=[_decision(pool)],
        sections=[m.Section(_COMPARISONS, [m.Table("", _HEAD, [rows], pool.metric)], explained)],
        listings=[m.Listing.of(_LISTING, remarks, _MOST_SHOWN)],
        metrics=[pool.metric],
        records=m.Records.of(items, ("query_id", "doc_id", "weight")),
    )


def _decided(pool: Pool) -> str:
    if len(pool.pairs) > 1:
        return f"all {len(pool.pairs):,} comparisons on {pool.metric} are decided"
    pair = pool.pairs[0]
    if not pair.difference:
        return f"{pair.first} and {pair.second} score the same on {pool.metric}"
    ahead = f"{pair.first} is ahead of {pair.second} on {pool.metric}"
    return f"{ahead}{', whatever the other labels are' if pair.state == 'certain' else ''}"


def _decision(pool: Pool) -> m.Statement:
    if pool.is_enough:
        return m.Statement(f"Labelling can stop: {_decided(pool)}.", "best", evidence=_COMPARISONS)
    n_open = sum(1 for pair in pool.pairs if pair.state == "open")
    pairs = counted(n_open, "comparison is", "comparisons are")
    n = len(pool)
    passages = "this passage" if n == 1 else f"these {n:,} passages"
    if not pool.file:
        text = f"{pairs} undecided. Label {passages} (to_jsonl() writes them), then rerun."
        return m.Statement(text, "open", evidence=f"{_LISTING}: {n:,}")
    command = f"rag-metrics labels review {quote(pool.file)} -o judgements.jsonl"
    text = f"{pairs} undecided. Label {passages}, then rerun with --qrels judgements.jsonl."
    return m.Statement(text, "open", evidence=f"{_LISTING}: {n:,}", command=command)
