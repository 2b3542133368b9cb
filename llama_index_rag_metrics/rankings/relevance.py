"""Relevance: what is relevant to one query."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from numbers import Real
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from llama_index_rag_metrics.runtime.containers import map_values, picked, present
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .span import Span, SpanLike, read_span, span_id

RelevanceLike: TypeAlias = "Relevance | Mapping[str, float] | Iterable[str | Iterable[str]]"
"""What the entry points take for one query: ids, {id: grade}, groups of ids, or a Relevance."""

_Ids: TypeAlias = tuple[str, ...]

HIGHEST_GRADE = 1e300  # the sum of any number of gains has to stay finite as a 64-bit float


class Relevance(list[str]):
    """What is relevant to one query: binary, graded, groups of alternatives, or named facets.

    As a list it holds the ids with a grade above 0, each once, in the order given. It can't be
    changed, so that metrics and reports may share it; all arguments can be read as attributes.

    Args:
        grades: relevant ids (grade 1 each), or a mapping from id to grade. Grades are finite; 0
            means judged and not relevant, negative means pooled but unjudged. A list of lists is
            `groups`; what `to_plain` made is read, too.
        groups: alternatives, (a1 or a2) and b: each group is one need, met by any of its ids, whose
            grades are above 0, 1 by default. An id may be in several groups. The attribute is
            `alternatives`, of facets, too.
        facets: several things that are needed at once, such as the hops of a question: name to the
            ids that supply it. One without ids counts as missed. The attribute is `facet_names`.
        weights: facet name to how much it counts in `facet_recall`, above 0; 1 by default.
        spans: id to its place, (document id, start, end) in characters, for the span metrics. Or
            places alone, that get ids such as "moons.txt[100:200]"; `grades` then has one number
            for each.

    Raises:
        InvalidInput: an id, a grade, a group, a weight or a span can't be used.

    Examples:
        >>> Relevance({"d1": 3, "d2": 1, "d7": 0})
        Relevance({'d1': 3.0, 'd2': 1.0, 'd7': 0.0})
        >>> Relevance(facets={"hop 1": ["a", "b"], "hop 2": ["c"]}, weights={"hop 2": 2})
        Relevance(facets={'hop 1': ['a', 'b'], 'hop 2': ['c']}, weights={'hop 2': 2.0})
    """

    __slots__ = ("alternatives", "facet_names", "grades", "spans", "weights")
    grades: Mapping[str, float]
    alternatives: tuple[_Ids, ...] | None
    facet_names: _Ids | None
    weights: tuple[float, ...] | None
    spans: Mapping[str, Span] | None

    def __init__(
        self,
        grades: Any = (),
        *,
        groups: Iterable[Iterable[str]] | None = None,
        facets: Mapping[str, Iterable[str]] | None = None,
        weights: Mapping[str, float] | None = None,
        spans: Mapping[str, SpanLike] | Iterable[SpanLike] | None = None,
    ) -> None:
        if hasattr(self, "grades"):
            self._refuse()
        if spans is not None and not isinstance(spans, Mapping):
            grades, spans = _place(spans, grades)
        elif spans is not None and grades == () and groups is None and facets is None:
            grades = spans.keys()
        parts = {"groups": groups, "facets": facets, "weights": weights, "spans": spans}
        arguments = {**_arguments_of(grades), **present(parts)}
        grade_of = _read_grades(arguments.get("grades", ()))
        names, alternatives = _read_alternatives(arguments, grade_of)
        if alternatives is not None:
            grade_of = {**dict.fromkeys(chain.from_iterable(alternatives), 1.0), **grade_of}
        weight_of_each = _read_weights(names or (), alternatives, arguments.get("weights") or {})
        places = arguments.get("spans")
        if places is not None:
            all_places = {item: read_span(item, place) for item, place in places.items()}
            places = MappingProxyType(picked(all_places, grade_of))
        set_attribute = super().__setattr__
        set_attribute("grades", MappingProxyType(grade_of))
        set_attribute("alternatives", alternatives)
        set_attribute("facet_names", names)
        set_attribute("weights", weight_of_each)
        set_attribute("spans", places)
        super().__init__(item for item, grade in grade_of.items() if grade > 0)

    def to_plain(self) -> list[str] | list[list[str]] | dict[str, Any]:
        """The shortest JSON form that holds all of it: `Relevance(...)` reads it back."""
        arguments = self._to_arguments()
        if arguments.keys() in ({"grades"}, {"groups"}):
            return next(iter(arguments.values()))  # type: ignore[no-any-return]
        return arguments

    def _to_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        groups = list(map(list, self.alternatives or ()))
        if self.facet_names is not None:
            arguments["facets"] = dict(zip(self.facet_names, groups, strict=True))
            weights = zip(self.facet_names, self.weights or (), strict=True)
            if weighted := {name: weight for name, weight in weights if weight != 1}:
                arguments["weights"] = weighted
        elif self.alternatives is not None:
            arguments["groups"] = groups
        if any(grade != 1 for grade in self.grades.values()):
            arguments["grades"] = dict(self.grades)
        elif self.alternatives is None:
            arguments["grades"] = list(self)
        if self.spans is not None:
            arguments["spans"] = map_values(list, self.spans)
        return arguments

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Relevance):
            return list.__eq__(self, other)
        return all(getattr(self, slot) == getattr(other, slot) for slot in Relevance.__slots__)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Relevance, (self.to_plain(),)

    def __repr__(self) -> str:
        arguments = self._to_arguments()
        parts = []
        if "grades" in arguments:
            parts.append(repr(arguments.pop("grades")))
        parts += [f"{name}={value!r}" for name, value in arguments.items()]
        return f"Relevance({', '.join(parts)})"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a Relevance can't be changed: build a new one from .grades")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setattr__ = __delattr__ = __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


def as_relevance(labels: RelevanceLike) -> Relevance:
    return labels if isinstance(labels, Relevance) else Relevance(labels)


def _arguments_of(labels: Any) -> dict[str, Any]:
    if isinstance(labels, Relevance):
        return {**labels._to_arguments(), "grades": labels.grades}
    if isinstance(labels, Mapping):
        # one of these parts holds ids or places if `to_plain` made it; a grade is a number
        parts = map(labels.get, ("facets", "groups", "spans"))
        if not any(isinstance(part, (dict, list)) for part in parts):
            return {"grades": labels}
        for name in labels.keys() - {"grades", "groups", "facets", "weights", "spans"}:
            raise InvalidInput("expected_ids", name, "the arguments of Relevance, or ids alone")
        return dict(labels)
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        remedy = "Write one id as ['id']; the id of a node is node.node_id."
        expected = "a list of ids or a mapping from id to grade"
        raise InvalidInput("expected_ids", labels, expected, remedy)
    labels = list(labels)
    refuse_pairs(labels)
    if labels and all(isinstance(item, (list, tuple, set, frozenset)) for item in labels):
        return {"groups": labels}
    return {"grades": labels}


def _place(spans: Iterable[SpanLike], grades: Any) -> tuple[dict[str, float], dict[str, Span]]:
    """Return the grades and the places of passages that are named by their places."""
    places = [read_span(f"passage {n}", place) for n, place in enumerate(spans, 1)]
    numbers = [1.0] * len(places) if grades in ((), None) else list(grades)
    if len(numbers) != len(places):
        raise InvalidInput("grades", len(numbers), f"one for each of the {len(places)} spans")
    judged: dict[str, float] = {}
    for place, grade in zip(places, numbers, strict=True):
        item = span_id(place)
        if judged.setdefault(item, grade) != grade:
            differing = judged[item], grade
            raise InvalidInput(f"grades of {item!r}", differing, "one grade", "It is given twice.")
    return judged, {span_id(place): place for place in places}


def _read_grades(labels: Any) -> dict[str, float]:
    if isinstance(labels, Mapping):
        return {_read_id(item): _read_grade(item, grade) for item, grade in labels.items()}
    return dict.fromkeys(map(_read_id, labels), 1.0)


def _read_id(item: Any) -> Any:
    if type(item) is str and item:
        return item
    is_id = isinstance(item, Hashable) and not isinstance(item, tuple) and item not in (None, "")
    if not is_id:
        remedy = "For groups, use Relevance(groups=...); for nodes, node.node_id of each."
        raise InvalidInput("expected_ids", item, "an id", remedy)
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
    """Refuse pairs of id and grade, which would be taken for groups: grades are a mapping."""
    for item in items:
        if not isinstance(item, (list, tuple)) or len(item) != 2:
            continue
        if isinstance(item[0], str) and isinstance(item[1], Real):
            graded = {item[0]: item[1]}
            expected = "ids, {id: grade} or groups of ids"
            raise InvalidInput("expected_ids", item, expected, f"Write grades as {graded}.")


def _read_group(group: object) -> _Ids:
    if isinstance(group, (str, bytes)) or not isinstance(group, Iterable):
        raise InvalidInput("group", group, "a collection of ids", "Write one id as ['id'].")
    return tuple(dict.fromkeys(map(_read_id, group)))


def _read_alternatives(
    arguments: Mapping[str, Any], grade_of: Mapping[str, float]
) -> tuple[_Ids | None, tuple[_Ids, ...] | None]:
    """Return the names of facets and the ids of each; of groups, only the ids."""
    names, groups, facets = None, arguments.get("groups"), arguments.get("facets")
    if facets is not None:
        if groups is not None:
            raise InvalidInput("groups", groups, "none beside facets, which are groups with names")
        if not isinstance(facets, Mapping):
            raise InvalidInput("facets", facets, "a mapping from facet name to ids")
        names, groups = tuple(facets), facets.values()
    if groups is None:
        return None, None
    alternatives = tuple(map(_read_group, groups))
    if names is None and () in alternatives:
        raise InvalidInput("group", [], "at least one id", "Leave an empty group out.")
    for item in chain.from_iterable(alternatives):
        if grade_of.get(item, 1) <= 0:
            expected = "a number above 0, since it is in a group"
            raise InvalidInput(f"grade of {item!r}", grade_of[item], expected)
    return names, alternatives


def _read_weights(
    names: _Ids, groups: Sequence[_Ids] | None, weights: Mapping[str, float]
) -> tuple[float, ...] | None:
    """Return a weight for each facet; 1 for each group without a name."""
    for name, weight in weights.items():
        if name not in names:
            expected = f"facets to be weighted, which are {', '.join(map(repr, names))}"
            raise InvalidInput("weights", name, expected)
        if not isinstance(weight, Real) or not 0 < weight <= HIGHEST_GRADE:
            raise InvalidInput(f"weight of facet {name!r}", weight, "a finite number above 0")
    if groups is None:
        return None
    return tuple(float(weights.get(name, 1.0)) for name in names) or (1.0,) * len(groups)
