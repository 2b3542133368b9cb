"""What holds for all tests: a busy machine fails none of them, and none needs the network."""

import os
from importlib.util import find_spec
from pathlib import Path

from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# core 0.13 ships NLTK's data and yet downloads it, unless told where it lies
core = find_spec("llama_index.core")
if core and core.origin:
    os.environ.setdefault("NLTK_DATA", str(Path(core.origin).parent / "_static" / "nltk_cache"))
