"""Which of many passages share anything with a text.

By winnowing (Schleimer, Wilkerson and Aiken, SIGMOD 2003): of every five neighbouring runs of eight
letters the smallest hash is kept, as a fingerprint of the text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.rankings.matching.likeness import gram_hashes, letters

GRAM = 8  # letters in a run: long enough that unrelated texts share few, short enough for Chinese
_WINDOW = 5
_BLOCK = 64  # texts hashed at once, so that their runs fit into a processor's cache
_NO_RUN = np.iinfo(np.uint64).max
_LEAST_SHARED = 0.02  # of a text's fingerprints, for a passage to be compared with it
_COMMON = 256  # a fingerprint in more passages than this is boilerplate, and doesn't count

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


class Lookup:
    """The fingerprints of some texts, and the passages that have each."""

    def __init__(self, texts: Iterable[str], passages: Mapping[str, str]) -> None:
        all_texts, self._ids = [*texts], [*passages]
        prints = [np.empty(0, np.uint64)]
        prints += [np.unique(_fingerprints(block)[1]) for block in _blocks(all_texts)]
        self._vocabulary = np.unique(np.concatenate(prints))
        normal_texts = {letters(text) for text in all_texts}
        self._same: defaultdict[str, list[str]] = defaultdict(list)
        for passage_id, text in passages.items():
            if letters(text) in normal_texts:
                self._same[letters(text)].append(passage_id)
        pairs = [np.empty(0, np.int64)]
        for number, block in enumerate(_blocks([*passages.values()])):
            owner, hashes = _fingerprints(block)
            is_known, terms = self._terms(hashes)
            passage = number * _BLOCK + owner[is_known]
            pairs.append(np.unique(terms * len(self._ids) + passage))
        term, self._passage = np.divmod(np.sort(np.concatenate(pairs)), max(1, len(self._ids)))
        self._offset = np.searchsorted(term, np.arange(len(self._vocabulary) + 1))

    def sharing(self, text: str) -> list[str]:
        """The passages that share a text's fingerprints, weighted by rarity, best first."""
        terms = np.unique(self._terms(_fingerprints([text])[1])[1])
        postings = [self._passage[self._offset[term] : self._offset[term + 1]] for term in terms]
        postings = [passages for passages in postings if len(passages) <= _COMMON]
        spread = np.array([len(passages) for passages in postings], np.int64)
        rarity = 1 / np.maximum(1, spread)
        together = np.concatenate([*postings, np.empty(0, np.int64)])
        passages, number = np.unique(together, return_inverse=True)
        shared = np.bincount(number, np.repeat(rarity, spread), len(passages))
        is_enough = shared >= _LEAST_SHARED * rarity.sum()
        order = np.argsort(-shared[is_enough], kind="stable")
        ids = [self._ids[passage] for passage in passages[is_enough][order].tolist()]
        return list(dict.fromkeys([*self._same.get(letters(text), ()), *ids]))

    def _terms(self, hashes: Hashes) -> tuple[npt.NDArray[np.bool_], Numbers]:
        """Which of the fingerprints are known, and their numbers."""
        if not len(self._vocabulary):
            return np.zeros(len(hashes), np.bool_), np.empty(0, np.int64)
        terms = np.searchsorted(self._vocabulary, hashes)
        terms[terms == len(self._vocabulary)] = 0
        is_known = self._vocabulary[terms] == hashes
        return is_known, terms[is_known].astype(np.int64)


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK))


def _fingerprints(texts: Sequence[str]) -> tuple[Numbers, Hashes]:
    """The fingerprints of texts: (prints,) the number of the text, and the hash, of each."""
    # all are hashed at once, end to end; of the runs that reach into the next text none counts,
    # and a window is narrower than these are, so that it never sees two texts
    normal = [letters(text) for text in texts]
    lengths = np.array([len(text) for text in normal], np.int64)
    owner = np.repeat(np.arange(len(texts)), lengths)
    runs = gram_hashes("".join(normal), GRAM)
    is_whole = owner[: len(runs)] == owner[GRAM - 1 :]
    runs[~is_whole] = _NO_RUN
    smallest = runs.copy()
    for step in range(1, _WINDOW):
        np.minimum(smallest[:-step], runs[step:], out=smallest[:-step])
    is_first = np.ones(len(smallest), np.bool_)
    np.not_equal(smallest[1:], smallest[:-1], out=is_first[1:])
    positions = np.flatnonzero(is_whole & is_first)
    return owner[positions], smallest[positions]
