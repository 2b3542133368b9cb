"""Matching: how a retrieved node is recognised as an expected item."""
