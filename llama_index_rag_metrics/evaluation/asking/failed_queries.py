"""What is recorded of a query that failed, and when to stop asking.

Whatever a retriever raises becomes a ranking that holds the error: the query scores 0, is counted,
and is asked again by the next run on the same journal. A run that is hopeless costs time and money
query by query, so it is given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.retries import refuses_key

NOT_ASKED = "not asked: "
"""How the error of a query begins that came after a run was given up."""

RETRIEVER = "the retriever"
"""The key of the retriever's failures; metrics have their names."""


def failed_ranking(
    error: BaseException, seconds: float, calls: Sequence[Call] | None = None
) -> Ranking:
    """The record of a query whose retrieval raised an error; keys in its text are masked."""
    return Ranking(latency=seconds, error=describe_error(error), calls=calls)


class FailedQueries:
    """Counts failures, of the retriever and of each metric, and says when to stop asking.

    A service that refuses the key refuses it on every query. One that forbids a query may allow
    others, so that counts only as long as none was answered.
    """

    def __init__(self, max_failures: float | None, total: int) -> None:
        self._max_failures = max_failures
        self._total = total
        self._most = max_failures
        if isinstance(max_failures, float):
            self._most = max_failures * total
        self._failures: Counter[str] = Counter()
        self._answered: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._unasked: Counter[str] = Counter()

    def succeeded(self, who: str) -> None:
        self._answered.add(who)

    def record(self, who: str, error: str, status: int | None = None) -> None:
        """Count a failed query of a metric or the `RETRIEVER`; `status` is of an HTTP answer."""
        self._failures[who] += 1
        if refuses_key(status, has_answered=who in self._answered):
            reason = f"the service refuses the key: {error}"
        elif self._most is not None and self._failures[who] > self._most:
            n = self._failures[who]
            reason = f"{n} failed (max_failures={self._max_failures:g}), the last with {error}"
        else:
            return
        self._reasons.setdefault(who, reason)

    def unasked(self, who: str) -> str | None:
        """The error of a query that isn't asked any more; None where it is to be asked."""
        reason = self._reasons.get(who)
        if reason is None:
            return None
        self._unasked[who] += 1
        return f"{NOT_ASKED}{reason}"

    @property
    def notes(self) -> Iterator[str]:
        """Components that we stopped asking, with the reason."""
        for who, reason in self._reasons.items():
            if n := self._unasked[who]:
                queries = f"{n} of {self._total} queries"
                counted = ", which count as failed" if who == RETRIEVER else ""
                yield f"{who} wasn't asked for {queries}{counted}, since {reason}"


def check_limits(timeout: object, max_failures: object) -> None:
    """Refuse unusable values of the arguments of these names."""
    if timeout is not None:
        check_amount("timeout", timeout, "seconds above 0, or None", lambda value: value > 0)
    if max_failures is None:
        return
    is_count = type(max_failures) is int and max_failures >= 0
    if not is_count and not (isinstance(max_failures, float) and 0 < max_failures < 1):
        expected = "a number of queries from 0 on, or a share of them between 0 and 1"
        raise InvalidInput("max_failures", max_failures, expected)
