"""A question's story in words: what was wanted, where each system has it; the worst questions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import attrgetter, itemgetter
from statistics import fmean

from llama_index_rag_metrics.files.conversations import conversation_sentence
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.rankings.run import Call
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model
from llama_index_rag_metrics.report.numbers import count, counted, mean_of, questions
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.text import by_holder, excerpt, one_line, sentence, short_ids
from llama_index_rag_metrics.runtime.containers import map_values, picked
from llama_index_rag_metrics.runtime.errors import check_integer
from llama_index_rag_metrics.runtime.masking import truncated
from llama_index_rag_metrics.scores.notes import GRADED
from llama_index_rag_metrics.scores.scores import name_among
from llama_index_rag_metrics.statistics.resampling import NOISE

from . import whereabouts
from .label_view import Item, System, columns_of, metrics_of
from .whereabouts import Need, QuestionView, SystemAnswer, Whereabouts, losses_of, losses_sentence

_WORDS = {
    "": "rank {rank:,}{manner}",
    whereabouts.BELOW: "rank {rank:,}{manner}, below the cutoff {cutoff:,}",
    whereabouts.OVER: "over the budget of {cutoff:,} tokens",
    whereabouts.OTHER_ID: "rank {was:,}, under another id ({name})",
    whereabouts.IN_PART: "rank {was:,}, in part under another id ({name})",
    whereabouts.DROPPED: "dropped by {stage} (was {was:,})",
    whereabouts.IN_CALL: "in search {search}, not in the result",
}
_LEFT_OUT = {"no_relevant": "nothing relevant", "unjudged": "not labelled"}
_TOO_STRICT = "No label reaches the grade {least:g} that {metric} asks for."
_NOT_ASKED = "Nobody asked this question."
_WORSE = "Where {system} is worse than {baseline} on {metric}: {n}"
_PAGE = 'The page has every question: to_html("report.html"), or --html.'
_ITEMS = 3  # how many retrieved passages of a question, or questions of a comparison, are listed
_WANTED = 2  # relevant passages of each
_OTHER_TEXT = ", with another text: “{text}”"
_LEGEND = "in brackets the grade of the label; without: unlabelled"
_LEGEND_OF_TEXTS = "in brackets the {measure} by {metric}"
_FURTHER = "Chunks of one passage share a rank, that of the first; further ones: {n}."
_OF_RUNS = "Asked {n} times: the ranking is the first one, the score the mean."


def query_answers(
    query_id: str,
    systems: Sequence[System],
    metric: str,
    scores: Sequence[Mapping[str, float]] = (),
    *,
    stages: bool = False,
) -> model.QueryAnswers:
    question = QuestionView(query_id, systems, metric, stages=stages)
    ids = list(map(attrgetter("ids"), question.needs))
    ids += [list(answer.ranking.ids) for answer in question.answers if answer.ranking]
    names = short_ids(chain.from_iterable(ids))
    passages = [_wanted(question, need, names) for need in question.needs]
    passages.sort(key=lambda passage: (not passage.is_missed, -sum(map(bool, passage.losses))))
    passages.sort(key=lambda passage: len(set(passage.ranks)) == 1)
    n = max(map(len, scores), default=0)
    answers, text, left_out, legend, measure, is_scored = [], "", "", "", "", False
    for number, answer in enumerate(question.answers):
        value = None
        if scores and not answer.system.invalid(metric):
            value = scores[number].get(query_id)
        is_scored |= value is not None
        cell = mean_of(model.Cell.of(value, "score"), n)
        answers.append(_answer(answer, cell, names))
        text = text or answer.system.scores.queries.get(query_id, "")
        left_out = left_out or _LEFT_OUT.get(answer.system.scores.excluded.get(query_id, ""), "")
        if answer.text_scores:
            is_judged = GRADED in " ".join(answer.system.scores.label_notes)
            measure = "grade" if is_judged else "score"
            legend = _LEGEND_OF_TEXTS.format(measure=measure, metric=metric)
    if is_scored:
        left_out = ""
    if question.needs:
        legend = _LEGEND
        measure = "grade" * (not {"", "1"}.issuperset(map(attrgetter("grade"), passages)))
    why, summary = _why(question, list(map(attrgetter("score.value"), answers)), measure)
    remarks = list(_remarks(question, metric))
    story = model.QueryAnswers(query_id, text, passages, answers, why, summary, remarks)
    return story._replace(left_out=left_out, legend=legend, cutoff=question.view.k, measure=measure)


def _wanted(question: QuestionView, need: Need, names: Mapping[str, str]) -> model.Wanted:
    places = [pair for pair in question.deciding(need.places) if pair[1].is_known]
    pairs, remarks, n = [], [], question.n_deciding
    for answer, place in places:
        words = _words(place, answer, need, names)
        pairs.append((words, answer.system.name))
        words = words.removeprefix(f"rank {place.rank or 0:,}").lstrip(" ,")
        if words and (len(question.needs) > 1 or place.loss != whereabouts.NEVER):
            remarks.append((words, answer.system.name))
    return model.Wanted(
        ids=need.ids,
        name=" or ".join(_item_name(item, names) for item in need.items),
        text=next(filter(None, map(attrgetter("text"), need.items)), ""),
        ranks=list(map(attrgetter("rank"), need.places)),
        losses=[place.cause for _, place in question.deciding(need.places)],
        where="; ".join(by_holder(pairs, n)),
        remark="; ".join(by_holder(remarks, n)),
        places=[("hit", "lost")[bool(place.loss)] * place.is_known for place in need.places],
        is_missed=bool(places) and all(place.loss for _, place in places),
        grade=f"{need.items[0].grade:g}" * (len(need.items) == 1),
    )


def _item_name(item: Item, names: Mapping[str, str]) -> str:
    name = names[item.id]
    if isinstance(item.passage, Span) and item.passage.source not in item.id:
        start, end = item.passage.start, item.passage.end
        name += f" ({one_line(item.passage.source)}, characters {start} to {end})"
    if item.grade:
        name += f" [{item.grade:g}]"
    return name


def _words(place: Whereabouts, answer: SystemAnswer, need: Need, names: Mapping[str, str]) -> str:
    item = names.get(place.item, "")
    manner = ""
    if place.item not in need.ids:
        manner += f" as {item}"
    if place.search is not None:
        manner += f" by search {place.search}"
    other_text = need.other_text(answer.texts.get(place.item) or "")
    if other_text:
        manner += _OTHER_TEXT.format(text=other_text)
    cutoff = answer.view.k or answer.view.budget or 0
    fields = {**place._asdict(), "name": item, "stage": one_line(place.stage), "manner": manner}
    words = _WORDS.get(place.loss, place.loss).format(cutoff=cutoff, **fields)
    return words + whereabouts.reaching(answer.system.run.min_score, place.loss)


def _answer(answer: SystemAnswer, cell: model.Cell, names: dict[str, str]) -> model.ReportedAnswer:
    ranking = answer.ranking
    if ranking is None:
        return model.ReportedAnswer(answer.system.name, cell, error=answer.error)
    retrieved, searches, ranks = [], None, dict(answer.ranks)
    for item in ranking.ids:
        grade, name = answer.grade_of(item), names[item]
        rank, text = ranks.pop(item, None), answer.texts[item]  # of copies the first has it
        words = ""
        if grade is not None:
            words = f"{grade:g}"
        elif text in answer.text_scores and not answer.needs:
            words = count(answer.text_scores[text])
        name += f" [{words}]" * bool(words)
        retrieved.append(model.ReportedItem(item, name, text, rank, answer.is_hit(item), words))
    if ranking.calls is not None:
        searches = [_search(answer, call, number) for number, call in enumerate(ranking.calls, 1)]
    return model.ReportedAnswer(answer.system.name, cell, retrieved, answer.error, searches)


def _search(answer: SystemAnswer, call: Call, number: int) -> str:
    hits = list(filter(answer.is_hit, call.ids))
    labels = set(chain.from_iterable(map(answer.labels.__getitem__, hits)))
    new_labels = [label for label, place in answer.places.items() if place.search == number]
    outcome = f"{counted(len(call.ids), 'passage', 'passages')}, {len(hits) or 'none'} relevant"
    if hits and labels.isdisjoint(new_labels):
        outcome += ", none new"
    if call.error is not None:
        outcome = f"failed ({truncated(one_line(call.error))})"
    elif not call.ids:
        outcome = "nothing retrieved"
    # a terminal cuts what is long: the outcome goes first
    asked_by = f" ({one_line(call.asked_by or '')})" * bool(call.asked_by)
    return f"{outcome}: “{excerpt(call.query)}”{asked_by}"


def _why(
    question: QuestionView, scores: Sequence[object], measure: str
) -> tuple[list[str], list[str]]:
    pairs, summaries, n_systems = [], [], question.n_deciding
    for answer, counts in question.deciding(losses_of(question.systems, [question])):
        name, number = answer.system.name, question.answers.index(answer)
        moves = _moves(question, scores, number) if n_systems <= model.MOST_ABREAST else {}
        if counts.by_loss and answer.error is None and answer.labels:
            pairs.append((sentence(str(counts)), name))
            for loss, n in counts.by_loss.items():
                share = f"{n} of {counts.n_wanted} " * (counts.n_wanted > 1)
                ranks = f" ({moves.pop(loss)})" if loss in moves else ""
                summaries.append((f"{share}{loss}{counts.of_run}{ranks}", name))
        elif answer.text_scores and not question.needs:
            values = ", ".join(map(count, answer.text_scores.values()))
            summaries.append((f"{measure}s {values}", name))
        summaries += zip(moves.values(), repeat(name))
    if n_systems <= model.MOST_ABREAST:
        return by_holder(pairs, n_systems), by_holder(joined(summaries, ", "), n_systems)
    lines = []
    for text, n in Counter(map(itemgetter(0), summaries)).items():
        noun = "run" if question.systems[0].name == "run 1" else "system"  # runs of one system
        extent = f"{n} of {n_systems} {noun}s"
        if n == n_systems:
            extent = f"any {noun}" if text.endswith(whereabouts.NEVER) else f"every {noun}"
        lines.append(f"{text} in {extent}")
    for need in question.needs[:1]:  # the best grade
        best_ranks = sorted({*filter(None, map(attrgetter("rank"), need.places))})
        if len(best_ranks) > 1:
            noun = "relevant passage" if len(question.needs) == 1 else "best relevant passage"
            lines.append(f"{noun} at ranks {best_ranks[0]} to {best_ranks[-1]:,}")
    return list(map(sentence, lines)), lines


def joined(pairs: Iterable[tuple[str, str]], sign: str) -> Iterator[tuple[str, str]]:
    systems: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for text, system in pairs:
        systems[text] += (system,)
    for holders in dict.fromkeys(systems.values()):
        text = sign.join(text for text in systems if systems[text] == holders)
        yield from zip(repeat(text), holders)


def _moves(question: QuestionView, scores: Sequence[object], number: int) -> dict[str, str]:
    """Map how passages were lost, "" for not, to a system's ranks beside those of the first."""
    ranks: dict[str, list[str]] = defaultdict(list)
    for need in sorted(question.needs, key=lambda need: need.places[number].rank or 0):
        old, place = need.places[0].rank, need.places[number]
        is_told = bool(place.cause) or (len(scores) == 1 and scores != [1.0])
        if old and place.rank and old != place.rank and (is_told or scores[0] != scores[number]):
            ranks[place.cause].append(f"{old:,} → {place.rank:,}")
        elif place.rank and is_told:
            ranks[place.cause].append(f"{place.rank:,}")
    words = {}
    for loss, texts in ranks.items():
        noun = f"rank{'s' * (len(texts) > 1)}"
        texts[-2:] = [" and ".join(texts[-2:])]
        words[loss] = f"{noun} {', '.join(texts)}"
    return words


