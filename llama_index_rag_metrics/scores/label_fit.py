"""Whether labels fit what they judge, which no score shows: sentences for a first line."""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from random import Random
from typing import Any, NamedTuple, TypeAlias
from unicodedata import normalize
from urllib.parse import unquote

from llama_index_rag_metrics.rankings.matching.id_matcher import NOT_VALID, seen_apart
from llama_index_rag_metrics.rankings.matching.likeness import CONTAINED, likeness, same_text
from llama_index_rag_metrics.rankings.relevance import RelevanceLike, as_relevance
from llama_index_rag_metrics.report.numbers import score
from llama_index_rag_metrics.runtime.containers import IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first, shorten, truncated

from .scores import Scores

_Pair: TypeAlias = tuple[str, str, str]  # a label, the id that is like it, and what parts them
_EXCERPT = 60
_SAMPLE = 40  # spellings are compared in this many questions, by lot; if one differs, in all
_MISSING = (
    "{absent:,} of {labels:,} labels name passages that {place} doesn't have, such as {label} of "
    "question {question}{limit}"
)
_LIMIT = ": recall can be {recall} at most"
OTHER_TEXTS = "Ids of other texts"
_REUSED = (
    "{other_texts}: {reused:,} of {retrieved:,} retrieved ids have another text in "
    "{place}. Where ids were used again for other passages, scores are wrong: match by text "
    "(matcher='text', stored runs with match_run()), or move the labels (rag-metrics labels move). "
    "{passage} is “{text}” where it was retrieved, and “{stored}” in {place}"
)
_UNDER_OTHERS = "came under other ids"
_MOVED = (
    "{moved:,} of {labels:,} labels {under_others} and count as misses, such as {label} of "
    "question {question}, which came as {came_as}: match by text (matcher='text', "
    "stored runs with match_run()), or move the labels (rag-metrics labels move)"
)
_SPELLED = (
    "Ids that are equal but for {but_for}: {pairs:,} of {labels:,} labels, such as {label} for the "
    "id {other}. Ids compare exactly: write them alike on both sides"
)
_OTHERS = "Other questions in {name} than in {baseline}: {differences}."
_SAME = "Evaluate all on the same dataset, with matcher='text' where ids have changed."


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
    is_left_out: bool = False  # since its retrieval failed

    @property
    def labels(self) -> Sequence[str]:
        return () if self.relevance is None else as_relevance(self.relevance)

    @property
    def missed(self) -> list[str]:
        retrieved = set(self.ids)
        return [label for label in self.labels if label not in retrieved]


def fit_notes(
    asked_at: Callable[[int], Asked], n_questions: int, stock: Stock, missed: IntArray | range
) -> list[str]:
    """Return what is wrong with the ids of labels; `missed` are questions that may miss one."""
    if not stock.ids and not stock.texts:
        sample = Random(5).sample(range(len(missed)), min(_SAMPLE, len(missed)))
        if not _spelling_note([asked_at(int(missed[n])) for n in sample], stock):
            return []
    rows = list(map(asked_at, range(n_questions)))
    of_texts = _reused_note(_passages(rows), stock.texts) or _moved_note(rows, stock)
    return list(filter(None, [_missing_note(rows, stock), _spelling_note(rows, stock), of_texts]))


def _missing_note(rows: Sequence[Asked], stock: Stock) -> str:
    if not stock.ids:
        return ""
    absent: list[tuple[str, Any]] = []
    n_labels, shares, limit = 0, [], ""
    for question in rows:
        judged = as_relevance(question.relevance or ())
        missing = [label for label in judged if label not in stock.ids]
        if not set(missing).isdisjoint(question.ids):
            return ""  # the stock isn't all that can be retrieved
        absent += [(label, question.query_id) for label in missing]
        n_labels += len(judged)
        if judged:
            relevant = {label for label in judged if judged.grades[label] >= 1} or {*judged}
            shares.append(len(relevant.difference(missing)) / len(relevant))
    if not absent:
        return ""
    if sum(shares) < len(shares) and not any(map(attrgetter("is_left_out"), rows)):
        limit = _LIMIT.format(recall=score(sum(shares) / len(shares), digits=2))
    label, query_id = map(shorten, absent[0])
    fields = {"label": label, "question": query_id, "place": stock.place, "limit": limit}
    return _MISSING.format(absent=len(absent), labels=n_labels, **fields)


def _reused_note(pairs: Iterable[Any], texts: Mapping[Any, str], place: str = "the dataset") -> str:
    shared: set[str] = set()
    changed: dict[str, str] = {}
    for item, text in pairs:
        stored_text = texts.get(item)
        if stored_text is None or not text or item in changed:
            continue
        shared.add(item)
        if not same_text(text, stored_text):
            changed[item] = text
    if not changed:
        return ""
    item, text = next(iter(changed.items()))
    fields = {"reused": len(changed), "retrieved": len(shared), "passage": shorten(item)}
    fields["text"] = truncated(" ".join(text.split()), _EXCERPT)
    fields["stored"] = truncated(" ".join(texts[item].split()), _EXCERPT)
    return _REUSED.format(other_texts=OTHER_TEXTS, place=place, **fields)


