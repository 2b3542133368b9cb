"""Rule: what a change must satisfy, as one line that people and programs can read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.resampling import NOISE

_CONFIDENCE = 0.95  # of a rule against the baseline that names none

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?"
_RULE = re.compile(
    rf"""(?P<metric>(?:[^()<>=]|\([^()]*\))+?)\s*(?P<sign>>=|<=)\s*
    (?:(?P<baseline>baseline)(?:\s*(?P<direction>[-+])\s*(?P<offset>{_NUMBER}))?
      |(?P<threshold>-?{_NUMBER}))
    (?:\s+(?:at\s+(?P<percent>{_NUMBER})\s*%|(?P<observed>as\s+observed)))?""",
    re.VERBOSE,
)
EXAMPLES = (
    "For example 'ndcg@10 >= baseline - 0.02', 'ndcg@10 >= baseline - 0.05 as observed', "
    "'recall@5 >= 0.8' or 'recall@5 >= 0.8 at 95%'; limits are in the metric's own unit."
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a metric must satisfy.

        ndcg@10 >= baseline - 0.02                no more than 0.02 worse, at 95 %
        ndcg@10 >= baseline - 0.05 as observed    the loss seen is no more, proof or not
        recall@5 >= 0.8                           the mean is at least 0.8
        failed <= 0                               a count: queries, scored, failed, empty, …

    `<=` is for metrics of which less is better. `value` is the limit, or with `baseline` what is
    added to the baseline's mean. `confidence`, between 0.5 and 1, is that of the bounds that
    decide; None decides by what was observed, as for every count.
    """

    metric: str
    sign: str
    value: float = 0.0
    baseline: bool = False
    confidence: float | None = None

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read a rule as `str` writes it."""
        # in a run of spaces, the pattern would try every one as the end of the metric's name
        match = isinstance(text, str) and _RULE.fullmatch(" ".join(text.split()))
        if not match:
            raise InvalidInput("rule", text, "a metric, >= or <=, and a limit", EXAMPLES)
        limit = float((match["direction"] or "") + (match["offset"] or match["threshold"] or "0"))
        is_relative, confidence = match["baseline"] is not None, None
        if match["percent"] is not None:
            confidence = round(float(match["percent"]) / 100, 12)
            if not 0.5 < confidence < 1:
                raise InvalidInput("rule", text, "a confidence between 50% and 100%", EXAMPLES)
        elif is_relative and match["observed"] is None:
            confidence = _CONFIDENCE
        return cls(match["metric"], match["sign"], limit, is_relative, confidence)

    @property
    def lower_is_better(self) -> bool:
        return self.sign == "<="

    @property
    def tolerance(self) -> float:
        """The loss that is tolerated; below 0, the gain that is wanted."""
        return -self.improvement(self.value)

    def improvement(self, amount: float) -> float:
        """A score or a difference, negated where less is better."""
        return -amount if self.lower_is_better else amount

    def is_kept_by(self, amount: float) -> bool:
        """Whether a score, or a difference from the baseline, keeps to the limit."""
        return self.improvement(amount - self.value) >= -NOISE

    def failing_confidence(self, together: int) -> float:
        """The confidence at which one of this many rules fails."""
        return 1 - (1 - (self.confidence or 0.0)) / together

    @property
    def limit(self) -> str:
        """The limit as the rule writes it, such as "0.8" or "baseline - 0.02"."""
        if not self.baseline:
            return f"{self.value:.12g}"
        offset = f"{self.value + 0.0:+.12g}"
        return f"baseline {offset[0]} {offset[1:]}".removesuffix(" + 0")

    def __str__(self) -> str:
        rule = f"{self.metric} {self.sign} {self.limit}"
        if self.confidence is not None:
            return f"{rule} at {self.confidence * 100:.10g}%"
        if self.baseline:
            return f"{rule} as observed"
        return rule


def parse_rules(rules: str | Iterable[str]) -> list[Rule]:
    lines = [rules] if isinstance(rules, str) else list(rules)
    if not lines:
        raise InvalidInput("rules", lines, "at least one rule, or a baseline", EXAMPLES)
    return list(dict.fromkeys(map(Rule.parse, lines)))