def _remarks(question: QuestionView, metric: str) -> Iterator[str]:
    conversations, reasons, pairs = dict[str, None](), [], []
    for answer in question.answers:
        scores = answer.system.scores
        conversations[conversation_sentence(scores.metadata.get(question.query_id, {}))] = None
        reasons.append(scores.excluded.get(question.query_id))
        if scores.repeats:
            pairs.append((_OF_RUNS.format(n=len(scores.repeats)), answer.system.name))
        if answer.ranking is not None:
            n = len(set(answer.ranking.ids)) - len(answer.ranks)
            pairs += [(_FURTHER.format(n=n), answer.system.name)] * (n > 0)
    yield from list(filter(None, conversations))[:1]
    if set(reasons) == {"not asked"}:
        yield _NOT_ASKED
    if not question.needs and any(map(attrgetter("judged"), question.answers)):
        yield _TOO_STRICT.format(least=question.view.min_grade, metric=metric)
    yield from by_holder(pairs, len(question.answers))


def listing_title(metric: str) -> str:
    return f"{('Lowest', 'Highest')[lower_is_better(metric)]} {metric}"


def worst_first(systems: Sequence[System], metric: str) -> list[str]:
    values: dict[str, list[float]] = defaultdict(list)
    for column in columns_of(systems, name_among(metric, metrics_of(systems))):
        for query_id, value in column.items():
            values[query_id].append(value)
    means = map_values(fmean, values)
    return sorted(means, key=means.__getitem__, reverse=lower_is_better(metric))


