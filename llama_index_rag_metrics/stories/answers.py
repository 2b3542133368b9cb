"""A question's story: what was asked, wanted, retrieved and lost; what scores keep of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from math import inf
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.files.conversations import conversation_sentence
from llama_index_rag_metrics.rankings.matching.matched import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Items, Ranking, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import beginning
from llama_index_rag_metrics.report.numbers import digits_apart, score
from llama_index_rag_metrics.scores.mappings import LazyMapping
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.stories.label_view import Reading, System, query_text

# of how many items the texts are looked at, and how much of each text
KEPT_ITEMS, KEPT_START = 5, 320
# of how many retrieved items the texts are kept, and how much of each text
_KEPT_TEXTS, _KEPT_CHARACTERS = 3, 80
# of so many wanted items beyond those that are kept the places are, for other systems' stories
_KEPT_PLACES = 20
KeptAnswer: TypeAlias = Mapping[str, Any]
"""{"wanted": the first needs, each the items of which any is enough, "got": the first items}.

"more" and "further" count what was left out of them. Of these items and some others, "found" has
the ranks, and the tokens up to there; "same" what has the text of one that didn't come; "in_call"
the call that alone had it. "ranks" are those of "got", where copies are among them.
"""


def kept_answer(query: m.QueryAnswers) -> KeptAnswer:
    """The answer of the only system, to be kept as JSON."""
    (answer,) = query.answers
    ranks = {item: at.rank for item, at in (answer.found or {}).items()}
    # those that came last, or never, explain a low score
    last = sorted(query.wanted, key=lambda need: -min(ranks.get(item.id, inf) for item in need))
    needs = [
        sorted(need, key=lambda item: ranks.get(item.id, inf))[:KEPT_ITEMS]
        for need in query.wanted
        if need in last[:KEPT_ITEMS]
    ]
    ids = {item.id for need in needs for item in need}
    first = (answer.retrieved or ())[:KEPT_ITEMS]
    first_found = sorted((answer.found or {}).items(), key=lambda pair: pair[1].rank)
    others = [item for item, _ in first_found if item not in ids][:_KEPT_PLACES]
    found = {
        item: [part for part in at if part is not None]
        for item, at in first_found
        if item in {*ids, *others}
    }
    rest = {
        "found": None if answer.found is None else found,
        "more": len(query.wanted) - len(needs) or None,
        "same": {item: [*same] for item, same in answer.same_text.items() if item in ids} or None,
        "in_call": {item: n for item, n in answer.in_call.items() if item in ids} or None,
        "ranks": answer.ranks and answer.ranks[:KEPT_ITEMS],
        "further": len(answer.retrieved or ()) - len(first) or None,
    }
    return {
        "wanted": [[_item(item) | _excerpt(item.text) for item in need] for need in needs],
        "got": [_retrieved(item, rank <= _KEPT_TEXTS) for rank, item in enumerate(first, 1)],
        **{name: value for name, value in rest.items() if value is not None},
    }


def read_answer(
    kept: KeptAnswer, answer: m.Answer, least: float
) -> tuple[list[list[m.Item]], m.Answer, int]:
    """What was wanted, the answer filled, and how many needs more."""
    wanted, got = kept.get("wanted", ()), kept.get("got", ())
    came = [
        m.ReportedItem(
            record["id"],
            record.get("grade"),
            record.get("text"),
            [_read_item(wanted) for wanted in record.get("for", ())],
            least,
        )
        for record in got
    ]
    needs = [[_read_item(each) for each in need] for need in wanted]
    found, more = kept.get("found"), kept.get("more", 0)
    read = answer._replace(
        retrieved=came,
        found=found and {item: m.Found(*place) for item, place in found.items()},
        same_text={item: m.SameText(*same) for item, same in kept.get("same", {}).items()},
        more=kept.get("further", 0),
        ranks=kept.get("ranks"),
        in_call=kept.get("in_call", {}),
        known={*(found or ()), *(item.id for need in needs for item in need)} if more else None,
        is_stored=True,
    )
    return needs, read, more


def _item(item: m.Item) -> dict[str, Any]:
    record: dict[str, Any] = {"id": item.id, "grade": item.grade}
    if item.passage is not None:
        record["by"] = list(item.passage) if isinstance(item.passage, Span) else "text"
    return record


def _retrieved(item: m.ReportedItem, with_text: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"id": item.id, **(_excerpt(item.text) if with_text else {})}
    if item.grade is not None:
        record["grade"] = item.grade
    if item.stands_for:
        record["for"] = [_item(wanted) for wanted in item.stands_for]
    return record


def _excerpt(text: str | None) -> dict[str, str]:
    return {"text": beginning(text, _KEPT_CHARACTERS)} if text else {}


def _read_item(record: Mapping[str, Any]) -> m.Item:
    by, text = record.get("by"), record.get("text")
    passage = None if by is None else text or "" if by == "text" else Span(*by)
    return m.Item(record["id"], record["grade"], passage, text)


_TELLING = 40  # texts of fewer characters may be alike by chance


def query_answers(
    query_id: str,
    systems: Sequence[System],
    metric: str,
    scores: Sequence[Mapping[str, float]] = (),
    *,
    stages: bool = False,
) -> m.QueryAnswers:
    """What was asked, wanted and retrieved, as a metric sees it, for every report."""
    reading = Reading.of(metric)
    values = [
        None if system.invalid(metric) else known.get(query_id)
        for system, known in zip(systems, scores or [{}] * len(systems), strict=True)
    ]
    digits = digits_apart(values, max(map(len, scores), default=0))
    sights = [
        _sight(system, query_id, metric, reading, m.Cell.of(value, "score")._replace(digits=digits))
        for system, value in zip(systems, values, strict=True)
    ]
    wanted, answers, text_of, more = _together(systems, sights)
    wanted = [[item._replace(text=text_of(item)) for item in need] for need in wanted]
    is_graded = any(system.judged_by(metric).relevance.get(query_id) for system in systems)
    short = f"No label reaches the grade {reading.least:g} that {metric} asks for."
    is_short = is_graded and not wanted
    turns = (conversation_sentence(system.scores.metadata.get(query_id, {})) for system in systems)
    remarks = [*filter(None, [next(filter(None, turns), ""), short if is_short else ""])]
    remarks += _runs_remarks(query_id, systems, metric, answers)
    text = query_text(query_id, systems)
    return m.QueryAnswers(query_id, text, wanted, answers, remarks, reading.cutoff, stages, more)


def _runs_remarks(
    query_id: str, systems: Sequence[System], metric: str, answers: Sequence[m.Answer]
) -> Iterator[str]:
    """The scores of the runs, of which an answer shows the first."""
    for system, answer in zip(systems, answers, strict=True):
        runs = [
            run.by_query(metric).get(query_id, math.nan)
            for run in system.scores.repeats
            if metric in run
        ]
        if runs:
            shown = ", ".join(score(value, digits=2) for value in runs)
            whose = f"{system.name}: " if len(systems) > 1 else ""
            first = "" if answer.retrieved is None else "; the first is shown"
            yield f"{whose}{metric} of each run: {shown}{first}"


def placed_answers(
    systems: Sequence[System], metric: str, *, stages: bool = False
) -> Callable[[str], m.QueryAnswers]:
    """The same by query id, without what came: where each wanted passage was found or lost."""
    reading = Reading.of(metric)

    def placed(query_id: str) -> m.QueryAnswers:
        blank = m.Cell(None, "score")
        sights = [_sight(each, query_id, metric, reading, blank, brief=True) for each in systems]
        wanted, answers, _, more = _together(systems, sights)
        return m.QueryAnswers(query_id, "", wanted, answers, (), reading.cutoff, stages, more)

    return placed


class _Sight(NamedTuple):
    """What is wanted of one system, its answer, and what came."""

    wanted: Sequence[Sequence[m.Item]]
    answer: m.Answer
    # (id, names, text) of each item of the ranking, and of each call
    parts: Sequence[Sequence[tuple[str, Sequence[str], str | None]]] = ()
    places: Mapping[str, m.Found] | None = None  # each name's place; None where nobody knows
    more: int = 0


def _together(
    systems: Sequence[System], sights: Sequence[_Sight]
) -> tuple[Sequence[Sequence[m.Item]], list[m.Answer], Callable[[m.Item], str | None], int]:
    """What is wanted, the answers, the text that any system knows, and how many needs more."""
    wanted, more = next(((each.wanted, each.more) for each in sights if each.wanted), ([], 0))
    corpora = [system.text_of for system in systems if system.text_of is not None]
    came: dict[str, str] = {}
    for _, names, text in chain.from_iterable(part for each in sights for part in each.parts):
        if text:
            came |= {name: text for name in names if name not in came}

    def text_of(item: m.Item) -> str | None:
        places = (item.id,) if item.passage is None else (item.passage, item.id)
        known = (corpus(place) for place in places for corpus in corpora)
        return item.text or next(filter(None, known), came.get(item.id))

    answers = [_placed(sight, wanted, text_of) if sight.parts else sight.answer for sight in sights]
    return wanted, answers, text_of, more


def _placed(
    sight: _Sight, wanted: Sequence[Sequence[m.Item]], text_of: Callable[[m.Item], str | None]
) -> m.Answer:
    """The answer, with where it has what is wanted: in the ranking, in a call, under another id."""
    if (places := sight.places) is None:
        return sight.answer
    items = {item.id: item for need in wanted for item in need if item.grade}
    lost = {name: item for name, item in items.items() if name not in places}
    ranking, *calls = sight.parts
    in_call: dict[str, int] = {}
    for number, call in enumerate(calls if lost else (), 1):
        for name in filter(lost.__contains__, chain.from_iterable(names for _, names, _ in call)):
            in_call.setdefault(name, number)
    # after a new ingestion, texts are under other ids
    missed = {name: text_of(item) for name, item in lost.items() if not item.passage}
    return sight.answer._replace(
        found={name: places[name] for name in items if name in places},
        in_call=in_call,
        same_text=same_texts(missed, ((item, text) for item, _, text in ranking)),
    )


def same_texts(
    missed: Mapping[str, str | None], came: Iterable[tuple[str, str | None]]
) -> dict[str, m.SameText]:
    known = {name: text.strip() for name, text in missed.items() if text}
    texts: dict[str, str | None] = {}
    for item, text in came if known else ():
        texts.setdefault(item, text)
    same: dict[str, m.SameText] = {}
    for rank, (item, text) in enumerate(texts.items(), 1):
        other = (text or "").strip()
        for wanted, own in known.items():
            if wanted not in same and _is_same(own, other):
                same[wanted] = m.SameText(rank, item)
    return same


def _is_same(wanted: str, came: str) -> bool:
    """Whether a text has all of the wanted one, or is at least half of it."""
    if len(wanted) <= len(came):
        return len(wanted) >= _TELLING and wanted in came
    return len(came) >= max(_TELLING, len(wanted) / 2) and came in wanted


def _sight(
    system: System,
    query_id: str,
    metric: str,
    reading: Reading,
    cell: m.Cell,
    *,
    brief: bool = False,
) -> _Sight:
    """What is wanted of one system, and its answer: its ranking, or what its scores keep of it."""
    matched, ranking = system.judged_by(metric), system.run.get(query_id)
    judged = matched.relevance.get(query_id) or Relevance()
    passages = {**(judged.spans or {}), **matched.passages.get(query_id, {})}
    wanted = reading.wanted(judged, passages)
    if ranking is None:
        return _stored(system, query_id, reading, cell, wanted)
    in_calls: dict[Hashable, Sequence[str]] | None = None
    if matched.matcher == BY_ID:
        names = reading.names(ranking, judged, None)
    else:
        names = list(matched.stands_for.get(query_id) or repeat((), len(ranking.ids)))
        in_calls = dict(zip(ranking.ids, names, strict=True))
    calls = ranking.calls or ()
    of_calls = [reading.names(call, judged, in_calls) for call in calls]
    placed = reading.placed(ranking, names)
    lists = zip((ranking, *calls), (names, *of_calls), strict=True)
    parts = [list(zip(items.ids, of, _texts(items, system), strict=True)) for items, of in lists]
    # where the matcher failed, nobody knows what was found
    is_known = ranking.error is None and query_id not in matched.errors
    places = placed.places if is_known else None
    answer = m.Answer(system.name, cell, None, ranking.error, ranking.latency)
    answer = answer._replace(min_score=system.run.min_score)
    if brief:
        return _Sight(wanted, answer, parts, places)
    known = {name: m.Item(name, grade, passages.get(name)) for name, grade in judged.grades.items()}
    retrieved, *called = ([_reported(*each, known, reading) for each in items] for items in parts)
    n = len(ranking.ids)
    answer = answer._replace(
        retrieved=retrieved,
        calls=None if ranking.calls is None else list(_call_answers(calls, called, of_calls)),
        ranks=None if placed.ranks == list(range(1, n + 1)) else placed.ranks,
    )
    return _Sight(wanted, answer, parts, places)


def _stored(
    system: System, query_id: str, reading: Reading, cell: m.Cell, wanted: list[list[m.Item]]
) -> _Sight:
    error = system.scores.failed.get(query_id)
    answer = m.Answer(system.name, cell, error=error, min_score=system.run.min_score)
    answers: Mapping[str, KeptAnswer] = next(iter(system.scores.answers.values()), {})
    if (kept := answers.get(query_id)) is None:
        return _Sight(wanted, answer)
    own, known, more = read_answer(kept, answer, reading.least)
    return _Sight(wanted, known) if wanted else _Sight(own, known, more=more)


def _texts(items: Items, system: System) -> Iterable[str | None]:
    if items.texts is not None:
        return items.texts
    return [system.text_of and system.text_of(item) for item in items.ids]


def _call_answers(
    calls: Sequence[Call],
    retrieved: Iterable[list[m.ReportedItem]],
    names: Iterable[Sequence[Sequence[str]]],
) -> Iterator[m.CallAnswer]:
    seen: set[str] = set()
    for call, items, of_items in zip(calls, retrieved, names, strict=True):
        is_new = []
        for item, of_item in zip(call.ids, of_items, strict=True):
            brought = set(of_item) or {f"{item} itself"}
            is_new.append(not brought <= seen)
            seen |= brought
        yield m.CallAnswer(call.query, call.asked_by, items, is_new, call.error, call.latency)


def _reported(
    item: str, names: Sequence[str], text: str | None, known: Mapping[str, m.Item], reading: Reading
) -> m.ReportedItem:
    judged = [known[name] for name in names if name in known]
    grade = max((item.grade for item in judged), default=None)
    is_itself = list(names) == [item] or not judged
    return m.ReportedItem(item, grade, text, () if is_itself else judged, reading.least)


def with_answers(system: System) -> Scores:
    """The scores of a system, with the answers of each of its runs."""
    repeats = [with_answers(run) for run in system.repeats]
    return system.scores.replace(answers=keep_answers(system), repeats=repeats)


def keep_answers(system: System) -> dict[str, Mapping[str, KeptAnswer]]:
    """Matcher to query id to what was wanted and what came, as its first metric sees it."""
    examples: dict[str, str] = {}
    for metric in system.scores:
        examples.setdefault(system.judged_by(metric).matcher, metric)
    kept = system._replace(run=Run({key: _first(each) for key, each in system.run.items()}))
    same = {query_id: _kept_same_texts(system, query_id) for query_id in kept.run}
    answers: dict[str, Mapping[str, KeptAnswer]] = {}
    for matcher, metric in examples.items():
        same_texts_of = {} if metric in system.matched else same
        answer = partial(_kept_answer, kept, metric, same_texts_of)
        answers[matcher] = LazyMapping(system.scores.query_ids, answer)
    return answers


def _first(ranking: Ranking) -> Ranking:
    """A ranking with the beginnings of the first texts alone, and calls only with ids it lacks."""
    texts = ranking.texts
    if texts is not None:
        first = [text and text[:KEPT_START] for text in texts[:KEPT_ITEMS]]
        texts = [*first, *repeat("", len(texts) - KEPT_ITEMS)]
    calls = [Call(list(call.ids), spans=call.spans) for call in ranking.calls or ()]
    is_sum = set(ranking.ids).issuperset(chain.from_iterable(call.ids for call in calls))
    return Ranking(
        list(ranking.ids),
        texts=texts,
        error=ranking.error,
        spans=ranking.spans,
        tokens=ranking.tokens,
        calls=None if is_sum else calls,
    )


def _kept_same_texts(system: System, query_id: str) -> dict[str, m.SameText]:
    """Of the labels by id; seen before the texts are cut."""
    ranking, judged = system.run[query_id], system.relevance.get(query_id)
    if judged is None or judged.spans or system.text_of is None or ranking.error is not None:
        return {}
    missed = {item: system.text_of(item) for item in judged if item not in ranking.ids}
    texts = ranking.texts or map(system.text_of, ranking.ids)
    return same_texts(missed, zip(ranking.ids, texts, strict=True))


def _kept_answer(
    system: System, metric: str, same: Mapping[str, Mapping[str, m.SameText]], query_id: str
) -> KeptAnswer:
    story = query_answers(query_id, [system], metric)
    answers = [answer._replace(same_text=same.get(query_id, {})) for answer in story.answers]
    return kept_answer(story._replace(answers=answers))
