"""What a metric asked of a service or a model."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Usage:
    """What a metric of texts asked a service or a model for during a run.

    `fresh` texts were asked about, `cached` ones had been before. The service bills `units`; an LLM
    read and wrote tokens, as far as it says.

    Examples:
        >>> usage = Usage("some LLM", requests=2, fresh=2) + Usage(cached=1, tokens_in=90)
        >>> usage.model, usage.fresh, usage.cached, usage.tokens_in
        ('some LLM', 2, 1, 90)
    """

    model: str = ""
    requests: int = 0
    fresh: int = 0
    cached: int = 0
    units: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Usage) -> Usage:
        counts = [field.name for field in fields(self)[1:]]
        sums = {name: getattr(self, name) + getattr(other, name) for name in counts}
        return Usage(self.model or other.model, **sums)