def largest_loss_first(systems: Sequence[System], metric: str) -> list[str]:
    sign = (1, -1)[lower_is_better(metric)]
    baseline, *columns = columns_of(systems, metric)
    gains: dict[str, int] = {}
    for column in columns:
        for query_id, value in picked(column, baseline).items():
            gain = int(sign * (value - baseline[query_id]) / NOISE)
            gains[query_id] = min(gain, gains.get(query_id, gain))
    return sorted(picked(gains, worst_first(systems, metric)), key=gains.__getitem__)


def hardest(systems: Sequence[System], metric: str, n: int) -> list[model.QueryAnswers]:
    return list(stories_of(worst_first(systems, metric)[:n], systems, metric))


def stories_of(
    query_ids: Iterable[str], systems: Sequence[System], metric: str, *, stages: bool = False
) -> Iterator[model.QueryAnswers]:
    columns = columns_of(systems, metric)
    for query_id in query_ids:
        story = query_answers(query_id, systems, metric, columns, stages=stages)
        if len(systems) == 1 and systems[0].repeats:
            runs = query_answers(query_id, systems[0].repeats, metric)
            story = story._replace(wanted=runs.wanted, why=runs.why, summary=runs.summary)
        yield story


def marked_as_worse(story: model.QueryAnswers) -> model.QueryAnswers:
    *answers, answer = story.answers
    answer = answer._replace(score=answer.score._replace(tone="alarm"))
    return story._replace(answers=[*answers, answer])


