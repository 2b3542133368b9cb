"""What metrics share: parameters, name, range. A metric is a subclass with a name and a formula."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, TypeAlias

import numpy as np
from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from typing_extensions import Self

from llama_index_rag_metrics.rankings.judging.beside import TOKENS
from llama_index_rag_metrics.rankings.judging.judged import Cutoff, JudgedRankings, TokenBudget
from llama_index_rag_metrics.rankings.judging.lists import judge_one
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.span import SpanLike
from llama_index_rag_metrics.runtime.containers import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.runtime.masking import shorten

__all__ = ["BinaryMetric", "GainMetric", "GroupMetric", "RankingMetric"]

# names that stand for certain parameters, such as {"granular_mrr": {"use_granular_mrr": True}}
Variants: TypeAlias = Mapping[str, Mapping[str, object]]


class MetricName:
    """The name of a metric with its parameters, `name[(param=value, ...)][@k]`; bare of a class."""

    def __get__(self, metric: NamedMetric | None, owner: type[NamedMetric]) -> str:
        if metric is None:
            return owner.name
        name = metric.own_name
        if metric._alias is None:
            return name
        alias, target = metric._alias
        bare = re.split(r"[(@]", name)[0]
        return alias + name.removeprefix(bare) if bare == target else name


class NamedMetric(BaseRetrievalMetric):
    """A metric whose parameters are part of its name. It can't be changed once it is made."""

    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(MetricName,))

    name: ClassVar[str]
    variants: ClassVar[Variants] = {}
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)  # the lowest and the highest score
    needs_relevance: ClassVar[bool] = True  # whether a query without relevance has no score
    of_unanswerable: ClassVar[bool] = False  # whether only queries with nothing relevant have one
    lower_is_better: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()  # "spans", whatever its parameters are
    metric_name = MetricName()
    _alias: tuple[str, str] | None = PrivateAttr(None)

    def __init__(self, **parameters: Any) -> None:
        try:
            super().__init__(**parameters)
        except ValidationError as error:
            raise _explain(type(self), error, parameters) from None

    @property
    def needs(self) -> frozenset[str]:
        """What of the rankings it reads beside their ids: "tokens", "spans"."""
        return self.reads

    @property
    def cutoff(self) -> Cutoff | None:
        """The last rank that counts, or the tokens that do; None for the whole ranking."""
        return None

    @property
    def own_name(self) -> str:
        """The name with its parameters, whatever alias the metric was asked for by."""
        changed: dict[str, object] = {}
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            if not field.exclude and (field.is_required() or value != field.get_default()):
                changed[key] = value
        name = self.name
        for variant, preset in self.variants.items():
            if all(getattr(self, key) == value for key, value in preset.items()):
                name = variant
                changed = {key: value for key, value in changed.items() if key not in preset}
                break
        k, tokens = changed.pop("k", None), changed.pop("tokens", None)
        if changed:
            parameters = [f"{key}={_format_value(value)}" for key, value in changed.items()]
            name = f"{name}({', '.join(parameters)})"
        if tokens:
            return f"{name}@{tokens}tokens"
        return f"{name}@{k}" if k else name

    def shown_as(self, alias: str, name: str) -> Self:
        """The same metric, which is called by an alias of its name."""
        self._alias = (alias, name)
        return self

    def __str__(self) -> str:
        return self.metric_name


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value)


class RankingMetric(NamedMetric):
    """A metric of the ranks at which relevant passages were retrieved.

    >>> from llama_index_rag_metrics import NDCG
    >>> NDCG(k=10).metric_name, NDCG.bounds
    ('ndcg@10', (0.0, 1.0))
    """

    recognises: ClassVar[bool] = True  # whether it matters which passages are the expected ones
    in_groups: ClassVar[bool] = False  # whether any passage of a group meets the group's need

    def score_queries(self, judged: JudgedRankings) -> FloatArray:
        """(queries,) the scores, within `bounds`, never NaN; 0 where nothing is relevant."""
        low, high = self.bounds
        return np.minimum(np.maximum(self.score(self._view(judged)), low), high)

    def _view(self, judged: JudgedRankings) -> Any:
        return judged.at(self.cutoff)

    @abstractmethod
    def score(self, view: Any) -> FloatArray:
        """(queries,) the formula."""

    def metadata(self, judged: JudgedRankings) -> dict[str, Any]:
        """What the result of one query says beside the score: nothing, of most metrics."""
        return {}

    def compute(
        self,
        query: str | None = None,
        expected_ids: RelevanceLike | None = None,
        retrieved_ids: Sequence[str] | None = None,
        expected_texts: list[str] | None = None,
        retrieved_texts: list[str] | None = None,
        *,
        retrieved_tokens: Sequence[int] | None = None,
        retrieved_spans: Sequence[SpanLike | None] | None = None,
        **kwargs: Any,
    ) -> RetrievalMetricResult:
        """Score one query, as LlamaIndex's evaluators do.

        Args:
            query: not used.
            expected_ids: the relevant ids, {id: grade}, groups of ids, or a `Relevance`.
            retrieved_ids: the ranking, best first; repeated ids count at their first rank.
            expected_texts: not used: `match_run` and `evaluate` recognise passages by their texts.
            retrieved_texts: with a cutoff by tokens, what they are counted of unless given.
            retrieved_tokens: the length in tokens of each retrieved item.
            retrieved_spans: for span metrics, where each retrieved item is in its document.

        Raises:
            InvalidInput: an argument is None, nothing is relevant (or something, where the metric
                is of questions without an answer), or ids of the two sides have different types.
        """
        if kwargs:
            raise unknown_argument(kwargs, type(self))
        if expected_ids is None and self.needs_relevance:
            remedy = "Pass the relevant ids, a {id: grade} mapping or a Relevance."
            raise InvalidInput("expected_ids", None, "the labels of the question", remedy)
        columns = {"tokens": retrieved_tokens, "texts": retrieved_texts, "spans": retrieved_spans}
        judged = judge_one(expected_ids, retrieved_ids, self.needs, columns)
        is_answerable = bool(judged.n_gaining[0])
        if self.of_unanswerable or not is_answerable:
            self._check_labels(expected_ids, expected_texts, is_answerable=is_answerable)
        low, high = self.bounds
        score = min(max(float(self.score(self._view(judged))[0]), low), high)
        metadata = self.metadata(judged)
        lowest = 0.0 if score else getattr(self, "min_grade", 0.0)
        if lowest and not judged.count_judgements(lowest)[0]:
            metadata["note"] = f"no grade reaches min_grade={lowest:g}, so the question scores 0"
        return RetrievalMetricResult(score=score, metadata=metadata)

    def _check_labels(self, labels: object, texts: object, *, is_answerable: bool) -> None:
        if self.of_unanswerable and is_answerable:
            expected = "nothing relevant: this metric is of questions without an answer"
            raise InvalidInput("expected_ids", labels, expected)
        if self.needs_relevance and not self.of_unanswerable:
            remedy = "A dataset's means leave such questions out and count them."
            if texts:
                remedy = "Texts alone are matched by this package's evaluate(…, matcher='text')."
            raise InvalidInput("expected_ids", labels, "a grade above 0", remedy)


