"""Whether labels fit what they judge: facts about ids and texts, in sentences for a first line.

Labels that name passages which aren't there count as misses, and ids that were used again for other
texts credit wrong passages: neither is seen in a score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from random import Random
from typing import Any, NamedTuple
from unicodedata import category, normalize

from llama_index_rag_metrics.rankings.matching.id_matcher import seen_apart
from llama_index_rag_metrics.rankings.matching.likeness import letters, likeness
from llama_index_rag_metrics.rankings.matching.matched import Matched
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report.numbers import score
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first, shorten, truncated

from .scores import Scores

_EXCERPT = 60
_SAMPLE = 40  # spellings are compared in this many questions, by lot; if one differs, in all
_MISSING = (
    "{absent:,} of {labels:,} labels name passages that {place} doesn't have, such as {label} of "
    "question {question}: recall can be {recall} at most"
)
_REUSED = (
    "Ids of other texts: {reused:,} of {retrieved:,} retrieved ids have another text in the "
    "dataset: {passage} is “{text}” where it was retrieved, and “{stored}” in the dataset. Where "
    "ids were used again for other passages, scores are wrong: match by text, or move the labels"
)
_MOVED = (
    "{moved:,} of {labels:,} labels came under other ids and count as misses, such as {label} of "
    "question {question}, which came as {came_as}: match by text, or move the labels"
)
_UNLIKE = (
    "Credited without being the text of a label: {unlike:,} of {credited:,} passages; the lowest "
    "likeness is {lowest}: {text} was retrieved for {label}"
)
_SPELLED = (
    "Ids that are equal but for {but_for}: {pairs:,} of {labels:,} labels, such as {label} for the "
    "id {other}. Ids compare exactly: write them alike on both sides"
)
_OTHERS = "Other questions in {name} than in {baseline}: {differences}."


@dataclass(frozen=True)
class Stock:
    """The passages that can be retrieved, as far as they are known.

    Attributes:
        place: what has them, "the index" or "the corpus".
        ids: the id of each; empty where they aren't known.
        texts: id to text, of the passages whose text the dataset has.
    """

    place: str = "the corpus"
    ids: Collection[str] = frozenset()
    texts: Mapping[Any, str] = field(default_factory=dict)


NO_STOCK = Stock()


class Asked(NamedTuple):
    """What one question wants and got; `texts` are those of the ids, where they are known."""

    query_id: Any
    relevance: RelevanceLike | None  # its labels, as they were given
    ids: Sequence[str]
    texts: Sequence[str] | None = None

    @property
    def labels(self) -> Sequence[str]:
        return () if self.relevance is None else as_relevance(self.relevance)


def fit_notes(
    asked_at: Callable[[int], Asked],
    n_questions: int,
    stock: Stock = NO_STOCK,
    missed: Sequence[int] | None = None,
) -> list[str]:
    """Return what is wrong with the ids of labels, each fault a sentence; nothing where all fits.

    `missed` has the positions of the questions that miss a label; None where that isn't known.

    Examples:
        >>> rows = [Asked("q1", ["Kiln.md"], ["kiln.md"]), Asked("q2", ["b"], ["a", "b"])]
        >>> print(*fit_notes(rows.__getitem__, 2))
        Ids that are equal but for case: 1 of 2 labels, such as 'Kiln.md' for the id 'kiln.md'. \
Ids compare exactly: write them alike on both sides
    """
    if not stock.ids and not stock.texts:
        suspects = range(n_questions) if missed is None else missed
        sample = Random(5).sample(suspects, min(_SAMPLE, len(suspects)))
        if not _spelling_note([*map(asked_at, sample)], stock):
            return []
    rows = [*map(asked_at, range(n_questions))]
    notes = [_missing_note(rows, stock), _spelling_note(rows, stock)]
    notes.append(_reused_note(rows, stock) or _moved_note(rows, stock))
    return [*filter(None, notes)]


def _missing_note(rows: Sequence[Asked], stock: Stock) -> str:
    """Return how many labels name passages that the stock doesn't have, and what recall can be."""
    if not stock.ids:
        return ""
    n_labels, n_absent, shares = 0, 0, []
    example = ("", "")
    for question in rows:
        labels = question.labels
        if not labels:
            continue
        absent = [label for label in labels if label not in stock.ids]
        if not set(absent).isdisjoint(question.ids):
            return ""  # the stock isn't all that can be retrieved
        n_labels += len(labels)
        if absent and not n_absent:
            example = absent[0], question.query_id
        n_absent += len(absent)
        shares.append(1 - len(absent) / len(labels))
    if not n_absent:
        return ""
    label, query_id = example
    return _MISSING.format(
        absent=n_absent,
        labels=n_labels,
        place=stock.place,
        label=shorten(label),
        question=shorten(query_id),
        recall=score(sum(shares) / len(shares), digits=2),
    )


