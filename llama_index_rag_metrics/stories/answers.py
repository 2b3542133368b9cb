"""A question's story as data: what was asked and wanted, and what came from each system."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product, repeat
from typing import NamedTuple

from llama_index_rag_metrics.files.conversations import conversation_sentence
from llama_index_rag_metrics.rankings.matching.matched import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import digits_apart, score

from .label_view import LabelView, System, query_text

_TELLING = 40  # texts of fewer characters may be alike by chance
_TOO_STRICT = "No label reaches the grade {least:g} that {metric} asks for."
_OF_RUNS = "{metric} of each run: {scores}"


def query_answers(
    query_id: str,
    systems: Sequence[System],
    metric: str,
    scores: Sequence[Mapping[str, float]] = (),
    *,
    stages: bool = False,
    brief: bool = False,
) -> m.QueryAnswers:
    """Return what was asked, wanted and retrieved, as a metric sees it.

    Args:
        query_id: the question.
        systems: whose answers, in this order.
        metric: the metric that decides what is relevant, and what is too deep.
        scores: of each system, query id to score.
        stages: whether the systems are the stages of one pipeline.
        brief: whether to leave out what came: where each wanted passage was found or lost is all.
    """
    view = LabelView.of(metric)
    sights = [_Sight.of(system, query_id, metric, view) for system in systems]
    needs = next((sight.wanted for sight in sights if sight.wanted), [])
    text_of = _texts_known(systems, sights)
    needs = [[item._replace(text=text_of(item)) for item in need] for need in needs]
    values: list[float | None] = [None] * len(systems)
    for number, column in enumerate(scores):
        if not systems[number].invalid(metric):
            values[number] = column.get(query_id)
    digits = digits_apart(values, max(map(len, scores), default=0))
    answers = []
    for system, sight, value in zip(systems, sights, values, strict=True):
        cell = m.Cell.of(value, "score")._replace(digits=digits)
        answers.append(sight.answer(system, cell, needs, brief))
    remarks: list[str] = []
    if not brief:
        sentences = (
            conversation_sentence(system.scores.metadata.get(query_id, {})) for system in systems
        )
        remarks += [*filter(None, sentences)][:1]
        is_labelled = any(system.judged_by(metric).relevance.get(query_id) for system in systems)
        if is_labelled and not needs:
            remarks.append(_TOO_STRICT.format(least=view.least, metric=metric))
        remarks += _runs(query_id, systems, metric, answers)
    text = query_text(query_id, systems)
    return m.QueryAnswers(query_id, text, needs, answers, remarks, view.cutoff, stages)


def _runs(
    query_id: str, systems: Sequence[System], metric: str, answers: Sequence[m.Answer]
) -> Iterator[str]:
    """The scores of the runs, of which an answer shows the first."""
    for system, answer in zip(systems, answers, strict=True):
        runs = [run for run in system.scores.repeats if metric in run]
        if not runs:
            continue
        values = [run.by_query(metric).get(query_id, math.nan) for run in runs]
        sentence = _OF_RUNS.format(
            metric=metric, scores=", ".join(score(value, digits=2) for value in values)
        )
        if answer.retrieved is not None:
            sentence += "; the first is shown"
        if len(systems) > 1:
            sentence = f"{system.name}: {sentence}"
        yield sentence


class _Part(NamedTuple):
    """A ranking or a call: its items, with the labels that each stands for and its text."""

    items: Ranking
    labels: Sequence[Sequence[str]]
    texts: Sequence[str | None]


class _Sight(NamedTuple):
    """What a metric sees of one question and one system."""

    view: LabelView
    wanted: list[list[m.Item]]
    judged: Mapping[str, m.Item]  # every label, by id
    parts: Sequence[_Part] = ()  # the ranking, and its calls; empty where no ranking is known
    is_known: bool = True  # whether anybody knows what was found: not where the matcher failed
    error: str | None = None

    @classmethod
    def of(cls, system: System, query_id: str, metric: str, view: LabelView) -> _Sight:
        matched, ranking = system.judged_by(metric), system.run.get(query_id)
        judged = matched.relevance.get(query_id) or Relevance()
        passages = {**(judged.spans or {}), **matched.passages.get(query_id, {})}
        needs = view.wanted(judged, passages)
        items = {
            name: m.Item(name, grade, passages.get(name)) for name, grade in judged.grades.items()
        }
        if ranking is None:
            error = system.scores.failed.get(query_id)
            return cls(view, needs, items, is_known=False, error=error)
        labels_by_item: dict[Hashable, Sequence[str]] | None = None
        if matched.matcher == BY_ID:
            labels = view.labels_of(ranking, judged, None)
        else:
            labels = list(matched.stands_for.get(query_id) or repeat((), len(ranking.ids)))
            labels_by_item = dict(zip(ranking.ids, labels, strict=True))
        parts = [_Part(ranking, labels, _texts(ranking, system))]
        for call in ranking.calls or ():
            of_call = view.labels_of(call, judged, labels_by_item)
            parts.append(_Part(call, of_call, _texts(call, system)))
        is_known = ranking.error is None and query_id not in matched.errors
        return cls(view, needs, items, parts, is_known, ranking.error)

    def answer(
        self, system: System, cell: m.Cell, wanted: Sequence[Sequence[m.Item]], brief: bool
    ) -> m.Answer:
        """What the system gave, and where it has what is wanted."""
        answer = m.Answer(system.name, cell, error=self.error, min_score=system.run.min_score)
        if not self.parts:
            return answer
        ranking = self.parts[0]
        ranks, places = self.view.places(ranking.items, ranking.labels)
        if self.is_known:
            answer = self._placed(answer, wanted, places, system)
        if brief:
            return answer
        calls = None
        if getattr(ranking.items, "calls", None) is not None:
            calls = list(self._calls())
        in_order = ranks == list(range(1, len(ranks) + 1))
        return answer._replace(
            retrieved=self._reported(ranking),
            latency=ranking.items.latency,
            calls=calls,
            ranks=None if in_order else ranks,
        )

    def _placed(
        self,
        answer: m.Answer,
        wanted: Sequence[Sequence[m.Item]],
        places: Mapping[str, m.Found],
        system: System,
    ) -> m.Answer:
        """The answer, with where it has what is wanted: by rank, in a call, under another id."""
        items = {item.id: item for item in chain.from_iterable(wanted) if item.grade}
        missing = [item for name, item in items.items() if name not in places]
        lost_ids = {item.id for item in missing}
        in_call: dict[str, int] = {}
        for number, call in enumerate(self.parts[1:], 1):
            for names in call.labels:
                for name in lost_ids.intersection(names):
                    in_call.setdefault(name, number)
        # after a new ingestion, texts are under other ids
        missed = {item.id: item.text for item in missing if not item.passage}
        ranking = self.parts[0]
        return answer._replace(
            found={name: places[name] for name in items if name in places},
            in_call=in_call,
            same_text=same_texts(missed, zip(ranking.items.ids, ranking.texts, strict=True)),
            absent=lost_ids.intersection(system.retrieval.absent),
        )

    def _reported(self, part: _Part) -> list[m.ReportedItem]:
        reported = []
        for item, names, text in zip(part.items.ids, part.labels, part.texts, strict=True):
            judged = [self.judged[name] for name in names if name in self.judged]
            grade = max((label.grade for label in judged), default=None)
            stands_for: Sequence[m.Item] = judged
            if list(names) == [item]:
                stands_for = ()
            reported.append(m.ReportedItem(item, grade, text, stands_for, self.view.least))
        return reported

    def _calls(self) -> Iterator[m.CallAnswer]:
        labels_before: set[str] = set()
        for part in self.parts[1:]:
            call = part.items
            assert isinstance(call, Call)
            is_new = []
            for item, names in zip(call.ids, part.labels, strict=True):
                brought = set(names) or {f"{item} itself"}
                is_new.append(not brought <= labels_before)
                labels_before |= brought
            items = self._reported(part)
            yield m.CallAnswer(call.query, call.asked_by, items, is_new, call.error, call.latency)


def _texts(items: Ranking, system: System) -> Sequence[str | None]:
    text_of = system.retrieval.text_of
    if items.texts is not None:
        return items.texts
    if text_of is None:
        return [None] * len(items.ids)
    return [text_of(item) for item in items.ids]


def _texts_known(
    systems: Sequence[System], sights: Sequence[_Sight]
) -> Callable[[m.Item], str | None]:
    """A function from a wanted item to its text, from a corpus or from whoever retrieved it."""
    corpora = [system.retrieval.text_of for system in systems if system.retrieval.text_of]
    retrieved: dict[str, str] = {}
    for part in chain.from_iterable(sight.parts for sight in sights):
        for names, text in zip(part.labels, part.texts, strict=True):
            if text:
                for name in names:
                    retrieved.setdefault(name, text)

    def text_of(item: m.Item) -> str | None:
        if item.text:
            return item.text
        places = [item.id] if item.passage is None else [item.passage, item.id]
        for place, corpus in product(places, corpora):
            text = corpus(place)
            if text:
                return text
        return retrieved.get(item.id)

    return text_of


def same_texts(
    missed: Mapping[str, str | None], came: Iterable[tuple[str, str | None]]
) -> dict[str, m.SameText]:
    """Of missed labels with known texts, the first item that came with the same text."""
    texts_missed = {name: text.strip() for name, text in missed.items() if text}
    matches: dict[str, m.SameText] = {}
    if not texts_missed:
        return matches
    texts: dict[str, str] = {}
    for item, text in came:
        texts.setdefault(item, (text or "").strip())
    for rank, (item, text) in enumerate(texts.items(), 1):
        for name, expected in texts_missed.items():
            if name not in matches and _is_same(expected, text):
                matches[name] = m.SameText(rank, item)
    return matches


def _is_same(wanted: str, came: str) -> bool:
    """Whether a text has all of the wanted one, or is at least half of it."""
    if len(wanted) <= len(came):
        return len(wanted) >= _TELLING and wanted in came
    return len(came) >= max(_TELLING, len(wanted) / 2) and came in wanted
