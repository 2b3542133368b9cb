"""What services and models were asked for, and what the cache had already."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Usage:
    """What a metric of texts, or a matcher, asked a service or a model for during a run.

    Attributes:
        model: the model, or "".
        requests: how many requests were sent.
        fresh: how many texts were asked about.
        cached: how many texts had been asked about before, and weren't again.
        units: what the service bills for the requests.
        tokens_in: the tokens that an LLM read, as far as it says.
        tokens_out: the tokens that it wrote.

    Examples:
        >>> print(Usage("some model", requests=1, fresh=10) + Usage(requests=2, fresh=5, units=2.0))
        3 requests to some model, 15 texts fresh, 0 cached, 2 units billed
    """

    model: str = ""
    requests: int = 0
    fresh: int = 0
    cached: int = 0
    units: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.model or other.model,
            self.requests + other.requests,
            self.fresh + other.fresh,
            self.cached + other.cached,
            self.units + other.units,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
        )

    def __str__(self) -> str:
        to = f" to {self.model}" if self.model else ""
        billed = f", {self.units:,g} units billed" if self.units else ""
        texts = f"{self.fresh:,} texts fresh, {self.cached:,} cached"
        return f"{self.requests:,} requests{to}, {texts}{billed}{self.tokens}"

    @property
    def tokens(self) -> str:
        """The tokens in words, to go on a sentence with; "" where the LLM doesn't say."""
        if not (self.tokens_in or self.tokens_out):
            return ""
        return f", {self.tokens_in:,} tokens read and {self.tokens_out:,} written"


@dataclass
class Tally:
    """Counts up a usage while requests are under way, so that nothing is lost when one fails.

    It is counted up in the event loop alone, since nothing here waits for a turn.
    """

    usage: Usage = field(default_factory=Usage)
