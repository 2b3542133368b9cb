"""pass@k and pass^k: of several runs of a question, whether one of k succeeds, or all do."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_PASSES = re.compile(
    r"\s*pass\s*(?P<sign>[@^])\s*(?P<k>[1-9]\d*)\s+(?P<metric>\S.*)", re.IGNORECASE
)

_MEANT = re.compile(
    r"\s*pass\s*(?:(?P<sign>[@^])|[-_ ]*(?=\d))\s*(?P<k>\d*)\s*(?P<metric>.*)", re.IGNORECASE
)
_USUAL_K = 3


class Passes(NamedTuple):
    """Of k runs of a question, whether all have to succeed, or one."""

    k: int
    all_of_them: bool

    @classmethod
    def split(cls, name: str) -> tuple[Passes | None, str]:
        """What a metric's name begins with, if it is of several runs, and the name of one run's."""
        match = _PASSES.fullmatch(str(name))
        if match is None:
            return None, name
        return cls(int(match["k"]), match["sign"] == "^"), match["metric"]

    @classmethod
    def meant(cls, name: str) -> tuple[Passes, str] | None:
        """What a name that `split` can't read may mean; None where it has nothing of the kind.

        >>> Passes.meant("pass-2 mrr"), Passes.meant("pass@0")
        ((Passes(k=2, all_of_them=True), 'mrr'), (Passes(k=3, all_of_them=False), ''))
        """
        match = _MEANT.fullmatch(str(name))
        if match is None:
            return None
        k = int(match["k"][:2] or 0) or _USUAL_K
        return cls(k, match["sign"] != "@"), match["metric"]

    def chance(self, successes: int, runs: int) -> float:
        """The share of all choices of k of the runs that pass; NaN of fewer runs.

        pass@k is that of Chen et al. 2021, Evaluating Large Language Models Trained on Code,
        equation 1; pass^k that of τ-bench, Yao et al. 2024.
        """
        choices = math.comb(runs, self.k)
        failing = choices - math.comb(successes, self.k)
        if not self.all_of_them:
            failing = math.comb(runs - successes, self.k)
        return (choices - failing) / choices if choices else math.nan

    def __str__(self) -> str:
        return f"pass{'^' if self.all_of_them else '@'}{self.k}"
