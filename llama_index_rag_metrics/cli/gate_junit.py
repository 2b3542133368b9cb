"""The verdicts of a gate as JUnit's XML, which GitLab, Jenkins and others show as tests."""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from llama_index_rag_metrics import GateReport
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.terminal import to_text

_WIDTH = 100


def to_junit(report: GateReport, *, strict: bool) -> str:
    """A test for each rule; one that is inconclusive is skipped, or with `strict` failed."""
    name = terminal(report.name) or "gate"
    broken = report.broken(strict=strict)
    counts = {
        "tests": len(report.verdicts),
        "failures": len(broken),
        "errors": 0,
        "skipped": len(report.broken(strict=True)) - len(broken),
        "time": 0,
    }
    totals = {key: str(number) for key, number in counts.items()}
    suites = Element("testsuites", {"name": "rag-metrics gate", **totals})
    suite = SubElement(suites, "testsuite", {"name": f"Retrieval gate of {name}", **totals})
    for verdict in report:
        case = SubElement(
            suite, "testcase", classname=f"gate.{name}", name=terminal(str(verdict.rule)), time="0"
        )
        if verdict in broken:
            alone = replace(report, verdicts=(verdict,), notes=())
            message = terminal(verdict.sentence)
            failure = SubElement(case, "failure", message=message, type=verdict.outcome)
            failure.text = to_text(alone.report(), width=_WIDTH)
        elif verdict.outcome == "inconclusive":
            SubElement(case, "skipped", message=f"inconclusive: {terminal(verdict.sentence)}")
    indent(suites)
    text: bytes = tostring(suites, encoding="us-ascii", xml_declaration=True)
    return text.decode("ascii")
