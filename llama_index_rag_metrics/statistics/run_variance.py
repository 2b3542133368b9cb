"""Questions that were asked several times: where the spread of their scores comes from."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from llama_index_rag_metrics.statistics.intervals import units_of

_ROUNDING = 1e-12  # by so much of it, a quotient may be above the whole number that it should be


class Components(NamedTuple):
    """Variances of scores: within a question's runs, and between the questions' true means.

    Of n times the variance of the mean, `apart` is what more runs leave, `due_to_runs` the rest.
    """

    within: float
    between: float
    apart: float
    due_to_runs: float
    n: int

    @classmethod
    def of(
        cls, runs: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None = None
    ) -> Components:
        """From each question's runs; what nothing is known of is NaN.

        The variance of the means of r runs is that between questions plus that within divided by r.
        """
        n, own = len(runs), [float(np.var(each, ddof=1)) for each in runs if len(each) > 1]
        within = math.fsum(own) / len(own) if own else math.nan
        if n < 2 or not own:
            return cls(within, math.nan, math.nan, math.nan, n)
        means = np.array([math.fsum(each) / len(each) for each in runs])
        due_to_runs = within * math.fsum(1 / len(each) for each in runs) / n
        between = apart = max(0.0, float(np.var(means, ddof=1)) - due_to_runs)
        if clusters is not None:
            units = units_of(means.reshape(-1, 1), clusters)
            of_mean = n * float(units.standard_errors[0]) ** 2 if len(units) > 1 else math.nan
            apart = max(of_mean - due_to_runs, 0.0)
        return cls(within, between, apart, due_to_runs, n)

    def questions(self, repeats: int) -> int | None:
        """How many questions, asked `repeats` times each, have a mean as precise, if that is known.

        Its variance is (apart + within / repeats) / questions: two-stage sampling (Cochran 1977;
        Miller 2024, Adding Error Bars to Evals).
        """
        now = self.apart + self.due_to_runs
        if not now > 0:
            return None
        return math.ceil(self.n * (self.apart + self.within / repeats) / now * (1 - _ROUNDING))
