"""Where things are, whatever folder a test stands in."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared"
"""Collections and tools beside the project; not everywhere."""
