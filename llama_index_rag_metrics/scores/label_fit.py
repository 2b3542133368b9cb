"""Whether labels fit what they judge, which no score shows: sentences for a first line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple
from unicodedata import normalize

from llama_index_rag_metrics.rankings.matching.id_matcher import seen_apart
from llama_index_rag_metrics.rankings.matching.likeness import same_text
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report.numbers import score
from llama_index_rag_metrics.runtime.containers import IntArray
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
_SPELLED = (
    "Ids that are equal but for {but_for}: {pairs:,} of {labels:,} labels, such as {label} for the "
    "id {other}. Ids compare exactly: write them alike on both sides"
)
_OTHERS = "Other questions in {name} than in {baseline}: {differences}."


@dataclass(frozen=True)
class Stock:
    """The passages that can be retrieved, as far as they are known."""

    place: str = "the corpus"  # what has them, or "the index"
    ids: Collection[str] = frozenset()  # empty where they aren't known
    texts: Mapping[Any, str] = field(default_factory=dict)  # by id, those that the dataset has


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

    @property
    def missed(self) -> list[str]:
        """The labels that weren't retrieved."""
        missed = set(self.labels).difference(self.ids)
        return [label for label in self.labels if label in missed]


def fit_notes(
    asked_at: Callable[[int], Asked], n_questions: int, stock: Stock, missed: IntArray | range
) -> list[str]:
    """Return what is wrong with the ids of labels, each fault a sentence; nothing where all fits.

    `missed` has the positions of the questions that may miss a label.

    Examples:
        >>> rows = [Asked("q1", ["Kiln.md"], ["kiln.md"]), Asked("q2", ["b"], ["a", "b"])]
        >>> print(*fit_notes(rows.__getitem__, 2, NO_STOCK, range(2)))
        Ids that are equal but for case: 1 of 2 labels, such as 'Kiln.md' for the id 'kiln.md'. \
Ids compare exactly: write them alike on both sides
    """
    if not stock.ids and not stock.texts:
        sample = Random(5).sample(range(len(missed)), min(_SAMPLE, len(missed)))
        if not _spelling_note([asked_at(int(missed[n])) for n in sample], stock):
            return []
    rows = [*map(asked_at, range(n_questions))]
    notes = [_missing_note(rows, stock), _spelling_note(rows, stock)]
    notes.append(_reused_note(rows, stock) or _moved_note(rows, stock))
    return [*filter(None, notes)]


def _missing_note(rows: Sequence[Asked], stock: Stock) -> str:
    if not stock.ids:
        return ""
    absent: list[tuple[str, Any]] = []
    n_labels, shares = 0, []
    for question in rows:
        labels, n_before = question.labels, len(absent)
        for label in labels:
            if label not in stock.ids:
                absent.append((label, question.query_id))
                if label in question.ids:
                    return ""  # the stock isn't all that can be retrieved
        if labels:
            n_labels += len(labels)
            shares.append(1 - (len(absent) - n_before) / len(labels))
    if not absent:
        return ""
    label, query_id = map(shorten, absent[0])
    recall = score(sum(shares) / len(shares), digits=2)
    fields = {"label": label, "question": query_id, "place": stock.place, "recall": recall}
    return _MISSING.format(absent=len(absent), labels=n_labels, **fields)


def absent_labels(
    relevance: Mapping[str, Relevance], run: Run, indexed: Collection[str]
) -> frozenset[str]:
    """Return the labels that an index lacks; none where it isn't all that can be retrieved."""
    ids = frozenset(indexed)
    for ranking in run.values():
        if not ids.issuperset(ranking.ids):
            return frozenset()
    return frozenset().union(*relevance.values()) - ids if ids else ids


