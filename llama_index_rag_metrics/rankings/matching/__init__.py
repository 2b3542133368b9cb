"""Matching: how a retrieved node is recognised as an expected item."""

from llama_index_rag_metrics.rankings.matching.id_matcher import (
    GroupMatcher,
    LabelCheck,
    MatchOn,
    describe,
    expected_groups,
    item_id,
    item_ids,
    names_of,
)
from llama_index_rag_metrics.rankings.matching.matcher import (
    Expected,
    Matcher,
    TextMatcher,
    carry_costs,
    flatten,
    stand_ins,
)
from llama_index_rag_metrics.rankings.matching.matcher_names import (
    BY_ID,
    Matched,
    MatcherLike,
    as_matcher,
    named_matcher,
    recognise,
    register_matcher,
    unregister_matcher,
)
from llama_index_rag_metrics.rankings.matching.span_matcher import SpanMatcher, node_span
from llama_index_rag_metrics.rankings.matching.text_matchers import (
    ContainmentMatcher,
    EditMatcher,
    EmbeddingMatcher,
    ExactMatcher,
    TokenOverlapMatcher,
)

__all__ = [
    "BY_ID",
    "ContainmentMatcher",
    "EditMatcher",
    "EmbeddingMatcher",
    "ExactMatcher",
    "Expected",
    "GroupMatcher",
    "LabelCheck",
    "MatchOn",
    "Matched",
    "Matcher",
    "MatcherLike",
    "SpanMatcher",
    "TextMatcher",
    "TokenOverlapMatcher",
    "as_matcher",
    "carry_costs",
    "describe",
    "expected_groups",
    "flatten",
    "item_id",
    "item_ids",
    "named_matcher",
    "names_of",
    "node_span",
    "recognise",
    "register_matcher",
    "stand_ins",
    "unregister_matcher",
]
