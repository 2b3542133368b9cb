"""A summary of a dataset: its size, and what needs checking."""

from __future__ import annotations

from collections.abc import Collection

from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.masking import join_first

from .dataset_content import DatasetContent, labels_of

_SHOWN, _COLUMNS_SHOWN = 5, 8


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
    """A sentence where no question has labels, though there are fields that may be meant."""
    columns = dict.fromkeys(key for row in dataset.metadata.values() for key in row)
    if dataset.relevance or dataset.expected_texts or not columns:
        return []
    names = join_first([*columns], _COLUMNS_SHOWN)
    sentence = (
        f"none of {questions(len(dataset.queries))} has labels; they are read from expected_ids; "
        f"columns here: {names}"
    )
    return [sentence]


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


def _unlabelled(dataset: DatasetContent) -> list[str]:
    judged = labels_of(dataset)
    return [query_id for query_id in dataset.queries if query_id not in judged]


def _share(part: Collection[str], total: Collection[str], what: str) -> str:
    if not part:
        return ""
    examples = [*map(repr, sorted(part)[:_SHOWN])]
    if len(part) > _SHOWN:
        examples.append("…")
    return f"{len(part):,} of {len(total):,} {what}: {', '.join(examples)}"
