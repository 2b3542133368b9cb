"""The fixture `assert_retrieval` of the pytest plugin: the gate as an assertion.

The plugin itself, with its options, is the module `llama_index_rag_metrics_pytest`, which imports
this one when the fixture is first used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.decisions.comparison.pairing import Results
from llama_index_rag_metrics.decisions.gate.gate import BaselineLike, GateReport, assert_retrieval
from llama_index_rag_metrics.decisions.gate.rules import Rule, parse_rules
from llama_index_rag_metrics.runtime.errors import InvalidInput


@dataclass
class RetrievalAssertion:
    """`assert_retrieval` with the baseline of a test session; paths are relative to `root`."""

    baseline: Path | None
    root: Path
    accept: bool
    _accepted: dict[Path, str] = field(default_factory=dict)

    def __call__(
        self,
        results: Results,
        *rules: str | Rule,
        baseline: BaselineLike | None = None,
        **options: Any,
    ) -> GateReport:
        """Assert that results satisfy rules; `options` are further ones of `assert_retrieval`.

        The path of a baseline that is given here is relative to pytest's rootdir. With
        --rag-accept, the results are written there first.
        """
        __tracebackhide__ = True
        if baseline is None:
            baseline = self.baseline
        if not any(rule.baseline for rule in parse_rules(rules)):
            baseline = None
        if isinstance(baseline, (str, Path)):
            baseline = self.root / baseline
            if self.accept:
                self._write(baseline, results)
        return assert_retrieval(results, *rules, baseline=baseline, **options)

    def _write(self, path: Path, results: Results) -> None:
        """Write the results as the baseline; two tests can't write different ones to one file."""
        __tracebackhide__ = True
        text = results.to_json()
        if self._accepted.setdefault(path, text) != text:
            remedy = "Give each test a baseline of its own, as baseline='FILE'."
            raise InvalidInput("baseline", str(path), "one test's results", remedy)
        results.to_json(path)