def absent_labels(
    relevance: Mapping[str, Relevance], run: Run, indexed: Collection[str]
) -> frozenset[str]:
    """Return the labels that an index lacks; none where it isn't all that can be retrieved."""
    ids = set(indexed)
    labels = set().union(*relevance.values())
    retrieved = set().union(*(ranking.ids for ranking in run.values()))
    if not ids or not retrieved <= ids:
        return frozenset()
    return frozenset(labels - ids)


def _reused_note(rows: Sequence[Asked], stock: Stock) -> str:
    """Return how many retrieved ids have another text than the stock's passage of that id."""
    shared: set[str] = set()
    changed: dict[str, str] = {}
    for question in rows:
        for item, text in zip(question.ids, question.texts or (), strict=False):
            stock_text = stock.texts.get(item)
            if stock_text is None or not text or item in changed:
                continue
            shared.add(item)
            if not same_text(text, stock_text):
                changed[item] = text
    if not changed:
        return ""
    item, text = next(iter(changed.items()))
    return _REUSED.format(
        reused=len(changed),
        retrieved=len(shared),
        passage=shorten(item),
        text=truncated(" ".join(text.split()), _EXCERPT),
        stored=truncated(" ".join(stock.texts[item].split()), _EXCERPT),
    )


def _moved_note(rows: Sequence[Asked], stock: Stock) -> str:
    """Return how many labels came, with their text, under ids that the dataset doesn't know."""
    n_labels, moved = 0, []
    for question in rows:
        n_labels += len(question.labels)
        missing = set(question.labels).intersection(stock.texts).difference(question.ids)
        texts = zip(question.ids, question.texts or (), strict=False)
        strange = [(item, text) for item, text in texts if item not in stock.texts]
        for label in sorted(missing):
            label_text = stock.texts[label]
            ids = (item for item, text in strange if label_text and label_text in text)
            moved += [(label, question.query_id, item) for item in islice(ids, 1)]
    if not moved:
        return ""
    label, query_id, item = map(shorten, moved[0])
    fields = {"label": label, "question": query_id, "came_as": item}
    return _MOVED.format(moved=len(moved), labels=n_labels, **fields)


def text_match_note(matched: Matched, texts_of: Mapping[str, Sequence[str]]) -> str:
    """Return how many credited passages aren't the labelled text, and the lowest likeness."""
    n_credited = 0
    unlike: dict[tuple[str, str], None] = {}
    for query_id, by_item in matched.stands_for.items():
        label_texts = matched.passages.get(query_id, {})
        for names, text in zip(by_item, texts_of.get(query_id, ()), strict=False):
            for label_text in map(label_texts.get, names):
                if not isinstance(label_text, str):
                    continue
                n_credited += 1
                if not same_text(label_text, text):
                    unlike[label_text, text] = None
    if not unlike:
        return ""
    shares = {(label, text): float(likeness([label], [text])[0, 0]) for label, text in unlike}
    lowest = min(shares, key=shares.__getitem__)
    label, text = map(shorten, lowest)
    lowest_share = score(shares[lowest], digits=2)
    fields = {"unlike": len(unlike), "credited": n_credited, "text": text, "label": label}
    return _UNLIKE.format(lowest=lowest_share, **fields)


def check_same_questions(
    systems: Mapping[str, Scores], argument: str, remedy: str = "Evaluate all on the same dataset."
) -> None:
    """Refuse systems that were scored on other questions or labels than the first one.

    What one side doesn't know, such as the questions' texts, isn't compared.

    Raises:
        InvalidInput: says how many questions differ, and names some.
    """
    baseline, theirs = next(iter(systems.items()))
    their_ids = _judged(theirs)
    for name, scores in systems.items():
        ids = _judged(scores)
        differences = {
            "missing": their_ids - ids,
            "new": ids - their_ids,
            "with another text": _unequal(scores.queries, theirs.queries),
            "with other labels": _unequal(_labels(scores), _labels(theirs)),
        }
        listed = []
        for kind, query_ids in differences.items():
            if query_ids:
                examples = join_first(sorted(map(str, query_ids)))
                listed.append(f"{len(query_ids):,} {kind} ({examples})")
        if listed:
            fields = {"name": name, "baseline": baseline, "differences": "; ".join(listed)}
            raise InvalidInput(argument, name, sentence=_OTHERS.format(**fields), remedy=remedy)


