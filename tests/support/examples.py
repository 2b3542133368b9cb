"""How many examples a property is tried on."""

from hypothesis import settings

THOROUGH = 100
"""The default of `--hypothesis-profile thorough`; without it a run takes a part of that."""


def examples(n: int) -> settings:
    """`n` examples in a thorough run, in any other as large a part of them as of the default."""
    return settings(max_examples=max(1, n * settings().max_examples // THOROUGH))
