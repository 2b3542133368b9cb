"""Facets as other collections write them: TREC's diversity qrels, HotpotQA's supporting facts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from llama_index_rag_metrics.formats.judgements import read_grade
from llama_index_rag_metrics.formats.lines import Faults, Place, read_lines
from llama_index_rag_metrics.relevance import Relevance


def read_diversity_qrels(
    path: Path, faults: Faults | None = None, known: Collection[str] | None = None
) -> dict[str, Relevance]:
    """Read judgements by subtopic: topic, subtopic, document and grade, with spaces between them.

    Each subtopic is a facet of the documents with a grade above 0 there; one without any is left
    out, as ndeval leaves it out.

    Args:
        path: the file.
        faults: what to do with a line that can't be read.
        known: the ids of the topics that there are; None takes any.

    Raises:
        FileFormatError: a line can't be read, repeats a judgement, or judges an unknown topic.
    """
    faults = faults or Faults()
    facets: dict[str, dict[str, list[str]]] = {}
    judged: set[tuple[str, ...]] = set()

    def read(line: str, place: Place) -> None:
        columns = line.split()
        if columns[0].startswith("#"):
            return
        if len(columns) != 4:
            raise place.wrong("4 columns: topic, subtopic, document id, grade", line)
        topic, subtopic, document_id, grade = columns
        if known is not None and topic not in known:
            raise place.wrong("the id of a topic", topic)
        if (topic, subtopic, document_id) in judged:
            raise place.wrong("every judgement once", line)
        is_relevant = read_grade(grade, place) > 0
        judged.add((topic, subtopic, document_id))
        subtopics = facets.setdefault(topic, {})
        if is_relevant:
            subtopics.setdefault(subtopic, []).append(document_id)

    faults.each(read_lines(path, faults), read)
    return {
        topic: Relevance.facets(subtopics) if subtopics else Relevance()
        for topic, subtopics in facets.items()
    }


def read_supporting_facts(given: object, place: Place) -> Relevance:
    """The documents that are needed together, a facet each, called after their titles.

    Args:
        given: [[title, sentence], …], or {"title": [title, …], …}.
        place: where it was read.

    Raises:
        FileFormatError: it is neither.

    Examples:
        >>> facts = [["Enceladus", 0], ["Cassini", 2], ["Enceladus", 3]]
        >>> read_supporting_facts(facts, Place("hotpot.json"))
        Relevance.facets({'Enceladus': ['Enceladus'], 'Cassini': ['Cassini']})
    """
    titles = given.get("title") if isinstance(given, Mapping) else given
    wish = "supporting facts, [[title, sentence], …] or {'title': [title, …]}"
    if not isinstance(titles, (list, tuple)):
        raise place.wrong(wish, given)
    if not isinstance(given, Mapping):
        if not all(isinstance(fact, (list, tuple)) and fact for fact in titles):
            raise place.wrong(wish, given)
        titles = [fact[0] for fact in titles]
    if not all(isinstance(title, str) and title for title in titles):
        raise place.wrong(wish, given)
    return Relevance.facets({title: [title] for title in titles})