def with_reuse(now: Scores, before: Scores, place: str) -> Scores:
    """Return the scores with a note where ids and texts go together otherwise than in before."""
    notes, texts = "".join(now.notes), list[dict[str, str]]()
    for retrieval in (before.retrieval, now.retrieval):
        if retrieval is None or retrieval.matched or OTHER_TEXTS in notes or _UNDER_OTHERS in notes:
            return now
        run, labels = retrieval.run, retrieval.relevance
        passages = list(_passages(run.values()))
        texts.append(dict(passages))
        if _reused_note(passages, texts[-1]):  # ids of documents, not of passages
            return now
    rows = [Asked(key, labels.get(key), answer.ids, answer.texts) for key, answer in run.items()]
    note = _reused_note(passages, texts[0], place) or _moved_note(rows, Stock(texts=texts[0]))
    added = list(filter(None, [note]))
    return now.replace(notes=[*now.notes, *added], label_notes=[*now.label_notes, *added])


def _passages(rankings: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for ranking in rankings:
        yield from zip(ranking.ids, ranking.texts or (), strict=False)


def _moved_note(rows: Sequence[Asked], stock: Stock) -> str:
    moved = []
    for question in rows:
        for label in question.missed:
            label_text = stock.texts.get(label)
            for item, text in zip(question.ids, question.texts or (), strict=False):
                if item in stock.texts or not label_text or label_text not in text:
                    continue
                if likeness([label_text], [text])[0, 0] >= CONTAINED:  # no part of a word
                    moved.append((label, question.query_id, item))
                    break
    if not moved:
        return ""
    n_labels = sum(map(len, map(attrgetter("labels"), rows)))
    label, query_id, item = map(shorten, moved[0])
    fields = {"label": label, "question": query_id, "came_as": item, "labels": n_labels}
    note = _MOVED.format(moved=len(moved), under_others=_UNDER_OTHERS, **fields)
    n_found = n_labels - sum(map(len, map(attrgetter("missed"), rows)))
    return f"{NOT_VALID}: {note}" if len(moved) > n_found else note


def check_questions(systems: Mapping[str, Scores], argument: str, remedy: str = _SAME) -> None:
    """Refuse systems scored on other questions or labels than the first, as far as both know."""
    baseline, theirs = next(iter(systems.items()))
    their_ids, their_labels = _judged(theirs), _labels(theirs)
    for name, scores in systems.items():
        ids = _judged(scores)
        differences = {
            "missing": their_ids - ids,
            "new": ids - their_ids,
            "with another text": _unequal(scores.queries, theirs.queries),
            "with other labels": _unequal(_labels(scores), their_labels),
            "with other texts of labels": _unequal(_label_texts(scores), _label_texts(theirs)),
        }
        listed = []
        for kind, names in differences.items():
            if names:
                listed.append(f"{len(names):,} {kind} ({join_first(sorted(map(str, names)))})")
        if listed:
            fields = {"name": name, "baseline": baseline, "differences": "; ".join(listed)}
            raise InvalidInput(argument, name, sentence=_OTHERS.format(**fields), remedy=remedy)


def _judged(scores: Scores) -> set[str]:
    """The questions that count: a run may also rank some that nobody judged."""
    excluded = scores.excluded.items()
    return {*scores.query_ids, *(name for name, reason in excluded if reason != "unjudged")}


def _labels(scores: Scores) -> dict[str, object]:
    """Query id to what its labels say, in any order, where that is known."""
    labels: dict[str, object] = {}
    if scores.retrieval is not None:
        for query_id, judged in scores.retrieval.relevance.items():
            members, weights = map(sorted, judged.alternatives or ()), judged.weights or ()
            groups = sorted(zip(members, weights, strict=True))
            grades = zip(map(str, judged.grades), judged.grades.values(), strict=True)
            labels[query_id] = dict(grades), groups, judged.spans
    return labels


def _label_texts(scores: Scores) -> dict[str, object]:
    passages = scores.retrieval.passages if scores.retrieval else {}
    return {name: texts for name, texts in passages.items() if str in map(type, texts.values())}


def _unequal(ours: Mapping[str, object], theirs: Mapping[str, object]) -> set[str]:
    shared = ours.keys() & theirs.keys()
    return {name for name in shared if ours[name] and theirs[name] and ours[name] != theirs[name]}


# what spellings of one id differ in, to what takes that away
_STEPS: Mapping[str, Callable[[str], str]] = {
    "Unicode form": partial(normalize, "NFKC"),
    "percent-encoding": unquote,
    "white space": lambda text: "".join(filter(str.isprintable, text)).replace(" ", ""),
    "a final .0": partial(re.sub, r"^([+-]?\d+)\.0+$", r"\1"),
    "leading zeros": partial(re.sub, r"(?<![\d.])0+(?=\d)", ""),
    "punctuation": partial(re.sub, r"(?<=[^\W_])[\W_]+|[\W_]+(?=[^\W_])", ""),
    "case": str.casefold,
}
_CHANGEABLE = str.maketrans("", "", string.punctuation + "0 \t")
_OF_MANY = ("punctuation", "the prefix", "the suffix")  # in which two passages may differ, too
_CUT_NUMBER, _FIRST_NUMBER = re.compile(r"\d\0\d"), re.compile(r"(the suffix '\D*)\d+")


def _by_letters(ids: Collection[str]) -> dict[str, list[str]]:
    """Ids by the letters and digits that all spellings of one share, but perhaps others, too."""
    texts = list(map(str, ids))
    joint = "\n".join(texts)
    if not joint.isascii() or "%" in joint or joint.count("\n") >= len(texts):
        for step in _STEPS.values():
            texts = list(map(step, texts))
        joint = "\n".join(texts)
    by_letters: dict[str, list[str]] = defaultdict(list)
    for letters, item in zip(joint.translate(_CHANGEABLE).lower().split("\n"), ids, strict=False):
        by_letters[letters].append(item)
    return by_letters


def _spelling_note(rows: Sequence[Asked], stock: Stock) -> str:
    retrieved: set[str] = set().union(*map(attrgetter("ids"), rows))
    pairs: dict[str, list[_Pair]] = defaultdict(list)
    n_labels = n_missing = 0
    in_stock: Mapping[str, list[str]] = {}
    for question in rows:
        n_labels += len(question.labels)
        missing = [key for key in question.missed if isinstance(key, str) and key not in stock.ids]
        n_missing += len(missing)
        if not missing:
            continue
        in_stock = in_stock or _by_letters(stock.ids)
        for kind, (label, item, difference) in _respelled(missing, question.ids, in_stock):
            if label not in retrieved:  # as it is written: a passage of its own
                pairs[kind].append((label, item, difference))
    examples = _most_frequent(pairs, n_missing)
    if not examples:
        return ""
    label, item, difference = examples[0]
    label, item = seen_apart(label, item)
    fields = {"label": label, "other": item, "but_for": difference}
    return _SPELLED.format(pairs=len(examples), labels=n_labels, **fields)


def _most_frequent(pairs: Mapping[str, list[_Pair]], n_missing: int) -> list[_Pair]:
    credible: list[list[_Pair]] = [[]]
    for kind, examples in pairs.items():
        # one passage alone may have another's id with a suffix
        is_common = len(examples) > 1 and 2 * len(examples) >= n_missing
        if is_common or not kind.startswith(_OF_MANY):
            credible.append(examples)
    return max(credible, key=len)


def _respelled(
    labels: Sequence[str], ids: Sequence[str], in_stock: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, _Pair]]:
    """Yield kinds of difference, each with a pair that differs in it."""
    spellings = _by_letters(ids)
    for letters, labels_alike in _by_letters(labels).items():
        candidates = [*spellings.get(letters, ()), *in_stock.get(letters, ())]
        for label in labels_alike:
            differences = _differences(label, candidates, ids)
            # chunks of one document have several numbers behind its id
            kinds = {_FIRST_NUMBER.sub(r"\g<1>0", name): name for name in differences}
            for kind, difference in kinds.items():
                yield kind, (label, differences[difference], difference)


