"""The gate: from numbers to a verdict on a change, against a stored baseline."""

from llama_index_rag_metrics.decisions.gate.baseline import Baseline, Update
from llama_index_rag_metrics.decisions.gate.checking_rules import assert_retrieval, check_rules
from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.decisions.gate.updating import update_baseline
from llama_index_rag_metrics.decisions.gate.verdicts import GateReport, Verdict, WorstQuery

__all__ = [
    "Baseline",
    "GateReport",
    "Rule",
    "Update",
    "Verdict",
    "WorstQuery",
    "assert_retrieval",
    "check_rules",
    "update_baseline",
]
