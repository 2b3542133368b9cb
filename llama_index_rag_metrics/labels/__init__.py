"""Labels, checked and moved to new nodes; what to judge next, by people or an LLM; nuggets."""

from typing import Literal, TypeAlias

Strategy: TypeAlias = Literal["decisive", "depth"]
"""By what `pool` chooses: the comparisons that a label may turn, or ranks."""
