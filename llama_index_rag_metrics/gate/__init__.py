"""The gate: from numbers to a verdict on a change, against a stored baseline."""

from llama_index_rag_metrics.gate.asserting import assert_retrieval
from llama_index_rag_metrics.gate.baseline import Baseline
from llama_index_rag_metrics.gate.checking import check_rules
from llama_index_rag_metrics.gate.history import Update
from llama_index_rag_metrics.gate.rules import Rule
from llama_index_rag_metrics.gate.updating import update_baseline
from llama_index_rag_metrics.gate.verdicts import GateReport, Verdict, WorstQuery

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
