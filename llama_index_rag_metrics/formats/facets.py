"""Facets as HotpotQA writes them: supporting facts."""

from __future__ import annotations

from collections.abc import Mapping

from llama_index_rag_metrics.formats.lines import Place
from llama_index_rag_metrics.relevance import Relevance


def read_supporting_facts(facts: object, place: Place) -> Relevance:
    """The documents that are needed together, a facet each, called after their titles.

    Args:
        facts: [[title, sentence], …], or {"title": [title, …], …}.
        place: where it was read.

    Raises:
        FileFormatError: it is neither.

    Examples:
        >>> facts = [["Enceladus", 0], ["Cassini", 2], ["Enceladus", 3]]
        >>> read_supporting_facts(facts, Place("hotpot.json"))
        Relevance.facets({'Enceladus': ['Enceladus'], 'Cassini': ['Cassini']})
    """
    titles = facts.get("title") if isinstance(facts, Mapping) else facts
    expected = "supporting facts, [[title, sentence], …] or {'title': [title, …]}"
    if not isinstance(titles, (list, tuple)):
        raise place.wrong(expected, facts)
    if not isinstance(facts, Mapping):
        if not all(isinstance(fact, (list, tuple)) and fact for fact in titles):
            raise place.wrong(expected, facts)
        titles = [fact[0] for fact in titles]
    if not all(isinstance(title, str) and title for title in titles):
        raise place.wrong(expected, facts)
    return Relevance.facets({title: [title] for title in titles})
