"""Facets as HotpotQA writes them: supporting facts."""

from __future__ import annotations

from collections.abc import Mapping

from llama_index_rag_metrics.formats.lines import Place
from llama_index_rag_metrics.relevance import Relevance


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
