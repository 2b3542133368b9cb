"""Nugget: something that a good answer says, and the passages that support it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput

Importance: TypeAlias = Literal["vital", "okay"]
"""Whether a good answer has to say it, or is the better for it."""

Support: TypeAlias = Literal["full", "partial", "none"]
"""How much of a nugget a passage says."""


@dataclass(frozen=True, slots=True)
class Nugget:
    """A fact that a good answer to a question says.

    Attributes:
        text: the fact, in a few words.
        importance: "vital" where a good answer has to say it, else "okay".
        supports: passage id to how much of it the passage says: "full", "partial" or "none". A
            passage that isn't there wasn't looked at.

    Raises:
        InvalidInput: the text is blank, or there is no such importance or support.

    Examples:
        >>> nugget = Nugget("jets of water vapour", supports={"d1": "full", "d2": "partial"})
        >>> nugget.importance, nugget.supported_by(), nugget.supported_by(partial=True)
        ('vital', ['d1'], ['d1', 'd2'])
    """

    text: str
    importance: Importance = "vital"
    supports: Mapping[str, Support] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InvalidInput("text of a nugget", self.text, "a text that isn't blank")
        if self.importance not in get_args(Importance):
            argument = f"importance of {self.text!r}"
            raise InvalidInput(argument, self.importance, "'vital' or 'okay'")
        if not isinstance(self.supports, Mapping):
            raise InvalidInput(f"supports of {self.text!r}", self.supports, "{passage id: support}")
        for passage, support in self.supports.items():
            if support not in get_args(Support):
                argument = f"support of {self.text!r} by {passage!r}"
                raise InvalidInput(argument, support, "'full', 'partial' or 'none'")
        object.__setattr__(self, "supports", MappingProxyType(dict(self.supports)))

    def supported_by(self, *, partial: bool = False) -> list[str]:
        """The passages that say all of it; with `partial`, those that say a part of it, too."""
        enough = ("full", "partial") if partial else ("full",)
        return [passage for passage, support in self.supports.items() if support in enough]

    def __repr__(self) -> str:
        return f"Nugget({self.text!r}, {self.importance!r}, {dict(self.supports)!r})"

    def __reduce__(self) -> tuple[type[Nugget], tuple[str, str, dict[str, Support]]]:
        return Nugget, (self.text, self.importance, dict(self.supports))


def vital_first(nuggets: Iterable[Nugget]) -> list[Nugget]:
    """The vital ones before the others, else in their order."""
    return sorted(nuggets, key=lambda nugget: nugget.importance != "vital")


def facets_of(
    nuggets: Iterable[Nugget],
    *,
    partial: bool = False,
    vital_only: bool = False,
    vital_weight: float = 1.0,
    okay_weight: float = 0.5,
) -> Relevance:
    """The nuggets of a question as facets, each supplied by the passages that support it.

    Passages that were looked at and support nothing have grade 0.

    Args:
        nuggets: the nuggets, each once.
        partial: whether a part of a nugget is enough.
        vital_only: without those that are okay.
        vital_weight: how much a vital nugget counts in `facet_recall`.
        okay_weight: how much another one counts.

    Raises:
        InvalidInput: a weight isn't above 0.

    Examples:
        >>> vapour = Nugget("jets of water vapour", "vital", {"d1": "full", "d2": "none"})
        >>> cassini = Nugget("seen by Cassini in 2005", "okay", {"d1": "none", "d2": "partial"})
        >>> relevance = facets_of([vapour, cassini])
        >>> dict(zip(relevance.facet_names, relevance.alternatives))
        {'jets of water vapour': ('d1',), 'seen by Cassini in 2005': ()}
        >>> relevance.weights, dict(relevance.grades)
        ((1.0, 0.5), {'d1': 1.0, 'd2': 0.0})
    """
    needed = [nugget for nugget in nuggets if nugget.importance == "vital" or not vital_only]
    passages = dict.fromkeys(passage for nugget in needed for passage in nugget.supports)
    facets = {nugget.text: nugget.supported_by(partial=partial) for nugget in needed}
    supplying = {passage for group in facets.values() for passage in group}
    weight = {"vital": vital_weight, "okay": okay_weight}
    return Relevance.facets(
        facets,
        weights={nugget.text: weight[nugget.importance] for nugget in needed},
        grades={passage: float(passage in supplying) for passage in passages},
    )
