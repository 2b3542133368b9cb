"""A summary of a dataset: its size, its first questions, and what needs checking."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.conversations import (
    CONVERSATION,
    HISTORY,
    OTHERS_OF_CONVERSATIONS,
    TURN,
    is_turn,
)
from llama_index_rag_metrics.files.dataset_content import DatasetContent, labels_of
from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.model import Cell, Row, Table
from llama_index_rag_metrics.report.notebook import set_table
from llama_index_rag_metrics.report.numbers import counted, questions

_SHOWN = 5
_IDS = ("query_id", "question_id")


def findings(dataset: DatasetContent) -> list[str]:
    queries, corpus = dataset.queries, dataset.corpus
    expected = {item: relevance for relevance in dataset.relevance.values() for item in relevance}
    places = {item: (relevance.spans or {}).get(item) for item, relevance in expected.items()}
    absent = [
        item
        for item, place in places.items()
        if item not in corpus and (place is None or place.source not in corpus)
    ]
    nothing = [query_id for query_id, relevance in dataset.relevance.items() if not relevance]
    blank = [query_id for query_id, text in queries.items() if not text.strip()]
    bare = [document_id for document_id in corpus if not dataset.indexed_text(document_id).strip()]
    remarks = [
        _share(_unlabelled(dataset), queries, "questions have no labels"),
        _share(nothing, queries, "questions have nothing relevant"),
        _share(absent if corpus else (), expected, "labelled ids aren't in the corpus"),
        _share(blank, queries, "questions have no text"),
        _share(bare, corpus, "passages have no text"),
    ]
    return [*dataset.notes, *filter(None, remarks), *unread_labels(dataset)]


def unread_labels(dataset: DatasetContent) -> list[str]:
    keys = dict.fromkeys(key for row in dataset.metadata.values() for key in row)
    remarks = misnamed_fields(dataset)
    if remarks or dataset.relevance or dataset.expected_texts or not keys:
        return remarks
    held = ", ".join(map(repr, list(keys)[:_SHOWN]))
    names = " or ".join(map(repr, f.RELEVANCE))
    return [f"no question has labels, which are read from fields called {names}, not from {held}"]


def misnamed_fields(dataset: DatasetContent) -> list[str]:
    """Metadata that is called nearly like a field which its queries lack, one sentence a name."""
    queries = dataset.queries
    numbered = all(query_id == f"q{number}" for number, query_id in enumerate(queries, 1))
    lacking: dict[str, tuple[Collection[str], Callable[[object], str | None]]] = {
        "labels": (_unlabelled(dataset), f.meant_as_labels),
        "ids": (
            queries if numbered else (),
            lambda key: f.nearest(key, ("query_id", "question_id")),
        ),
    }
    lacking |= {
        part: (
            [query_id for query_id in queries if part not in dataset.metadata.get(query_id, {})],
            partial(f.spelt_like, fields=(part, *others)),
        )
        for part, others in OTHERS_OF_CONVERSATIONS.items()
    }
    alone = [
        query_id for query_id, row in dataset.metadata.items() if TURN in row and not is_turn(row)
    ]
    of_nothing = f"questions have a {TURN!r}, but neither {CONVERSATION!r} nor {HISTORY!r}"
    remarks = [*filter(None, [_share(alone, queries, f"{of_nothing}: it is plain metadata")])]
    for what, (query_ids, meant) in lacking.items():
        holders: dict[str, list[str]] = {}
        for query_id in query_ids:
            for key in dataset.metadata.get(query_id, ()):
                holders.setdefault(key, []).append(query_id)
        for key, held in holders.items():
            if (field := meant(key)) is not None:
                unread = f"a field {key!r} that isn't read (did you mean {field!r}?)"
                remarks.append(_share(held, queries, f"questions have no {what}, but {unread}"))
    return remarks


def summary(dataset: DatasetContent) -> str:
    n = len(dataset.queries)
    judged = n - len(_unlabelled(dataset))
    judgements = sum(len(relevance.grades) for relevance in dataset.relevance.values())
    extent = "labelled" if judged == n else f"{judged} of them labelled"
    counts = [f"{questions(n)}, {extent}"]
    if dataset.relevance:
        counts[0] += f" ({counted(judgements, 'label', 'labels')})"
    if dataset.corpus:
        counts.append(counted(len(dataset.corpus), "passage", "passages"))
    return ", ".join(counts)


def as_html(dataset: DatasetContent) -> str:
    rows = [
        Row(query_id, [Cell(dataset.queries[query_id]), Cell(_relevant(dataset, query_id))])
        for query_id in list(dataset.queries)[:_SHOWN]
    ]
    table = Table("", ["question", "relevant"], [rows], first="id", text_columns=2)
    more = len(dataset.queries) - _SHOWN
    return (
        f"<p><b>{escape(dataset.name or 'RetrievalDataset')}</b>: {escape(summary(dataset))}</p>"
        f"{set_table(table)}"
        f"{f'<p>… and {more:,} more</p>' if more > 0 else ''}"
    )


def _unlabelled(dataset: DatasetContent) -> list[str]:
    judged = labels_of(dataset)
    return [query_id for query_id in dataset.queries if query_id not in judged]


def _relevant(dataset: DatasetContent, query_id: str) -> str:
    if query_id in dataset.relevance:
        return ", ".join(dataset.relevance[query_id]) or "nothing"
    return "by text" if query_id in dataset.expected_texts else "no labels"


def _share(found: Collection[str], whole: Collection[str], what: str) -> str:
    examples = ", ".join(map(repr, sorted(found)[:_SHOWN]))
    more = ", …" if len(found) > _SHOWN else ""
    return f"{len(found):,} of {len(whole):,} {what}: {examples}{more}" if found else ""
