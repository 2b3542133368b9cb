"""Who asks a question: what programs are told beside its text, and what they may retrieve from."""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.indices.base import BaseIndex
from llama_index.core.objects import ObjectRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.tools import BaseTool
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.workflow import Workflow
from pydantic import ValidationError

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.runtime.errors import InvalidInput, unawaited
from llama_index_rag_metrics.runtime.masking import describe_error, join_first

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

FiltersLike: TypeAlias = "str | Callable[[Mapping[str, Any]], MetadataFilters | None]"
"""A key that questions and nodes have in their metadata, or a function of the question's metadata
to LlamaIndex's filters."""

# what a program is told beside the question: what was said before, or all of its metadata
Told: TypeAlias = Literal["history", "metadata"]
Component = TypeVar("Component")

_FILTERS = ("_filters", "_extra_filters")  # where LlamaIndex's retrievers keep their filters
# what all stores understand alike of numbers
_NUMBERS: dict[FilterOperator, Callable[[Any, Any], bool]] = {
    FilterOperator.GT: operator.gt,
    FilterOperator.GTE: operator.ge,
    FilterOperator.LT: operator.lt,
    FilterOperator.LTE: operator.le,
}
_RETRIEVES = (
    *(BaseRetriever, BaseQueryEngine, BaseChatEngine, BaseIndex, BaseTool, Workflow),
    ObjectRetriever,
)
"""What may retrieve, and so has to take filters wherever it is a part of something."""


@dataclass
class Query(QueryBundle):
    """A question as a system is asked it; `filters` are None where it may retrieve from all."""

    query_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    filters: MetadataFilters | None = None

    def told(self) -> dict[str, Any]:
        """The metadata, which whoever gets them may change."""
        return copy.deepcopy(dict(self.metadata))

    @property
    def history(self) -> list[ChatMessage]:
        return [ChatMessage(**message) for message in self.metadata.get(HISTORY, ())]

    def forbids(self, nodes: Iterable[NodeWithScore]) -> bool:
        """Whether any of the nodes surely doesn't fit the filters."""
        filters = self.filters
        return filters is not None and any(_differs(node.node.metadata, filters) for node in nodes)

    def unseen(self, nodes: Sequence[NodeWithScore]) -> list[str]:
        """Keys of the filters that none of the nodes has, so that none shows whether it fits."""
        parts = _flat(self.filters) if nodes and self.filters is not None else ()
        keys = {part.key: None for part in parts if isinstance(part, MetadataFilter)}
        return [key for key in keys if all(key not in node.node.metadata for node in nodes)]


def filters_by_question(
    dataset: RetrievalDataset, filters: FiltersLike
) -> dict[str, MetadataFilters | None]:
    """The filters of every question; made before any is asked, so that a mistake costs nothing."""
    if not isinstance(filters, str) and not callable(filters):
        expected = "a key of the questions' metadata, or a function of it to MetadataFilters"
        is_filter = isinstance(filters, MetadataFilters)
        remedy = "The same for all questions: filters=lambda metadata: your_filters." * is_filter
        raise InvalidInput("filters", filters, expected, remedy)
    if callable(filters) and (signature := signature_of(filters)) is not None:
        try:
            signature.bind({})
        except TypeError:
            expected = "a function of one argument, the question's metadata"
            shown = f"a function of {', '.join(signature.parameters) or 'nothing'}"
            raise InvalidInput("filters", shown, expected) from None
    make = _by_key if isinstance(filters, str) else _by_function
    by_question = {
        query_id: make(query_id, copy.deepcopy(dataset.metadata.get(query_id, {})), filters)
        for query_id in dataset.queries
    }
    if by_question and not any(made and made.filters for made in by_question.values()):
        expected = "LlamaIndex's MetadataFilters, for one question at least"
        raise InvalidInput("what filters returned", None, expected)
    return by_question


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:  # of the function itself: a decorator may supply what the one that it wraps needs
        return inspect.signature(function, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - some functions have none, and others compute theirs
        return None


def _by_key(query_id: str, metadata: Mapping[str, Any], key: Any) -> MetadataFilters:
    value, kind = metadata.get(key), FilterOperator.EQ
    if value is None:
        has = join_first([*map(str, metadata)], 10) or "none"
        expected = (
            f"a key that every question has in its metadata; {query_id!r} lacks it and has: {has}"
        )
        raise InvalidInput("filters", key, expected)
    if isinstance(value, (list, tuple, set, frozenset)):
        value, kind = sorted(value, key=str), FilterOperator.IN
    try:
        return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=kind)])
    except ValidationError:
        expected = f"a text or a number, or a list of these, as {key!r} of question {query_id!r}"
        raise InvalidInput("filters", value, expected) from None


