"""A question's story in words: what was wanted, where each system has it, and what came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress

from llama_index_rag_metrics.files.conversations import conversation_sentence
from llama_index_rag_metrics.rankings.run import Call
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.excerpts import excerpt, short_ids
from llama_index_rag_metrics.report.numbers import counted, mean_of

from . import whereabouts as w
from .label_view import Item, System
from .whereabouts import Question, SystemAnswer, Whereabouts

_WORDS = {
    "": "rank {rank:,}{manner}",
    w.BELOW: "rank {rank:,}{manner}, below the cutoff {cutoff:,}",
    w.OVER: "over the budget of {cutoff:,} tokens",
    w.OTHER_ID: "rank {was:,}, under another id ({passage})",
    w.DROPPED: "dropped by {stage} (was {was:,})",
    w.IN_CALL: "in search {search}, not in the result",
}
_TOO_STRICT = "No label reaches the grade {least:g} that {metric} asks for."
_NOT_ASKED = "Nobody asked this question."
_OF_RUNS = "Asked {n} times: the ranking is the first one, the score the mean."


def query_answers(
    query_id: str,
    systems: Sequence[System],
    metric: str,
    scores: Sequence[Mapping[str, float]] = (),
    *,
    stages: bool = False,
) -> m.QueryAnswers:
    """Return what was asked, wanted and retrieved, as a metric sees it.

    `scores` has query id to score of each system, and `stages` are those of one pipeline.
    """
    question = Question(query_id, systems, metric, stages=stages)
    names = _short_names(question)
    pairs = zip(question.needs, question.places, strict=True)
    passages = [_wanted(question, need, places, names) for need, places in pairs]
    passages.sort(key=lambda passage: (not passage.is_missed, -sum(map(bool, passage.losses))))
    values: list[float | None] = [None] * len(systems)
    for number, column in enumerate(scores):
        if not systems[number].invalid(metric):
            values[number] = column.get(query_id)
    n = max(map(len, scores), default=0)
    answers = []
    for answer, value in zip(question.answers, values, strict=True):
        cell = mean_of(m.Cell.of(value, "score"), n)
        answers.append(_answer(answer, cell, names))
    texts = filter(None, (system.scores.queries.get(query_id) for system in systems))
    why, remarks = _why(question), list(_remarks(question, systems, metric))
    return m.QueryAnswers(query_id, next(texts, ""), passages, answers, why, remarks)


def _short_names(question: Question) -> dict[str, str]:
    """The ids of everything that the story names, shortened together."""
    ids = [item.id for item in chain(*question.needs)]
    for answer in question.answers:
        if answer.ranking is not None:
            ids += answer.ranking.ids
    return short_ids(ids)


def _wanted(
    question: Question,
    need: Sequence[Item],
    places: Sequence[Whereabouts],
    names: Mapping[str, str],
) -> m.Wanted:
    ids = [item.id for item in need]
    pairs = list(zip(question.answers, places, strict=True))[question.deciding]
    holders: dict[str, list[str]] = defaultdict(list)
    for answer, place in pairs:
        if place.is_known:
            holders[_words(place, answer, ids, names)].append(plain(answer.system.name))
    sentences, remarks = [], []
    for words, systems in holders.items():
        is_of_all = len(systems) == _n_with_runs(pairs)
        sentences.append(words if is_of_all else f"{', '.join(systems)}: {words}")
        if not words.removeprefix("rank ").replace(",", "").isdecimal():
            remarks.append(sentences[-1])
    losses = [place.loss for _, place in pairs if place.is_known]
    return m.Wanted(
        ids=ids,
        name=" or ".join(_item_name(item, names) for item in need),
        text=next((item.text for item in need if item.text), ""),
        ranks=[place.rank for place in places],
        losses=[place.loss for place in places],
        where="; ".join(sentences),
        remark="; ".join(remarks),
        is_missed=bool(losses) and all(losses),
    )


def _n_with_runs(pairs: Sequence[tuple[SystemAnswer, object]]) -> int:
    """How many systems have rankings: a system of means over several runs has none itself."""
    return sum(bool(answer.system.run) for answer, _ in pairs)


def _item_name(item: Item, names: Mapping[str, str]) -> str:
    name = names[item.id]
    if isinstance(item.passage, Span):
        start, end = item.passage.start, item.passage.end
        name += f" ({plain(item.passage.source)}, characters {start} to {end})"
    if item.grade:
        name += f" [{item.grade:g}]"
    return name


def _words(
    place: Whereabouts, answer: SystemAnswer, ids: Sequence[str], names: Mapping[str, str]
) -> str:
    """Where a system has a passage, or how it lost it."""
    item = names.get(place.item, "")
    manner = ""
    if place.item not in ids:
        manner += f" as {item}"
    if place.search is not None:
        manner += f" by search {place.search}"
    words = _WORDS.get(place.loss, place.loss).format(
        rank=place.rank,
        was=place.was,
        manner=manner,
        cutoff=answer.view.k or answer.view.budget or 0,
        passage=item,
        stage=plain(place.stage),
        search=place.search,
    )
    return words + w.reaching(answer.system.run.min_score, place.loss)


def _answer(answer: SystemAnswer, cell: m.Cell, names: Mapping[str, str]) -> m.Answer:
    ranking = answer.ranking
    if ranking is None:
        return m.Answer(answer.system.name, cell, error=answer.error)
    retrieved = []
    texts = answer.texts_of(ranking)
    columns = zip(ranking.ids, answer.labels, texts, answer.ranks, strict=True)
    for item, labels, text, rank in columns:
        grade = answer.grade_of(labels)
        name, is_hit = names[item], False
        if grade is not None:
            name, is_hit = f"{name} [{grade:g}]", grade >= answer.view.min_grade
        retrieved.append(m.ReportedItem(item, name, text, rank, is_hit))
    searches = None
    if getattr(ranking, "calls", None) is not None:
        hits: set[str] = set()
        calls = zip(ranking.calls or (), answer.calls, strict=True)
        searches = [_search(answer, call, labels, hits) for call, labels in calls]
    return m.Answer(answer.system.name, cell, retrieved, answer.error, searches)


def _search(
    answer: SystemAnswer, call: Call, labels: Sequence[Sequence[str]], hits: set[str]
) -> str:
    """What was asked, how much of what came is relevant, and whether any wasn't among `hits`."""
    grades = [answer.grade_of(names) for names in labels]
    is_hit = [grade is not None and grade >= answer.view.min_grade for grade in grades]
    n_hits, n_hits_before = sum(is_hit), len(hits)
    hits.update(*compress(labels, is_hit))
    outcome = f"{counted(len(grades), 'passage', 'passages')}, {n_hits or 'none'} relevant"
    if n_hits and len(hits) == n_hits_before:
        outcome += ", none new"
    if call.error is not None:
        outcome = f"failed: {plain(call.error)}"
    elif not grades:
        outcome = "nothing retrieved"
    if call.asked_by:
        outcome += f" ({plain(call.asked_by)})"
    return f"“{excerpt(call.query)}” → {outcome}"


def _why(question: Question) -> list[str]:
    """Why the systems, or the last stage, missed what is relevant; one line for those alike."""
    pairs = list(zip(question.answers, question.losses(), strict=True))[question.deciding]
    holders: dict[str, list[str]] = defaultdict(list)
    for answer, losses in pairs:
        # what failed or returned nothing says so itself
        if losses.by_loss and answer.error is None and answer.labels:
            holders[losses.sentence].append(plain(answer.system.name))
    if [len(names) for names in holders.values()] == [_n_with_runs(pairs)]:
        return list(holders)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in holders.items()]


def _remarks(question: Question, systems: Sequence[System], metric: str) -> Iterator[str]:
    for system in systems:
        sentence = conversation_sentence(system.scores.metadata.get(question.query_id, {}))
        if sentence:
            yield sentence
            break
    if all(system.scores.excluded.get(question.query_id) == "not asked" for system in systems):
        yield _NOT_ASKED
    if not question.needs and any(answer.judged for answer in question.answers):
        yield _TOO_STRICT.format(least=question.view.min_grade, metric=metric)
    n_repeats = max((len(system.scores.repeats) for system in systems), default=0)
    if n_repeats:
        yield _OF_RUNS.format(n=n_repeats)
