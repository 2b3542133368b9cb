"""Matching: how a retrieved node is recognised as an expected item."""

from llama_index_rag_metrics.matching.ids import LabelCheck, MatchOn, describe, item_id

__all__ = ["LabelCheck", "MatchOn", "describe", "item_id"]
