"""The gate: from numbers to a verdict on a change, against a stored baseline."""

from llama_index_rag_metrics.decisions.gate.baseline import Baseline
from llama_index_rag_metrics.decisions.gate.checking_rules import (
    assert_retrieval,
    check_rules,
    update_baseline,
)
from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.decisions.gate.verdicts import GateReport

__all__ = ["Baseline", "GateReport", "Rule", "assert_retrieval", "check_rules", "update_baseline"]