def _judged(scores: Scores) -> set[str]:
    """The questions that count: a run may also rank some that nobody judged."""
    excluded = (name for name, reason in scores.excluded.items() if reason != "unjudged")
    return {*scores.query_ids, *excluded}


def _labels(scores: Scores) -> dict[str, object]:
    """Query id to what its labels say, in any order, where that is known."""
    labels: dict[str, object] = {}
    if scores.retrieval is not None:
        for query_id, judged in scores.retrieval.relevance.items():
            groups = sorted(map(sorted, judged.alternatives or ()))
            grades = zip(map(str, judged.grades), judged.grades.values(), strict=True)
            labels[query_id] = dict(grades), groups, judged.spans
    return labels


def _unequal(ours: Mapping[str, object], theirs: Mapping[str, object]) -> set[str]:
    """The questions of which both sides know something else."""
    shared = (query_id for query_id in ours if ours[query_id] and theirs.get(query_id))
    return {query_id for query_id in shared if ours[query_id] != theirs[query_id]}


def same_text(text: str, other: str) -> bool:
    """Whether one text has the other, but for case, space and punctuation."""
    if text == other:
        return True
    ours, theirs = letters(text), letters(other)
    return ours in theirs or theirs in ours


def _without_space(text: str) -> str:
    visible = (letter for letter in text if category(letter) not in ("Cf", "Cc"))
    return "".join("".join(visible).split())


# what spellings of one id differ in, to what takes that away
_STEPS: Mapping[str, Callable[[str], str]] = {
    "Unicode form": partial(normalize, "NFKC"),
    "white space": _without_space,
    "a final .0": partial(re.sub, r"^([+-]?\d+)\.0+$", r"\1"),
    "case": str.casefold,
}
_PLAIN = re.compile(r"[a-z0-9_:/-]*")  # what no step changes


def _spelling_key(text: str) -> str:
    """Return what all spellings of an id share."""
    if not _PLAIN.fullmatch(text):
        for step in _STEPS.values():
            text = step(text)
    return text


class Pair(NamedTuple):
    """A label, and the id that seems to be the same passage."""

    label: str
    item: str
    but_for: str  # what the two differ in


def _spelling_note(rows: Sequence[Asked], stock: Stock) -> str:
    """Return how many labels are there under an id that is equal but for its spelling."""
    pairs: list[Pair] = []
    retrieved: set[str] = set()
    n_labels = n_missing = 0
    in_stock: dict[str, str] | None = None
    for question in rows:
        n_labels += len(question.labels)
        retrieved.update(question.ids)
        missing = set(question.labels).difference(question.ids, stock.ids)
        labels = [label for label in question.labels if label in missing and type(label) is str]
        if not labels:
            continue
        n_missing += len(labels)
        if in_stock is None:
            in_stock = {_spelling_key(item): item for item in stock.ids}
        spellings = {_spelling_key(item): item for item in map(str, question.ids)}
        for label in labels:
            key = _spelling_key(label)
            item = spellings.get(key) or in_stock.get(key)
            if item is not None:
                pairs.append(Pair(label, item, _differing_in(label, item)))
            else:
                pairs += _affix_pairs(label, spellings.values())
    # an id that was retrieved as it is written is no other spelling of a passage
    pairs = [pair for pair in pairs if pair.label not in retrieved]
    for but_for, n in Counter(pair.but_for for pair in pairs).most_common():
        # one passage alone may have another's id with a suffix
        is_common = n > 1 and 2 * n >= n_missing
        if is_common or not but_for.startswith(_AFFIXES):
            example = next(pair for pair in pairs if pair.but_for == but_for)
            label, item = seen_apart(example.label, example.item)
            fields = {"but_for": but_for, "pairs": n, "labels": n_labels}
            return _SPELLED.format(label=label, other=item, **fields)
    return ""


def _differing_in(label: str, item: str) -> str:
    """Return what takes the difference of two spellings of one id away."""
    for name, step in _STEPS.items():
        if step(label) == step(item):
            return name
    return "spelling"


_AFFIXES = ("the prefix ", "the suffix ")


def _affix_pairs(label: str, items: Iterable[str]) -> Iterator[Pair]:
    """Pairs of a label and an id of which one is the other with a prefix or a suffix."""
    for item in items:
        if not label or (label not in item and item not in label):
            continue
        short, long = sorted((label, item), key=len)
        head, tail = long[: -len(short)], long[len(short) :]
        # "1" is no part of "11"
        if long.endswith(short) and not (head[-1] + short[0]).isdigit():
            yield Pair(label, item, f"the prefix {shorten(head)}")
        elif long.startswith(short) and not (short[-1] + tail[0]).isdigit():
            yield Pair(label, item, f"the suffix {shorten(tail)}")