def _by_function(
    query_id: str, metadata: Mapping[str, Any], function: Any
) -> MetadataFilters | None:
    returned = "what filters returned"
    expected = (
        f"LlamaIndex's MetadataFilters, or None for no filter, for question {query_id!r} with the "
        f"metadata {list(metadata)}"
    )
    try:
        made = function(metadata)
    except Exception as error:
        raise InvalidInput(returned, describe_error(error), expected) from error
    if made is not None and not isinstance(made, MetadataFilters):
        raise InvalidInput(returned, made, expected, unawaited(made))
    return made


class _TakesNone(Exception):
    """A component that has no place for filters."""


def check_filterable(component: Any) -> None:
    """Refuse filters for what has no place for them, of which one part is enough."""
    try:
        with_filters(component, MetadataFilters(filters=[]))
    except _TakesNone as error:
        whole, part = _name(component), _name(error.args[0])
        of_part = "it takes none" if part == whole else f"{part}, a part of it, takes none"
        sentence = f"filters can't be given for {whole}: {of_part}."
        remedy = (
            "Those who take them are vector indexes and their retrievers, and the engines, agents "
            "and tools that are made of such retrievers alone. Otherwise give a function with a "
            "parameter metadata: lambda question, metadata: search(question, metadata['tenant'])."
        )
        raise InvalidInput("filters", whole, sentence=sentence, remedy=remedy) from None


def with_filters(component: Component, filters: MetadataFilters) -> Component:
    """A copy in which every retriever has these filters, too; _TakesNone if a part takes none."""
    state = getattr(component, "__dict__", {})
    if getattr(component, "takes_filters", False):
        return component
    if isinstance(component, ObjectRetriever):  # the tools that it finds are beyond reach
        raise _TakesNone(component)
    own = {
        name: _both(state[name], filters)
        for name in _FILTERS
        if name in state and isinstance(state[name], (MetadataFilters, type(None)))
    }
    parts = {
        name: _each(held, lambda part: with_filters(part, filters))
        for name, held in state.items()
        if _reaches(held) and not (own and isinstance(held, BaseIndex))
    }
    if not own and not parts and state.get("tools", ...) not in (None, []):
        raise _TakesNone(component)
    changed = copy.copy(component)
    vars(changed).update(own | parts)
    return changed


def _reaches(held: Any) -> bool:
    """Whether what a component holds at a name retrieves, or any of several that it holds there."""
    parts: list[Any] = []
    _each(held, parts.append)
    is_program = (getattr(part, "retrieves", False) is True for part in parts)
    return any(isinstance(part, _RETRIEVES) for part in parts) or any(is_program)


def _each(held: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(held, Mapping):
        return {key: _each(part, change) for key, part in held.items()}
    if isinstance(held, (list, tuple)):
        return [_each(part, change) for part in held]
    return change(held)


def _both(own: MetadataFilters | None, further: MetadataFilters) -> MetadataFilters:
    if own is None:
        return further
    parts = [*_flat(own), *_flat(further)]
    return MetadataFilters(filters=parts, condition=FilterCondition.AND)


def _flat(filters: MetadataFilters) -> Sequence[MetadataFilter | MetadataFilters]:
    """Filters that all hold; not every store takes filters in filters."""
    is_all = filters.condition in (None, FilterCondition.AND)
    is_one = filters.condition == FilterCondition.OR and len(filters.filters) == 1
    return filters.filters if is_all or is_one or not filters.filters else [filters]


def _differs(metadata: Mapping[str, Any], part: MetadataFilter | MetadataFilters) -> bool:
    """Whether a node surely doesn't fit; of lists, say, every store has its own idea."""
    if isinstance(part, MetadataFilters):
        parts = [_differs(metadata, each) for each in part.filters]
        if part.condition == FilterCondition.OR:
            return bool(parts) and all(parts)
        return part.condition in (None, FilterCondition.AND) and any(parts)
    value, kind = metadata.get(part.key), part.operator
    wanted = part.value if isinstance(part.value, list) else [part.value]
    if not isinstance(value, (str, int, float)):
        return False
    if kind in (FilterOperator.EQ, FilterOperator.IN):
        return value not in wanted and str(value) not in map(str, wanted)
    if kind in (FilterOperator.NE, FilterOperator.NIN):
        return value in wanted
    is_text = any(isinstance(each, (str, type(None))) for each in (value, *wanted))
    are_numbers = len(wanted) == 1 and not is_text
    return kind in _NUMBERS and are_numbers and not _NUMBERS[kind](value, wanted[0])


def _name(component: Any) -> str:
    for part in ("program", "engine", "workflow"):
        component = getattr(component, part, component)
    return "a function" if hasattr(component, "function") else type(component).__name__