def _differences(label: str, candidates: Iterable[str], ids: Iterable[str]) -> dict[str, str]:
    """Return what parts a label from other spellings, or else from longer ids, each with the id."""
    differences = {_difference(label, item): item for item in candidates}
    if not any(differences):
        name = _file_name(label)
        for item in ids:
            if isinstance(item, str) and (name in item or item in label):
                differences[_affix(label, item)] = item
    differences.pop("", None)
    return differences


def _difference(label: str, item: object) -> str:
    """Return what takes the difference of two spellings of one id away; "" of two ids."""
    if label == str(item):
        return "type"
    ours, theirs = label, str(item)
    for name, step in _STEPS.items():
        if step(label) == step(str(item)):
            return name
        ours, theirs = step(ours), step(theirs)
    return "spelling" if ours == theirs else ""


def _file_name(text: str) -> str:
    return text.replace("\\", "/").rpartition("/")[2].partition(".")[0] or text


def _affix(label: str, item: str) -> str:
    """Return what ids have beside the one that is in the other, or beside a file's name."""
    shared, longer = sorted((label, item), key=len)
    if shared not in longer and (shared := _file_name(label)) != _file_name(item):
        return ""
    ends = label.rpartition(shared), item.rpartition(shared)
    # "1" is no part of "11"
    if any(_CUT_NUMBER.search("\0".join(parts)) for parts in ends):
        return ""
    differences = []
    for word, place in (("prefix", 0), ("suffix", 2)):
        affixes = dict.fromkeys(parts[place] for parts in ends)
        texts = list(map(shorten, filter(None, affixes)))
        forms = {re.sub(r"\d+", "", affix) for affix in affixes}
        if all(affixes) and len(forms) < len(affixes):
            return ""  # the numbers of two chunks
        if len(affixes) > 1:
            differences.append(f"the {word}{'es' * (len(texts) - 1)} {' and '.join(texts)}")
    return " and ".join(differences)
