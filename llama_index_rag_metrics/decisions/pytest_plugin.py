"""The fixture `assert_retrieval` of the pytest plugin: the gate as an assertion.

The plugin itself, with its options, is the module `llama_index_rag_metrics_pytest`, which imports
this one when the fixture is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.decisions.comparison.pairing import Results
from llama_index_rag_metrics.decisions.gate.baseline import Baseline
from llama_index_rag_metrics.decisions.gate.checking_rules import (
    BaselineLike,
    assert_retrieval,
    update_baseline,
)
from llama_index_rag_metrics.decisions.gate.rules import Rule, parse_rules
from llama_index_rag_metrics.decisions.gate.verdicts import GateReport
from llama_index_rag_metrics.runtime.errors import InvalidInput


@dataclass
class RetrievalAssertion:
    """`assert_retrieval` with the baseline of a test session; paths are relative to `root`."""

    baseline: Path | None
    root: Path
    update: bool
    strict: bool
    _stored: dict[Path, str] = field(default_factory=dict)

    def __call__(
        self,
        results: Results,
        *rules: str | Rule,
        baseline: BaselineLike | None = None,
        strict: bool | None = None,
        **options: Any,
    ) -> GateReport:
        """Assert that results satisfy rules; `options` are further ones of `assert_retrieval`.

        The path of a baseline that is given here is relative to pytest's rootdir;
        `strict` is by default as in pytest's configuration. Two tests can't store different scores
        in one file.
        """
        __tracebackhide__ = True
        chosen = self.baseline if baseline is None else baseline
        if isinstance(chosen, (str, Path)) and any(rule.baseline for rule in parse_rules(rules)):
            chosen = self._file(self.root / chosen, results, rules)
        return assert_retrieval(
            results,
            *rules,
            baseline=chosen,
            strict=self.strict if strict is None else strict,
            **options,
        )

    def _file(self, path: Path, results: Results, rules: Sequence[str | Rule]) -> Path:
        __tracebackhide__ = True
        if self.update:
            text = Baseline.of(results).to_json()
            if self._stored.get(path, text) != text:
                remedy = "Give each test a baseline of its own, as baseline='FILE'."
                raise InvalidInput("baseline", str(path), "one test's scores", remedy)
            update_baseline(path, results, judged_by=rules)
            self._stored[path] = text
        if not path.is_file():
            remedy = "Store one with pytest --rag-update-baseline."
            raise InvalidInput("baseline", str(path), "a file", remedy)
        return path
