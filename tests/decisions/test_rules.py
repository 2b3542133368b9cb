"""Rules: how they are read and written, and what is refused."""

from __future__ import annotations

import pytest

from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.runtime.errors import InvalidInput


class TestRule:
    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("ndcg@10 >= baseline - 0.02", Rule("ndcg@10", ">=", -0.02, True, 0.95)),
            ("ndcg@10>=baseline-.02 at 99 %", Rule("ndcg@10", ">=", -0.02, True, 0.99)),
            ("mrr >= baseline + 1e-3 at 99.9%", Rule("mrr", ">=", 0.001, True, 0.999)),
            ("recall@5 >= 0.8", Rule("recall@5", ">=", 0.8)),
            ("recall@5 >= 0.8 at 90%", Rule("recall@5", ">=", 0.8, confidence=0.9)),
            ("failed <= 0", Rule("failed", "<=", 0.0)),
            ("mrr >= baseline - 0.05 as observed", Rule("mrr", ">=", -0.05, baseline=True)),
            ("mrr >= 0.5 as observed", Rule("mrr", ">=", 0.5)),
            ("embedding_similarity >= -0.1", Rule("embedding_similarity", ">=", -0.1)),
            ("recall(min_grade=2)@5 >= 0.5", Rule("recall(min_grade=2)@5", ">=", 0.5)),
        ],
    )
    def test_is_read_and_written(self, text: str, rule: Rule) -> None:
        assert Rule.parse(text) == rule
        assert Rule.parse(str(rule)) == rule

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "ndcg@10",
            "ndcg@10 = 0.5",
            "ndcg@10 >= baseline - 2%",
            "ndcg@10 >= 80%",
            "ndcg@10 >= baseline 0.02",
            "ndcg@10 >= nan",
            "ndcg@10 >= 0.5 at 95",
            "ndcg@10 >= baseline - 0.02 at 95% as observed",
            "ndcg@10 >= baselines",
            "ndcg@10 > 0.5",
            "0.02 more than the baseline",
            ">= 0.5",
        ],
    )
    def test_what_is_no_rule_is_refused_with_examples(self, text: str) -> None:
        with pytest.raises(InvalidInput, match=r"For example 'ndcg@10 >= baseline - 0\.02'"):
            Rule.parse(text)

    @pytest.mark.parametrize("percent", ["50", "100", "5", "0.95"])
    def test_a_confidence_that_decides_nothing_is_refused(self, percent: str) -> None:
        with pytest.raises(InvalidInput, match="between 50% and 100%"):
            Rule.parse(f"mrr >= 0.5 at {percent}%")
