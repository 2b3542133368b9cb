"""The passages of each question: from runs, a dataset's labels, or given by text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.rankings.tokens import TokenCounter
from llama_index_rag_metrics.runtime.errors import InvalidInput

Texts: TypeAlias = "Mapping[str, Mapping[str, str]]"
"""Query id to {passage id: text}."""

PassagesLike: TypeAlias = "Run | Sequence[Run] | Texts"


_OVERLAP = 4
"""Neighbouring pieces share a quarter."""


def texts_of(
    source: PassagesLike,
    query_ids: Sequence[str],
    depth: int | None,
    corpus: Mapping[str, str] | None,
) -> dict[str, dict[str, str]]:
    """The texts of each question's passages, by id: the first distinct items of each ranking.

    The corpus has them for rankings without texts; depth None takes all.
    """
    if isinstance(source, Mapping) and not isinstance(source, Run):
        asked = [query_id for query_id in query_ids if query_id in source]
        return {query_id: _checked(query_id, source[query_id]) for query_id in asked}
    runs = [source] if isinstance(source, Run) else source
    if not isinstance(runs, Sequence) or not all(isinstance(run, Run) for run in runs):
        raise InvalidInput("passages", source, "a Run, a list of them, or {query id: {id: text}}")
    texts: dict[str, dict[str, str]] = {}
    for run in runs:
        for query_id in query_ids:
            if query_id in run:
                retrieved = _retrieved(query_id, run[query_id], depth, corpus or {})
                texts.setdefault(query_id, {}).update(retrieved)
    return texts


def corpus_of(dataset: RetrievalDataset) -> dict[str, str]:
    return {document_id: dataset.indexed_text(document_id) for document_id in dataset.corpus}


def labelled_texts(dataset: RetrievalDataset) -> dict[str, dict[str, str]]:
    """The known texts of relevant passages, best first; expected texts are called by number."""
    texts: dict[str, dict[str, str]] = {}
    for query_id in dataset.queries:
        relevance = dataset.relevance.get(query_id, Relevance())
        best_first = sorted(relevance, key=lambda item: -relevance.grades[item])
        known = {item: dataset.indexed_text(item) for item in best_first if item in dataset.corpus}
        if not known:
            expected = dataset.expected_texts.get(query_id, ())
            known = {f"expected {place}": text for place, text in enumerate(expected, 1)}
        texts[query_id] = known
    return {query_id: known for query_id, known in texts.items() if known}


def windows(
    texts: Iterable[str], budget: int, counter: TokenCounter, most: int
) -> Iterator[list[str]]:
    """The texts in order, or pieces of them, as many at a time as fit into a budget of tokens."""
    window: list[str] = []
    spent = 0
    for text in texts:
        for piece in pieces(text, budget, counter):
            (cost,) = counter.count([piece])
            if window and (spent + cost > budget or len(window) == most):
                yield window
                window, spent = [], 0
            window.append(piece)
            spent += cost
    if window:
        yield window


def pieces(text: str, budget: int, counter: TokenCounter) -> list[str]:
    """A text in overlapping pieces of at most this many tokens.

    >>> a_letter_each = TokenCounter(lambda text: list(text))
    >>> pieces("abcdefghijklmnop", 10, a_letter_each)
    ['abcdefgh', 'ghijklmnop']
    """
    text = text.strip()
    if not text:
        return []
    (n_tokens,) = counter.count([text])
    n = -(-n_tokens // budget)
    while max(counter.count(parts := _parts(text, n))) > budget and n < len(text):
        n += 1
    return parts


def _parts(text: str, n: int) -> list[str]:
    """Parts of about equal length; each begins with the end of the one before."""
    length = -(-len(text) // n)
    begins = (max(0, part * length - length // _OVERLAP) for part in range(n))
    return [text[begin : (part + 1) * length].strip() for part, begin in enumerate(begins)]


def _retrieved(
    query_id: str, ranking: Ranking, depth: int | None, corpus: Mapping[str, str]
) -> dict[str, str]:
    texts = corpus
    if ranking.texts is not None:
        # the first text of a repeated item counts
        texts = dict(zip(reversed(ranking.ids), reversed(ranking.texts), strict=True))
    ids = list(dict.fromkeys(ranking.ids))[:depth]
    if unknown := [item for item in ids if item not in texts]:
        argument = f"texts of what was retrieved for {query_id!r}"
        remedy = "Give a run with texts, or corpus={id: text}."
        raise InvalidInput(argument, unknown[0], "the text of every passage", remedy)
    return {item: texts[item] for item in ids}


def _checked(query_id: str, texts: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(texts, Mapping) or not all(isinstance(t, str) for t in texts.values()):
        raise InvalidInput(f"passages of {query_id!r}", texts, "{passage id: text}")
    return dict(texts)
