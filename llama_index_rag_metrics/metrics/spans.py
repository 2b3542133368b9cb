"""Metrics of spans: how much of what was needed is in the context, whatever the chunking."""

from __future__ import annotations

from typing import ClassVar

from llama_index_rag_metrics.rankings.judging.judged import Coverage, JudgedRankings
from llama_index_rag_metrics.runtime.containers import FloatArray, ratio
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .base import CutMetric, ThresholdMetric

__all__ = ["SpanF1", "SpanIoU", "SpanPrecision", "SpanRecall"]


class SpanMetric(ThresholdMetric, CutMetric):
    """A metric of the characters that were wanted and that were retrieved."""

    recognises: ClassVar[bool] = False
    reads = frozenset({"spans"})

    def _view(self, judged: JudgedRankings) -> Coverage:
        coverage = judged.coverage(self.cutoff, self.min_grade)
        if coverage is None:
            expected = "the places of what was expected and retrieved"
            remedy = "Give Relevance(spans=...), and rankings with spans."
            raise InvalidInput(self.metric_name, None, expected, remedy)
        return coverage


class SpanRecall(SpanMetric):
    """The share of the labelled characters that was retrieved: |E∩T| / |E|.

    >>> wanted = {"grades": ["p"], "spans": {"p": ["moons", 0, 100]}}
    >>> SpanRecall().compute("", wanted, ["n"], retrieved_spans=[("moons", 50, 200)]).score
    0.5
    """

    name = "span_recall"

    def score(self, spans: Coverage) -> FloatArray:
        return ratio(spans.both, spans.expected)


class SpanPrecision(SpanMetric):
    """The share of the retrieved characters that is labelled: |E∩T| / |T|.

    >>> wanted = {"grades": ["p"], "spans": {"p": ["moons", 0, 100]}}
    >>> SpanPrecision().compute("", wanted, ["n"], retrieved_spans=[("moons", 50, 250)]).score
    0.25
    """

    name = "span_precision"

    def score(self, spans: Coverage) -> FloatArray:
        return ratio(spans.both, spans.retrieved)


class SpanF1(SpanMetric):
    """The harmonic mean of span precision and span recall: 2|E∩T| / (|E| + |T|).

    >>> wanted = {"grades": ["p"], "spans": {"p": ["moons", 0, 100]}}
    >>> SpanF1().compute("", wanted, ["n"], retrieved_spans=[("moons", 50, 150)]).score
    0.5
    """

    name = "span_f1"

    def score(self, spans: Coverage) -> FloatArray:
        return ratio(2 * spans.both, spans.expected + spans.retrieved)


class SpanIoU(SpanMetric):
    """What is both labelled and retrieved, over what is either: |E∩T| / |E∪T|.

    >>> wanted = {"grades": ["p"], "spans": {"p": ["moons", 0, 100]}}
    >>> SpanIoU().compute("", wanted, ["n"], retrieved_spans=[("moons", 50, 200)]).score
    0.25
    """

    name = "span_iou"

    def score(self, spans: Coverage) -> FloatArray:
        return ratio(spans.both, spans.either)
