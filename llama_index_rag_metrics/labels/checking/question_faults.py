"""What can be wrong with questions: asked twice, judged in two ways, or giving the passage away."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from llama_index_rag_metrics.labels.checking.findings import Finding, Kind
from llama_index_rag_metrics.labels.labelled import Label, judged
from llama_index_rag_metrics.matching.normalisation import letters, words
from llama_index_rag_metrics.wording import first_of

if TYPE_CHECKING:
    from llama_index_rag_metrics.dataset import RetrievalDataset

_COUNTED = 5000
"""Passages in which words are counted: how rare a word is needs no more."""

_LEAST_WORDS = 3


def repeats(dataset: RetrievalDataset) -> Iterator[Finding]:
    """Questions that stand twice, letter for letter, and whether their judgements agree."""
    first: dict[str, str] = {}
    for query_id, question in dataset.queries.items():
        earlier = first.setdefault(letters(question), query_id)
        if earlier == query_id or not letters(question):
            continue
        ours, theirs = (set(judged(dataset, twin) or ()) for twin in (query_id, earlier))
        apart = sorted(ours ^ theirs)
        if apart:
            sentence = f"asked as {earlier!r} is, but only one of them wants {first_of(apart)}"
        else:
            sentence = f"asked as {earlier!r} is, and judged alike"
        kind: Kind = "contradicting" if apart else "repeated"
        yield Finding(kind, query_ids=(query_id, earlier), others=tuple(apart), text=sentence)


def giveaways(
    dataset: RetrievalDataset,
    labels: Mapping[tuple[str, str], Label],
    texts: Mapping[str, str],
    threshold: float,
) -> tuple[dict[str, float], list[Finding]]:
    """How much of each question stands in its passage, and the questions that give theirs away.

    Args:
        dataset: the questions.
        labels: (query id, item) to label.
        texts: the passages of today.
        threshold: the overlap from which a question gives its passage away.

    Returns:
        Query id to its overlap with the relevant passage that it shares most with; findings.
    """
    rarity = _rarity(dataset, texts)
    overlaps: dict[str, float] = {}
    findings: list[Finding] = []
    by_query: defaultdict[str, list[Label]] = defaultdict(list)
    for (query_id, _), label in labels.items():
        if label.queries[query_id] > 0:
            by_query[query_id].append(label)
    for query_id, relevant in by_query.items():
        telling = {word for word in words(dataset.queries[query_id]) if rarity[word] > 0}
        shares = {
            label.id: _overlap(telling, rarity, text)
            for label in relevant
            if (text := texts.get(label.id, label.text))
        }
        if not shares or not telling:
            continue
        item = max(shares, key=lambda label_id: shares[label_id])
        overlaps[query_id] = shares[item]
        if shares[item] >= threshold and len(telling) >= _LEAST_WORDS:
            sentence = f"its words stand in passage {item!r}: word search can't miss that"
            findings.append(Finding("giveaway", item, (query_id,), (), shares[item], sentence))
    return overlaps, findings


def _rarity(dataset: RetrievalDataset, texts: Mapping[str, str]) -> dict[str, float]:
    """The weight of every word of the questions: ln((n + 1) / (passages with it + 1)), from 0 on.

    A word of every passage has none, one of no passage the most.
    """
    asked = {word for question in dataset.queries.values() for word in words(question)}
    counted = list(texts)[:: math.ceil(len(texts) / _COUNTED)] if texts else []
    n_with: Counter[str] = Counter()
    for passage_id in counted:
        n_with.update(asked.intersection(words(texts[passage_id])))
    return {word: math.log((len(counted) + 1) / (n_with[word] + 1)) for word in asked}


def _overlap(telling: set[str], rarity: Mapping[str, float], text: str) -> float:
    """The share of a question's words that a text has, each weighted by how rare it is."""
    whole = math.fsum(rarity[word] for word in telling)
    shared = math.fsum(rarity[word] for word in telling.intersection(words(text)))
    return shared / whole if whole else 0.0
