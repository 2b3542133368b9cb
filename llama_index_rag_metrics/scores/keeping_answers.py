"""Keeping, with scores, what was relevant and what came: each question's story in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain, repeat

from llama_index_rag_metrics.rankings.run import Call, Ranking, Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.scores.kept_answers import (
    KEPT_ITEMS,
    KEPT_START,
    KeptAnswer,
    kept_answer,
)
from llama_index_rag_metrics.scores.mappings import LazyMapping
from llama_index_rag_metrics.scores.reading import PLAIN, Labels, Reading
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.scores.stories import query_answers, same_texts
from llama_index_rag_metrics.scores.systems import System


def with_answers(system: System) -> Scores:
    """The scores of a system, with the answers of each of its runs."""
    repeats = [with_answers(run) for run in system.repeats]
    return system.scores.replace(answers=keep_answers(system), repeats=repeats)


def keep_answers(system: System) -> dict[str, Mapping[str, KeptAnswer]]:
    """Matcher, and way to read labels, to query id to what was wanted and what came."""
    labels: dict[str, Labels] = {}
    examples: dict[str, str] = {}
    for metric in sorted(system.scores, key=lambda metric: Reading.of(metric).matcher is not None):
        matched, reading = system.judged_by(metric), Reading.of(metric)
        matcher = matched.matcher
        if matcher not in labels:
            labels[matcher] = Labels.of(matched.relevance.values())
        is_plain = reading.on(labels[matcher]) == PLAIN.on(labels[matcher])
        examples.setdefault(matcher if is_plain else reading.key(matcher), metric)
    first = {query_id: _first(ranking) for query_id, ranking in system.run.items()}
    kept = system._replace(run=Run(first))
    same = {query_id: _kept_same_texts(system, query_id) for query_id in first}
    return {
        key: LazyMapping(
            system.scores.query_ids,
            partial(_kept_answer, kept, metric, same if metric not in system.matched else {}),
        )
        for key, metric in examples.items()
    }


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
        forbidden=ranking.forbidden,
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