def _reused_note(rows: Sequence[Asked], stock: Stock) -> str:
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
    n_labels, moved = 0, []
    for question in rows:
        n_labels += len(question.labels)
        for label in question.missed:
            label_text = stock.texts.get(label)
            for item, text in zip(question.ids, question.texts or (), strict=False):
                if label_text and item not in stock.texts and label_text in text:
                    moved.append((label, question.query_id, item))
                    break
    if not moved:
        return ""
    label, query_id, item = map(shorten, moved[0])
    fields = {"label": label, "question": query_id, "came_as": item}
    return _MOVED.format(moved=len(moved), labels=n_labels, **fields)


def check_same_questions(
    systems: Mapping[str, Scores], argument: str, remedy: str = "Evaluate all on the same dataset."
) -> None:
    """Refuse systems that were scored on other questions or labels than the first one.

    What one side doesn't know, such as the questions' texts, isn't compared.
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
    shared = ours.keys() & theirs.keys()
    return {name for name in shared if ours[name] and theirs[name] and ours[name] != theirs[name]}


def _without_space(text: str) -> str:
    return "".join(filter(str.isprintable, text)).replace(" ", "")


# what spellings of one id differ in, to what takes that away
_STEPS: Mapping[str, Callable[[str], str]] = {
    "Unicode form": partial(normalize, "NFKC"),
    "white space": _without_space,
    "a final .0": partial(re.sub, r"^([+-]?\d+)\.0+$", r"\1"),
    "case": str.casefold,
}
_PLAIN = re.compile(r"[a-z0-9_:/-]*")  # what no step changes
_AFFIXES = ("the prefix ", "the suffix ")


def _spelling_key(text: str) -> str:
    if not _PLAIN.fullmatch(text):
        for step in _STEPS.values():
            text = step(text)
    return text


def _spelling_note(rows: Sequence[Asked], stock: Stock) -> str:
    retrieved: set[str] = set()
    for question in rows:
        retrieved.update(question.ids)
    pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)  # by what the two differ in
    n_labels = n_missing = 0
    in_stock: dict[str, str] = {}
    for question in rows:
        n_labels += len(question.labels)
        texts = (label for label in question.missed if isinstance(label, str))
        missing = [label for label in texts if label not in stock.ids]
        if not missing:
            continue
        n_missing += len(missing)
        in_stock = in_stock or _by_spelling(stock.ids)
        spellings = _by_spelling(question.ids)
        for label in missing:
            key = _spelling_key(label)
            item = spellings.get(key) or in_stock.get(key)
            if label in retrieved:  # as it is written, so that it is a passage of its own
                continue
            if item is not None:
                pairs[_differing_in(label, item)].append((label, item))
                continue
            for item in spellings.values():
                if label in item or item in label:
                    pairs[_affix(label, item)].append((label, item))
    but_for = ""
    for difference, examples in pairs.items():
        # one passage alone may have another's id with a suffix
        is_common = len(examples) > 1 and 2 * len(examples) >= n_missing
        is_listed = is_common or not difference.startswith(_AFFIXES)
        if difference and is_listed and len(examples) > len(pairs.get(but_for, ())):
            but_for = difference
    if not but_for:
        return ""
    label, item = seen_apart(*pairs[but_for][0])
    fields = {"label": label, "other": item, "but_for": but_for}
    return _SPELLED.format(pairs=len(pairs[but_for]), labels=n_labels, **fields)


def _by_spelling(ids: Iterable[object]) -> dict[str, str]:
    return {_spelling_key(item): item for item in map(str, ids)}


def _differing_in(label: str, item: str) -> str:
    """Return what takes the difference of two spellings of one id away."""
    for name, step in _STEPS.items():
        if step(label) == step(item):
            return name
    return "spelling"


def _affix(label: str, item: str) -> str:
    """Return what one id has beside the other; "" where one is a part of the other's number."""
    short, long = sorted((label, item), key=len)
    head, tail = long.removesuffix(short), long.removeprefix(short)
    # "1" is no part of "11"
    if head != long and not (head[-1] + short[0]).isdigit():
        return f"the prefix {shorten(head)}"
    if tail != long and not (short[-1] + tail[0]).isdigit():
        return f"the suffix {shorten(tail)}"
    return ""
