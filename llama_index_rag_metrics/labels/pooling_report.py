"""The report of a pool: how certain each verdict is, and what to judge next."""

from __future__ import annotations

from collections.abc import Mapping

from llama_index_rag_metrics.labels.pooling import PairOutlook, Pool, State
from llama_index_rag_metrics.report import (
    Cell,
    Listing,
    QueryAnswers,
    Records,
    Report,
    Row,
    Section,
    Statement,
    Table,
    Tone,
)
from llama_index_rag_metrics.report.numbers import counted, percent

_TONES: Mapping[State, Tone] = {"certain": "best", "likely": "best", "open": "open"}
_HEAD = ("state", "difference", "at least … at most", "chance of a turn")
_MOST_SHOWN = 5


def pool_report(pool: Pool) -> Report:
    n_open = sum(1 for pair in pool.pairs if pair.state == "open")
    table = Table("", _HEAD, [[_row(pair) for pair in pool.pairs]], first=pool.metric)
    explained = (
        "Differences count unjudged items as not relevant. A verdict is certain when no judgement "
        "can turn it, likely when what is judged, relevant and not, shows a difference and the "
        f"chance that the rest turns it is at most {percent(pool.level)}."
    )
    return Report(
        title=f"Judgements for {pool.metric}",
        lead=f"{pool.n_judged:,} judged, {pool.n_unjudged:,} unjudged in sight",
        outcome=Cell("enough", "outcome", "best")
        if pool.is_enough
        else Cell("not enough", "outcome", "open"),
        decision=[_decision(pool, n_open)],
        sections=[Section("Verdicts", [table], explained)],
        listings=_listings(pool),
        metrics=[pool.metric],
        records=Records(
            {
                "query_id": [item.query_id for item in pool.items],
                "doc_id": [item.id for item in pool.items],
                "weight": [item.weight for item in pool.items],
            }
        ),
    )


def _decision(pool: Pool, n_open: int) -> Statement:
    if not n_open:
        return Statement("Judging can stop: every verdict is decided.", "best")
    verdicts = counted(n_open, "verdict is", "verdicts are")
    items = counted(len(pool), "item", "items")
    return Statement(f"{verdicts} open: judge the next {items}, then ask again.", "open")


def _row(pair: PairOutlook) -> Row:
    return Row(
        f"{pair.first} > {pair.second}",
        [
            Cell(pair.state, tone=_TONES[pair.state]),
            Cell(pair.difference, "signed"),
            Cell("signed", "bounds", low=pair.low, high=pair.high),
            Cell(pair.chance, "p"),
        ],
    )


def _listings(pool: Pool) -> list[Listing]:
    shown = [
        QueryAnswers(
            item.query_id,
            pool.queries.get(item.query_id, ""),
            remarks=[f"{item.id}  {pool.texts.get((item.query_id, item.id), '')}".rstrip()],
        )
        for item in pool.items[:_MOST_SHOWN]
    ]
    return [Listing.of("To judge next", shown, len(pool))] if shown else []
