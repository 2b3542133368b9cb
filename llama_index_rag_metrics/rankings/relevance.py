"""Relevance: what is relevant to one query."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from numbers import Real
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from llama_index_rag_metrics.rankings.span import Span, SpanLike, read_span
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import shorten

RelevanceLike: TypeAlias = (
    "Relevance | Mapping[str, float] | Iterable[str] | Iterable[Iterable[str]]"
)
"""What the entry points take for one query: ids, {id: grade}, groups of ids, or a Relevance."""

Groups: TypeAlias = tuple[tuple[str, ...], ...]
Plain: TypeAlias = "list[str] | dict[str, float] | list[list[str]] | dict[str, Any]"

HIGHEST_GRADE = 1e300
"""Gains are summed in 64-bit floats; the sum of any number of them has to stay finite."""


class Relevance(list[str]):
    """What is relevant to one query: binary, graded, groups of alternatives, or named facets.

    As a list it holds the ids with a grade above 0, each once, in the order given. It can't be
    changed, so that metrics and reports may share it.

    Args:
        judgements: relevant ids (grade 1 each), or a mapping from id to grade. Grades are finite;
            0 means judged and not relevant, a negative grade means pooled but unjudged.

    Attributes:
        grades: every judgement, id to grade, read-only; ids with grade 0 or less included.
        alternatives: the groups of ids given to `Relevance.groups` or `Relevance.facets`, or None.
        facet_names: the name of each group, or None where the groups have none.
        weights: how much each group counts in `facet_recall`, or None without groups.
        spans: id to its place in a document, for the span metrics, or None where none is known.

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
        >>> Relevance.facets({"hop 1": ["a", "b"], "hop 2": ["c"]}, weights={"hop 2": 2})
        Relevance.facets({'hop 1': ['a', 'b'], 'hop 2': ['c']}, weights={'hop 2': 2.0})
    """

    __slots__ = ("_alternatives", "_facet_names", "_grades", "_spans", "_weights")
    _grades: dict[str, float]
    _alternatives: Groups | None
    _facet_names: tuple[str, ...] | None
    _weights: tuple[float, ...] | None
    _spans: dict[str, Span] | None

    def __init__(self, judgements: Iterable[str] | Mapping[str, float] = ()) -> None:
        if hasattr(self, "_grades"):
            self._refuse()
        if isinstance(judgements, Relevance):
            for slot in Relevance.__slots__:
                setattr(self, slot, getattr(judgements, slot))
        else:
            self._grades = _read_grades(judgements)
            self._alternatives = self._facet_names = self._weights = self._spans = None
        super().__init__(item for item, grade in self._grades.items() if grade > 0)

    @classmethod
    def groups(
        cls, groups: Iterable[Iterable[str]], grades: Mapping[str, float] | None = None
    ) -> Relevance:
        """Alternatives: (a1 or a2) and b. Each group is one need, met by any of its ids.

        Metrics without groups see the grade of every id. An id may be in several groups.

        Args:
            groups: one iterable of ids for each group; an empty group is an error.
            grades: id to grade; above 0 for the ids of groups, 1 by default. Further ids are judged
                and belong to no group.

        Raises:
            InvalidInput: a group is empty or isn't a collection of ids, or the grade of one of its
                ids isn't above 0.
        """
        alternatives = tuple(_read_group(group) for group in groups)
        if () in alternatives:
            raise InvalidInput("group", [], "at least one id", "Leave an empty group out.")
        return cls._of_alternatives(alternatives, grades)

    @classmethod
    def _of_alternatives(
        cls, alternatives: Groups, grades: Mapping[str, float] | None
    ) -> Relevance:
        members = dict.fromkeys(chain.from_iterable(alternatives), 1.0)
        relevance = cls({**members, **_read_grades(grades or {})})
        for item in members:
            grade = relevance._grades[item]
            if grade <= 0:
                expected = "a number above 0, since it is in a group"
                raise InvalidInput(f"grade of {item!r}", grade, expected)
        relevance._alternatives = alternatives
        relevance._weights = (1.0,) * len(alternatives)
        return relevance

    @classmethod
    def facets(
        cls,
        facets: Mapping[str, Iterable[str]],
        *,
        weights: Mapping[str, float] | None = None,
        grades: Mapping[str, float] | None = None,
    ) -> Relevance:
        """Several things that are needed at once: subtopics, facts, the hops of a question.

        Each facet is a group of ids that each supply it; an id may supply several facets.

        Args:
            facets: facet name to the ids that supply it. A facet without ids is needed, and nothing
                is known to supply it: it counts as missed.
            weights: facet name to how much it counts in `facet_recall`, above 0; 1 by default.
            grades: as of `groups`.

        Raises:
            InvalidInput: a facet isn't a collection of ids, or a weight names no facet or isn't
                above 0.
        """
        if not isinstance(facets, Mapping):
            raise InvalidInput("facets", facets, "a mapping from facet name to ids")
        relevance = cls._of_alternatives(tuple(map(_read_group, facets.values())), grades)
        by_name = dict.fromkeys(facets, 1.0)
        for name, weight in (weights or {}).items():
            if name not in facets:
                expected = f"facets to be weighted, which are {', '.join(map(repr, facets))}"
                raise InvalidInput("weights", name, expected)
            if not isinstance(weight, Real) or not 0 < weight <= HIGHEST_GRADE:
                raise InvalidInput(f"weight of facet {name!r}", weight, "a finite number above 0")
            by_name[name] = float(weight)
        relevance._facet_names, relevance._weights = tuple(facets), tuple(by_name.values())
        return relevance

    @classmethod
    def of_spans(
        cls, spans: Iterable[SpanLike], grades: Iterable[float] | None = None
    ) -> Relevance:
        """Passages by their places: the parts of documents that should be in the context.

        Each gets an id that says where it is, such as "moons.txt[100:200]".

        Args:
            spans: (document id, start, end), in characters; they may overlap. One that is given
                twice is one passage.
            grades: one for each span; 1 by default.

        Raises:
            InvalidInput: a span can't be used, there isn't one grade for each span, or one that is
                given twice has two grades.

        Examples:
            >>> Relevance.of_spans([("moons.txt", 100, 200)]).spans["moons.txt[100:200]"]
            Span(source='moons.txt', start=100, end=200)
        """
        places = [read_span(f"passage {n}", place) for n, place in enumerate(spans, 1)]
        numbers = [1.0] * len(places) if grades is None else list(grades)
        if len(numbers) != len(places):
            raise InvalidInput("grades", len(numbers), f"one for each of the {len(places)} spans")
        ids = [f"{span.source}[{span.start}:{span.end}]" for span in places]
        judged: dict[str, float] = {}
        for item, grade in zip(ids, numbers, strict=True):
            if judged.setdefault(item, grade) != grade:
                grades_of_item = (judged[item], grade)
                remedy = "It is given twice."
                raise InvalidInput(f"grades of {item!r}", grades_of_item, "one grade", remedy)
        return cls(judged).with_spans(dict(zip(ids, places, strict=True)))

    def with_spans(self, spans: Mapping[str, SpanLike]) -> Relevance:
        """The same relevance, with the places of its ids.

        Args:
            spans: id to (document id, start, end), in characters; ids that aren't judged are left
                out.

        Raises:
            InvalidInput: a span isn't (document id, start, end).
        """
        placed = Relevance(self)
        places = {item: read_span(item, span) for item, span in spans.items()}
        placed._spans = {item: places[item] for item in self._grades if item in places}
        return placed

    @classmethod
    def of(cls, judgements: RelevanceLike) -> Relevance:
        """Any accepted form of relevance, as a Relevance: the inverse of `to_plain`.

        >>> Relevance.of([["a1", "a2"], ["b"]]).alternatives
        (('a1', 'a2'), ('b',))

        Raises:
            InvalidInput: an id or a grade can't be used, or the value is no form of relevance.
        """
        if isinstance(judgements, Relevance):
            return judgements
        if isinstance(judgements, Mapping):
            plain: Mapping[str, Any] = judgements
            if isinstance(plain.get("facets"), Mapping):
                return cls.facets(**plain)
            if isinstance(plain.get("groups"), list):
                return cls.groups(**plain)
            if isinstance(plain.get("spans"), Mapping):
                return cls.of(plain["judgements"]).with_spans(plain["spans"])
            return cls(plain)
        if isinstance(judgements, (str, bytes)) or not isinstance(judgements, Iterable):
            return cls(judgements)
        items: list[Any] = list(judgements)
        refuse_pairs(items)
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
    def facet_names(self) -> tuple[str, ...] | None:
        return self._facet_names

    @property
    def weights(self) -> tuple[float, ...] | None:
        return self._weights

    @property
    def spans(self) -> Mapping[str, Span] | None:
        return None if self._spans is None else MappingProxyType(self._spans)

    @property
    def is_graded(self) -> bool:
        """Whether any judgement differs from grade 1."""
        return any(grade != 1 for grade in self._grades.values())

    def to_plain(self) -> Plain:
        """The shortest JSON form that holds all of it: `Relevance.of` reads it back.

        A list of ids, {id: grade}, a list of groups, {"groups": them, "grades": {id: grade}} where
        grades differ from 1, or {"facets": {name: ids}}, with "weights" and "grades" where they do;
        with spans, {"judgements": one of these, "spans": {id: span}}.
        """
        if self._spans is not None:
            spans = {item: list(span) for item, span in self._spans.items()}
            return {"judgements": self._without_spans().to_plain(), "spans": spans}
        if self._alternatives is None:
            return dict(self._grades) if self.is_graded else list(self)
        groups = [list(group) for group in self._alternatives]
        plain: dict[str, Any] = {"groups": groups}
        if self._facet_names is not None:
            names = self._facet_names
            plain = {"facets": dict(zip(names, groups, strict=True))}
            weights = zip(names, self._weights or (), strict=True)
            weighted = {name: weight for name, weight in weights if weight != 1}
            if weighted:
                plain["weights"] = weighted
        elif not self.is_graded:
            return groups
        if self.is_graded:
            plain["grades"] = dict(self._grades)
        return plain

    def _without_spans(self) -> Relevance:
        bare = Relevance(self)
        bare._spans = None
        return bare

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Relevance):
            return self.__reduce__() == other.__reduce__()
        return list.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._spans is not None or self._facet_names is not None:
            return Relevance.of, (self.to_plain(),)
        if self._alternatives is None:
            return Relevance, (self._grades,)
        return Relevance.groups, (self._alternatives, self._grades if self.is_graded else None)

    def __repr__(self) -> str:
        if self._spans is not None:
            spans = {item: tuple(span) for item, span in self._spans.items()}
            return f"{self._without_spans()!r}.with_spans({spans!r})"
        plain = self.to_plain()
        if self._alternatives is None:
            return f"Relevance({plain!r})"
        parts = plain if isinstance(plain, dict) else {"groups": plain}
        (kind, groups), *options = parts.items()
        arguments = "".join(f", {name}={value!r}" for name, value in options)
        return f"Relevance.{kind}({groups!r}{arguments})"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a Relevance can't be changed: build a new one from .grades")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


def _read_grades(judgements: object) -> dict[str, float]:
    if isinstance(judgements, (str, bytes)) or not isinstance(judgements, Iterable):
        remedy = "Write one id as ['id']; the id of a node is node.node_id."
        expected = "a list of ids or a mapping from id to grade"
        raise InvalidInput("expected_ids", judgements, expected, remedy)
    if isinstance(judgements, Mapping):
        return {_read_id(item): _read_grade(item, grade) for item, grade in judgements.items()}
    return dict.fromkeys(map(_read_id, judgements), 1.0)


def _read_id(item: Any) -> Any:
    if type(item) is str and item:
        return item
    if item == "":
        raise InvalidInput("expected_ids", item, "an id, a text that isn't empty")
    if isinstance(item, tuple) or not isinstance(item, Hashable):
        remedy = (
            "For groups, use Relevance.groups(...); for grades, {id: grade}; for nodes, "
            "node.node_id of each."
        )
        raise InvalidInput("expected_ids", item, "an id", remedy)
    if item is None:
        raise InvalidInput("expected_ids", item, "an id", "Leave out passages without an id.")
    return item


def _read_grade(item: object, grade: object) -> float:
    try:
        number = float(grade) if isinstance(grade, (float, int, Real)) else math.nan
    except OverflowError:
        number = math.inf
    if not abs(number) <= HIGHEST_GRADE:
        expected = f"a finite number of at most {HIGHEST_GRADE:g}"
        raise InvalidInput(f"grade of {item!r}", grade, expected)
    return number


def refuse_pairs(items: Iterable[object]) -> None:
    """Grades are a mapping: in pairs they would be taken for ids."""
    pairs = [item for item in items if isinstance(item, (list, tuple)) and len(item) == 2]
    kinds = str, Real
    if graded := {item[0]: item[1] for item in pairs if all(map(isinstance, item, kinds))}:
        expected = "ids, {id: grade} or groups of ids"
        raise InvalidInput("expected_ids", pairs, expected, f"Write grades as {shorten(graded)}.")


def _read_group(group: object) -> tuple[str, ...]:
    if isinstance(group, (str, bytes)) or not isinstance(group, Iterable):
        raise InvalidInput("group", group, "a collection of ids", "Write one id as ['id'].")
    return tuple(dict.fromkeys(map(_read_id, group)))
