"""Bounds that decide a rule, with derivations."""

from __future__ import annotations

import numpy as np
import pytest
from support.intervals import pseudo_bounds

from llama_index_rag_metrics.decisions.gate.measuring import MeanEvidence, PairedEvidence


class TestBounds:
    def test_passing_takes_pseudo_queries_and_failing_t(self) -> None:
        # 10 of 50 queries lose 0.5: mean -0.1, sd √((10 × 0.4² + 40 × 0.1²) / 49) = 0.202031,
        # standard error 0.0285714, t(0.95; 49) = 1.676551: upper -0.1 + 0.0479015
        values = np.array([-0.5] * 10 + [0.0] * 40)
        evidence = PairedEvidence(values, widest=1.0)
        assert evidence.bounds(0.95)[1] == pytest.approx(-0.1 + 1.676551 * 0.0285714, abs=1e-6)
        # M² = (10 × 0.25 + 2 × 1) / 12 = 0.375; 52 queries: mean -5 / 52 = -0.0961538, variance
        # (2.5 + 2 × 0.375) / 52 - 0.0961538² = 0.0532544, error √(0.0532544 / 51) = 0.0323141,
        # t(0.95; 51) = 1.675285
        lowest, _ = evidence.bounds(0.95)
        assert lowest == pytest.approx(-0.0961538 - 1.675285 * 0.0323141, abs=1e-6)

    def test_tiny_changes_hide_no_large_loss(self) -> None:
        # 50 changed, but as much as k = (1 + 49 × 0.001)² / (1 + 49 × 0.000001) = 1.1003 equal
        # changes: M² = (1.000049 + 2 × 1) / 3.1003 = 0.967652; 52 queries: mean -0.951 / 52 =
        # -0.0182885, variance (1.000049 + 2 × 0.967652) / 52 - 0.0182885² = 0.0561148, error
        # √(0.0561148 / 51) = 0.0331706, t(0.95; 51) = 1.675285
        values = np.array([-1.0] + [0.001] * 49)
        evidence = PairedEvidence(values, widest=1.0)
        lowest, _ = evidence.bounds(0.95)
        assert lowest == pytest.approx(-0.0182885 - 1.675285 * 0.0331706, abs=1e-6)

    def test_a_constant_column_is_no_certainty(self) -> None:
        values = np.full(50, -0.1)
        evidence = PairedEvidence(values, widest=1.0)
        ends = evidence.bounds(0.95)
        assert ends == pytest.approx(pseudo_bounds(values, counted=2))
        assert ends[0] < -0.1 < ends[1]  # type: ignore[operator]

    def test_a_single_query_has_no_bounds(self) -> None:
        for evidence in (
            PairedEvidence(np.array([0.2]), widest=1.0),
            MeanEvidence(np.array([0.2])),
        ):
            assert evidence.bounds(0.95) == (None, None)

    def test_no_bound_lies_beyond_what_can_be(self) -> None:
        evidence = PairedEvidence(np.array([-0.5, 0.5] * 3), possible=(-0.1, 0.2))
        assert evidence.bounds(0.95) == (-0.1, 0.2)

    def test_clusters_give_a_robust_t(self) -> None:
        values = np.array([-0.4, -0.4, -0.4, -0.1, -0.1, -0.1])
        evidence = PairedEvidence(values, np.array([0, 0, 0, 1, 1, 1]), widest=1.0)
        # two clusters of means -0.4 and -0.1: error 0.15, one degree of freedom, t = 6.313752
        assert evidence.bounds(0.95)[1] == pytest.approx(-0.25 + 6.313752 * 0.15, abs=1e-6)
        lowest = evidence.bounds(0.95)[0]
        assert lowest is not None
        assert lowest < -0.4
