"""Relevance: what is relevant to one query.

LlamaIndex's evaluators hand `expected_ids` to a metric as the very object that the caller gave, and
hand over nothing else about relevance. So `Relevance` is a `list[str]` of the relevant ids that
also carries grades and groups, and it reaches every metric through the stock evaluator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from llama_index_rag_metrics.errors import InvalidInput

RelevanceLike: TypeAlias = (
    "Relevance | Mapping[str, float] | Iterable[str] | Iterable[Iterable[str]]"
)
"""What the entry points take for one query: ids, {id: grade}, groups of ids, or a Relevance."""

Groups: TypeAlias = tuple[tuple[str, ...], ...]

HIGHEST_GRADE = 1e300
"""Gains are summed in 64-bit floats, and have to stay finite however many there are."""


class Relevance(list[str]):
    """What is relevant to one query: binary, graded, or groups of alternatives.

    As a list it holds the ids with a grade above 0, each once, in the order given. It can't be
    changed after it was made: metrics and reports may share it.

    Args:
        judgements: relevant ids (grade 1 each), or a mapping from id to grade. Grades are finite;
            0 means judged and not relevant, a negative grade means pooled but unjudged.

    Attributes:
        grades: every judgement, id to grade, read-only; ids with grade 0 or less included.
        alternatives: the groups of ids given to `Relevance.groups`, or None.

    Raises:
        InvalidInput: an id or a grade can't be used.

    Examples:
        >>> Relevance({"d1": 3, "d2": 1, "d7": 0})
        Relevance({'d1': 3.0, 'd2': 1.0, 'd7': 0.0})
        >>> list(Relevance({"d1": 3, "d2": 1, "d7": 0}))
        ['d1', 'd2']
        >>> Relevance(["d1", "d2", "d1"])
        Relevance(['d1', 'd2'])
        >>> Relevance.groups([["a1", "a2"], ["b"]])
        Relevance.groups([['a1', 'a2'], ['b']])
    """

    __slots__ = ("_alternatives", "_grades")
    _grades: dict[str, float]
    _alternatives: Groups | None

    def __init__(self, judgements: Iterable[str] | Mapping[str, float] = ()) -> None:
        if hasattr(self, "_grades"):
            self._refuse()
        self._grades = _read_grades(judgements)
        self._alternatives = None
        if isinstance(judgements, Relevance):
            self._alternatives = judgements._alternatives
        super().__init__(item for item, grade in self._grades.items() if grade > 0)

    @classmethod
    def groups(cls, groups: Iterable[Iterable[str]]) -> Relevance:
        """Alternatives: (a1 or a2) and b. Each group is one need, met by any of its ids.

        Every id has grade 1 for the metrics that know no groups. An id may be in several groups.

        Args:
            groups: one iterable of ids a group; an empty group is an error.

        Raises:
            InvalidInput: a group is empty or isn't a collection of ids.
        """
        alternatives = tuple(_read_group(group) for group in groups)
        relevance = cls(item for group in alternatives for item in group)
        relevance._alternatives = alternatives
        return relevance

    @classmethod
    def of(cls, judgements: RelevanceLike) -> Relevance:
        """Any accepted form of relevance, as a Relevance: the inverse of `to_plain`.

        >>> Relevance.of([["a1", "a2"], ["b"]]).alternatives
        (('a1', 'a2'), ('b',))

        Raises:
            InvalidInput: an id or a grade can't be used, or this is no form of relevance.
        """
        if isinstance(judgements, Relevance):
            return judgements
        if isinstance(judgements, (Mapping, str, bytes)) or not isinstance(judgements, Iterable):
            return cls(judgements)
        items: list[Any] = list(judgements)
        if items and all(isinstance(item, (list, tuple, set, frozenset)) for item in items):
            return cls.groups(items)
        return cls(items)

    @property
    def grades(self) -> Mapping[str, float]:
        return MappingProxyType(self._grades)

    @property
    def alternatives(self) -> Groups | None:
        return self._alternatives

    @property
    def is_graded(self) -> bool:
        """Whether any judgement differs from grade 1."""
        return any(grade != 1 for grade in self._grades.values())

    def to_plain(self) -> list[str] | dict[str, float] | list[list[str]]:
        """The shortest JSON form that holds all of it: a list, a mapping, or a list of lists."""
        if self.alternatives is not None:
            return [list(group) for group in self.alternatives]
        return dict(self._grades) if self.is_graded else list(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Relevance):
            return self._grades == other._grades and self.alternatives == other.alternatives
        return list.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.alternatives is not None:
            return Relevance.groups, (self.alternatives,)
        return Relevance, (self._grades,)

    def __repr__(self) -> str:
        made_by = "Relevance" if self.alternatives is None else "Relevance.groups"
        return f"{made_by}({self.to_plain()!r})"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a Relevance can't be changed: build a new one from .grades")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


def _read_grades(judgements: object) -> dict[str, float]:
    if isinstance(judgements, Relevance):
        return judgements._grades
    if isinstance(judgements, (str, bytes)) or not isinstance(judgements, Iterable):
        wish = "a list of ids or a mapping from id to grade"
        raise InvalidInput("expected_ids", judgements, wish)
    if isinstance(judgements, Mapping):
        return {_read_id(item): _read_grade(item, grade) for item, grade in judgements.items()}
    return dict.fromkeys(map(_read_id, judgements), 1.0)


def _read_id(item: Any) -> Any:
    try:
        hash(item)
    except TypeError as error:
        remedy = "Groups go through Relevance.groups(...)."
        raise InvalidInput("expected_ids", item, "an id", remedy) from error
    if item is None:
        raise InvalidInput("expected_ids", item, "an id", "Leave what has no id out.")
    return item


def _read_grade(item: object, grade: object) -> float:
    try:
        number = float(grade) if isinstance(grade, Real) else math.nan
    except OverflowError:
        number = math.inf
    if not abs(number) <= HIGHEST_GRADE:
        wish = f"a finite number of at most {HIGHEST_GRADE:g}"
        raise InvalidInput(f"grade of {item!r}", grade, wish)
    return number


def _read_group(group: object) -> tuple[str, ...]:
    if isinstance(group, (str, bytes)) or not isinstance(group, Iterable):
        raise InvalidInput("group", group, "a collection of ids", "Write one id as ['id'].")
    ids = tuple(dict.fromkeys(map(_read_id, group)))
    if not ids:
        raise InvalidInput("group", group, "at least one id", "Leave an empty group out.")
    return ids
