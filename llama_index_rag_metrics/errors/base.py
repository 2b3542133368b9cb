"""The class that every error of this package shares."""

from __future__ import annotations


class RagMetricsError(Exception):
    """Base class of every error that this package raises on purpose."""