class CutMetric(NamedMetric):
    """A metric that takes a cutoff: by rank, or by tokens."""

    # ranks and tokens are counted in 64 bits
    k: int | None = Field(
        None, gt=0, le=2**62, strict=True, description="cutoff; None: the whole ranking"
    )
    tokens: int | None = Field(
        None, gt=0, le=2**62, strict=True, description="cutoff by tokens: what fits into this many"
    )

    @model_validator(mode="after")
    def _one_cutoff(self) -> Self:
        if self.k is not None and self.tokens is not None:
            sentence = f"tokens can't be given with k={self.k}."
            raise InvalidInput("tokens", self.tokens, sentence=sentence, remedy="Drop one.")
        return self

    @property
    def needs(self) -> frozenset[str]:
        return self.reads if self.tokens is None else self.reads | {TOKENS}

    @property
    def cutoff(self) -> Cutoff | None:
        return self.k if self.tokens is None else TokenBudget(self.tokens)


class ThresholdMetric(RankingMetric):
    """A metric of what is relevant from a grade on."""

    min_grade: float = Field(1.0, gt=0, allow_inf_nan=False, description="relevant from this grade")

    def _view(self, judged: JudgedRankings) -> Any:
        return judged.at(self.cutoff, self.min_grade)


class BinaryMetric(CutMetric, ThresholdMetric):
    """A metric of binary relevance: a passage is relevant if its grade is at least `min_grade`.

    >>> from llama_index_rag_metrics import Recall
    >>> Recall(min_grade=2).compute("", {"a": 3, "b": 1}, ["b"]).score  # a alone is relevant
    0.0
    """


class GainMetric(CutMetric, RankingMetric):
    """A metric of graded relevance: every passage with a grade above 0 counts, by its grade.

    >>> from llama_index_rag_metrics import DCG
    >>> score = DCG().compute("", {"a": 3, "b": 1}, ["a", "b"]).score
    >>> round(score, 6)  # 3/log2 2 + 1/log2 3
    3.63093
    """


class GroupMetric(ThresholdMetric, CutMetric):
    """A metric of groups of alternatives: a group is found by any of its members.

    Relevance without groups counts as one group for each item.

    >>> from llama_index_rag_metrics import GroupRecall, Relevance
    >>> GroupRecall().compute("", Relevance(groups=[["a1", "a2"], ["b"]]), ["a2", "c"]).score
    0.5
    """

    in_groups: ClassVar[bool] = True

    def _view(self, judged: JudgedRankings) -> Any:
        return judged.groups_at(self.cutoff, self.min_grade)


def unknown_argument(kwargs: Mapping[str, object], metric_class: type) -> InvalidInput:
    argument, value = next(iter(kwargs.items()))
    remedy = f"Parameters belong to the metric, as in {metric_class.__name__}(k=5)."
    sentence = f"compute() has no argument {argument!r}."
    return InvalidInput(argument, value, sentence=sentence, remedy=remedy)


def unknown_parameter(name: str, parameter: str, known: Iterable[str]) -> UnknownMetric:
    parameters = list(known)
    near = get_close_matches(parameter, parameters, 3, 0.5) or parameters
    return UnknownMetric(f"{name}({parameter})", near, kind="metric parameter")


def _explain(
    metric_class: type[NamedMetric], error: ValidationError, parameters: Mapping[str, object]
) -> Exception:
    problem, name = error.errors()[0], metric_class.name
    raised = problem.get("ctx", {}).get("error")
    if isinstance(raised, InvalidInput):
        return raised
    expected = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    if not problem["loc"]:
        return InvalidInput(f"parameters of {name}", dict(parameters), expected)
    field = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        return unknown_parameter(name, field, metric_class.model_fields)
    sentence = f"{name}: {field} must be {expected}, got {shorten(parameters.get(field))}."
    if problem["type"] == "missing":
        # what is excluded from dumps is a service or a model, which no name can express
        caller = metric_class.__name__ if metric_class.model_fields[field].exclude else name
        sentence = f"{name} needs {field}. Write {caller}({field}=...)."
    return InvalidInput(f"{name}({field})", parameters.get(field), sentence=sentence)