def lost_most(gains: Mapping[str, float], systems: Sequence[System], metric: str) -> model.Listing:
    sign = (1, -1)[lower_is_better(metric)]
    worse_ids = [query_id for query_id in sorted(gains) if sign * gains[query_id] < 0]
    worse_ids.sort(key=lambda query_id: sign * gains[query_id])
    baseline, system = map(attrgetter("name"), systems)
    n = f"{len(worse_ids):,} of {questions(len(gains))}"
    title = _WORSE.format(system=system, baseline=baseline, metric=metric, n=n)
    stories = list(map(marked_as_worse, stories_of(worse_ids[:_ITEMS], systems, metric)))
    if not stories:
        title, losers = f"{listing_title(metric)} on average", systems
        if not gains:  # nothing is compared, which the system's questions explain
            title, losers = f"Lost by {system}", systems[1:]
        query_ids = worst_first(losers, metric)[:_ITEMS]
        stories = list(filter(attrgetter("why"), stories_of(query_ids, systems, metric)))
    n_items = int(bool(systems[1].run) and not any(map(attrgetter("wanted"), stories)))
    lead, n_more = _PAGE * (len(gains) > _ITEMS), len(worse_ids) - len(stories)
    return model.Listing(title, stories, n_more, n_items, n_wanted=_WANTED, lead=lead)


def story_report(query_id: str, systems: Sequence[System], metric: str, depth: int) -> model.Report:
    if len(systems) == 1 and systems[0].scores.repeats:
        systems = systems[0].repeats
    [story] = stories_of([query_id], systems, metric)
    sentence = losses_sentence(losses_of(systems, [QuestionView(query_id, systems, metric)]))
    if not sentence:
        sentence = "No ranking is known." if story.wanted else "Nothing is labelled as relevant."
    decision = [model.Statement(sentence)]
    listing = model.Listing(metric, [story._replace(why=())], n_items=depth)
    return model.Report(f"Question {query_id}", decision=decision, listings=[listing])


class HardQuestions(Reportable, list[tuple[str, float]]):
    """Pairs of query id and score, the worst first, which print as their stories."""

    def __init__(self, system: System, metric: str | None, n: int) -> None:
        check_integer("n", n, 0)
        self.system, self.metric = system, metric or next(iter(metrics_of([system])), "")
        self.stories = hardest([system], self.metric, n)
        self.scores = system.scores.by_query(self.metric)
        super().__init__((story.query_id, self.scores[story.query_id]) for story in self.stories)

    def report(self, *, full: bool = False) -> model.Report:
        title, invalid = listing_title(self.metric), self.system.invalid(self.metric)
        order = f"{title[0].lower()}{title[1:]} first"
        decision = [model.Statement(f"{len(self):,} of {questions(len(self.scores))}, {order}.")]
        if invalid:
            decision.insert(0, model.Statement(f"{invalid}.", "alarm"))
        lead = losses_sentence(whereabouts.losses([self.system], self.metric))
        scores, texts = dict(self), list(map(attrgetter("text"), self.stories))
        ids, values = list(scores), list(scores.values())
        records = model.Records({"query_id": ids, "score": values, "question": texts})
        listing = model.Listing("Questions", self.stories, n_items=_ITEMS, lead=lead)
        return model.Report(title, decision=decision, listings=[listing], records=records)

    __repr__ = Reportable.__str__
