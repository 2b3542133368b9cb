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
from random import Random
from typing import Any, NamedTuple
from unicodedata import category, normalize
from urllib.parse import unquote

from llama_index_rag_metrics.rankings.matching.id_matcher import seen_apart
from llama_index_rag_metrics.rankings.matching.likeness import letters, likeness
from llama_index_rag_metrics.rankings.matching.matched import Matched
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.excerpts import shared_start
from llama_index_rag_metrics.report.numbers import counted, score
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first, shorten

from .scores import Scores

SAMPLE = 40  # spellings are compared in this many questions, by lot; if one differs, in all

_MOST_SHOWN = 60  # characters of a text in a sentence
_MISSING = (
    "{absent:,} of {labels} {name} that {place} doesn't have, such as {label} of question "
    "{question}: recall can be {recall} at most"
)
_REUSED = (
    "{reused:,} of {retrieved} {have} another text in the dataset: {passage} is {text} where it "
    "was retrieved, and {stored} in the dataset. Where ids were used again for other passages, "
    "scores are wrong: match by text, or move the labels"
)
_UNLIKE = (
    "{unlike:,} of {credited} {are} the text of a label; the lowest likeness is {lowest}: {text} "
    "was retrieved for {label}"
)
_SPELLED = (
    "{pairs:,} of {labels} {was} {where} under an id that is equal but for {but_for}: a label is "
    "{label}, the id {other}. Ids compare exactly: write them alike on both sides"
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
    texts: Mapping[str, str] = field(default_factory=dict)

    def text_of(self, passage: str | Span) -> str | None:
        return None if isinstance(passage, Span) else self.texts.get(passage)


NO_STOCK = Stock()


class Asked(NamedTuple):
    """What one question wants and got; `texts` are those of the ids, where they are known."""

    query_id: Any
    given: RelevanceLike | None  # its labels, as they were given
    ids: Sequence[str]
    texts: Sequence[str] | None = None

    @property
    def labels(self) -> Sequence[str]:
        return () if self.given is None else as_relevance(self.given)


class Pair(NamedTuple):
    """A label, and the id that seems to be the same passage."""

    label: str
    other: str
    but_for: str  # what the two differ in


def fit_notes(
    asked_at: Callable[[int], Asked],
    n_questions: int,
    stock: Stock = NO_STOCK,
    missed: Sequence[int] | None = None,
) -> list[str]:
    """Return what is wrong with the ids of labels, each fault a sentence; nothing where all fits.

    Args:
        asked_at: what the question at a position wants and got, by id.
        n_questions: how many questions there are.
        stock: the passages that can be retrieved.
        missed: positions of the questions that miss a label; None where that isn't known.

    Examples:
        >>> rows = [Asked("q1", ["Kiln.md"], ["kiln.md"]), Asked("q2", ["b"], ["a", "b"])]
        >>> print(*fit_notes(rows.__getitem__, 2))
        1 of 2 labels was retrieved under an id that is equal but for case: a label is 'Kiln.md', \
the id 'kiln.md'. Ids compare exactly: write them alike on both sides
    """
    if not stock.ids and not stock.texts:
        suspects = range(n_questions) if missed is None else missed
        sample = Random(5).sample(suspects, min(SAMPLE, len(suspects)))
        if not _pairs([asked_at(row) for row in sample], stock):
            return []
    rows = [asked_at(row) for row in range(n_questions)]
    notes = [_missing_note(rows, stock), _spelling_note(rows, stock), reused_note(rows, stock)]
    return [note for note in notes if note]


def _missing_note(rows: Sequence[Asked], stock: Stock) -> str:
    """Return how many labels name passages that the stock doesn't have, and what recall can be."""
    if not stock.ids:
        return ""
    n_labels, absences, shares = 0, [], []
    for question in rows:
        labels = question.labels
        if not labels:
            continue
        absent = [label for label in labels if label not in stock.ids]
        if not set(absent).isdisjoint(question.ids):
            return ""  # the stock isn't all that can be retrieved
        n_labels += len(labels)
        absences += [(label, question.query_id) for label in absent]
        shares.append(1 - len(absent) / len(labels))
    if not absences:
        return ""
    label, query_id = absences[0]
    return _MISSING.format(
        absent=len(absences),
        labels=counted(n_labels, "label", "labels"),
        name="names a passage" if len(absences) == 1 else "name passages",
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


def reused_note(rows: Sequence[Asked], stock: Stock) -> str:
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
    stored, retrieved = parted(stock.texts[item], text)
    return _REUSED.format(
        reused=len(changed),
        retrieved=counted(len(shared), "retrieved id", "retrieved ids"),
        have="has" if len(changed) == 1 else "have",
        passage=shorten(item),
        text=retrieved,
        stored=stored,
    )


def text_match_note(matched: Matched, texts_of: Mapping[str, Sequence[str]]) -> str:
    """Return how many credited passages aren't the labelled text, and the lowest likeness.

    Args:
        matched: what a matcher of texts made of a run.
        texts_of: query id to the text of each retrieved passage.
    """
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
    label, text = parted(*lowest)
    return _UNLIKE.format(
        unlike=len(unlike),
        credited=counted(n_credited, "credited passage", "credited passages"),
        are="isn't" if len(unlike) == 1 else "aren't",
        lowest=score(shares[lowest], digits=2),
        text=text,
        label=label,
    )


def check_same_questions(
    systems: Mapping[str, Scores], argument: str, remedy: str = "Evaluate all on the same dataset."
) -> None:
    """Refuse systems that were scored on other questions or labels than the first one.

    What one side doesn't know, such as the questions' texts, isn't compared.

    Raises:
        InvalidInput: says how many questions differ, and names some.
    """
    baseline, theirs = next(iter(systems.items()))
    their_ids = {*theirs.query_ids, *theirs.excluded}
    for name, scores in systems.items():
        ids = {*scores.query_ids, *scores.excluded}
        differences = {
            "missing": their_ids - ids,
            "new": ids - their_ids,
            "with another text": _unequal(scores.queries, theirs.queries),
            "with other labels": _unequal(scores.labels, theirs.labels),
        }
        listed = []
        for kind, query_ids in differences.items():
            if query_ids:
                examples = join_first(sorted(map(str, query_ids)))
                listed.append(f"{len(query_ids):,} {kind} ({examples})")
        if listed:
            fields = {"name": name, "baseline": baseline, "differences": "; ".join(listed)}
            raise InvalidInput(argument, name, sentence=_OTHERS.format(**fields), remedy=remedy)


def _unequal(ours: Mapping[str, str], theirs: Mapping[str, str]) -> set[str]:
    """The questions of which both sides know something else."""
    shared = (query_id for query_id in ours if ours[query_id] and theirs.get(query_id))
    return {query_id for query_id in shared if ours[query_id] != theirs[query_id]}


def same_text(text: str, other: str) -> bool:
    """Whether one text has the other, but for case, space and punctuation."""
    if text == other:
        return True
    ours, theirs = letters(text), letters(other)
    return ours in theirs or theirs in ours


def parted(text: str, other: str) -> tuple[str, str]:
    """Two texts from a little before the character where they part, shortened."""
    start = len(shared_start([text, other]))
    start = max(0, start - _MOST_SHOWN // 2)
    return _cut(text, start), _cut(other, start)


def _cut(text: str, start: int) -> str:
    start_mark = "…" if start else ""
    end_mark = "…" if len(text) > start + _MOST_SHOWN else ""
    return shorten(f"{start_mark}{text[start : start + _MOST_SHOWN]}{end_mark}")


def _without_space(text: str) -> str:
    visible = (letter for letter in text if category(letter) not in ("Cf", "Cc"))
    return "".join("".join(visible).split())


# what spellings of one id differ in, to what takes that away
_STEPS: Mapping[str, Callable[[str], str]] = {
    "percent encoding": unquote,
    "slashes": lambda text: text.replace("\\", "/"),
    "Unicode form": partial(normalize, "NFKC"),
    "white space": _without_space,
    "a final .0": partial(re.sub, r"^([+-]?\d+)\.0+$", r"\1"),
    "leading zeros": partial(re.sub, r"^0+(?=\d+$)", ""),
    "case": str.casefold,
}
_NOT_PLAIN = re.compile(r"[^\x21-\x7e]|[A-Z%\\]|^0|\.0")  # what any of the steps may change


def spelling_key(text: str, *, without: str = "") -> str:
    """Return what all spellings of an id share; `without` leaves out one step.

    >>> spelling_key("Cafe\\u0301 17") == spelling_key("caf\\xe917 ")
    True
    """
    if not _NOT_PLAIN.search(text):
        return text
    for name, step in _STEPS.items():
        if name != without:
            text = step(text)
    return text


def differing_in(label: str, other: str) -> str:
    """Return what two spellings of one id differ in, in words.

    >>> differing_in("17.0", "17"), differing_in("A b", "ab")
    ('a final .0', 'white space and case')
    """
    needed = []
    for name in _STEPS:
        if spelling_key(label, without=name) != spelling_key(other, without=name):
            needed.append(name)
    return " and ".join(needed) or "spelling"


def _spelling_note(rows: Sequence[Asked], stock: Stock) -> str:
    """Return how many labels are there under an id that is equal but for its spelling."""
    pairs = _pairs(rows, stock)
    if not pairs:
        return ""
    but_for, n_alike = Counter(pair.but_for for pair in pairs).most_common(1)[0]
    example = next(pair for pair in pairs if pair.but_for == but_for)
    label, item = seen_apart(example.label, example.other)
    if n_alike < len(pairs):
        but_for += " and the like"
    was, place = "was" if len(pairs) == 1 else "were", "retrieved"
    if not any(example.other in question.ids for question in rows):
        was, place = "is" if len(pairs) == 1 else "are", f"in {stock.place}"
    n_labels = sum(len(question.labels) for question in rows)
    labels = counted(n_labels, "label", "labels")
    fields = {"was": was, "where": place, "but_for": but_for, "label": label, "other": item}
    return _SPELLED.format(pairs=len(pairs), labels=labels, **fields)


def _pairs(rows: Sequence[Asked], stock: Stock) -> list[Pair]:
    """Return the labels that are there under an id of another spelling alone."""
    pairs: list[Pair] = []
    affix_pairs: list[Pair] = []
    n_unmatched = 0
    in_stock: dict[str, str] | None = None
    for question in rows:
        labels = question.labels
        missing = set(labels).difference(question.ids, stock.ids)
        labels = [label for label in labels if label in missing and type(label) is str]
        if not labels:
            continue
        n_unmatched += len(labels)
        if in_stock is None:
            in_stock = {spelling_key(item): item for item in stock.ids}
        ids = [str(item) for item in question.ids]
        retrieved = {spelling_key(item): item for item in ids}
        for label in labels:
            key = spelling_key(label)
            match = retrieved.get(key) or in_stock.get(key)
            if match is not None:
                pairs.append(Pair(label, match, differing_in(label, match)))
            else:
                affix_pairs += [*_shortened(label, set(ids)), *_lengthened(label, ids)]
    affixes = Counter(pair.but_for for pair in affix_pairs).most_common(1)
    for affix, n_alike in affixes:
        if n_alike >= 2 and 2 * n_alike >= n_unmatched - len(pairs):
            pairs += [pair for pair in affix_pairs if pair.but_for == affix]
    # an id that was retrieved as it is written is no other spelling of a passage
    suspects = {pair.label for pair in pairs}
    as_written: set[str] = set()
    for question in rows:
        as_written |= suspects.intersection(question.ids)
    return [pair for pair in pairs if pair.label not in as_written]


def _shortened(label: str, retrieved: Collection[str]) -> Iterator[Pair]:
    """Pairs of a label and a retrieved id that is the label without a prefix or a suffix."""
    if label.isalnum():
        return
    for match in _WORD.finditer(label):
        prefix, tail = label[: match.start()], label[match.start() :]
        head, suffix = label[: match.end()], label[match.end() :]
        if prefix and tail in retrieved:
            yield Pair(label, tail, f"the prefix {shorten(prefix)}")
        if suffix and head in retrieved:
            yield Pair(label, head, f"the suffix {shorten(suffix)}")


def _lengthened(label: str, ids: Iterable[str]) -> Iterator[Pair]:
    """Pairs of a label and a retrieved id that is the label with a prefix or a suffix."""
    for item in ids if label else ():
        prefix, middle, suffix = item.partition(label)
        if not middle or bool(prefix) == bool(suffix):
            continue
        if prefix and not _runs_on(prefix[-1], label[0]):
            yield Pair(label, item, f"the prefix {shorten(prefix)}")
        if suffix and not _runs_on(label[-1], suffix[0]):
            yield Pair(label, item, f"the suffix {shorten(suffix)}")


_WORD = re.compile(r"[^\W_]+")


def _runs_on(character: str, following: str) -> bool:
    """Whether two characters are of one number or word, as in "11" beside "1"."""
    pair = character + following
    return pair.isdigit() or pair.isalpha()
