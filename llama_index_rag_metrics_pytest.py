"""The pytest plugin: the fixture `assert_retrieval`, and the options of its baseline.

    def test_the_retriever_is_no_worse(assert_retrieval):
        results = evaluate(my_retriever(), dataset, ["ndcg@10", "recall@5"])
        assert_retrieval(results, "ndcg@10 >= baseline - 0.02", "recall@5 >= 0.8")

pytest loads it in every session, also in those that measure nothing. So it lies outside the
package, whose import brings LlamaIndex along, and imports it when the fixture is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.comparison.pairing import Results
    from llama_index_rag_metrics.decisions.gate.gate import BaselineLike, GateReport


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options on the command line, and their twins in the configuration."""
    group = parser.getgroup("rag-metrics", "retrieval metrics against a stored baseline")
    group.addoption(
        "--rag-baseline",
        metavar="FILE",
        help="the baseline of assert_retrieval (ini: rag_baseline)",
    )
    group.addoption(
        "--rag-accept",
        action="store_true",
        help="write the results of this session as the baseline, whatever it was before",
    )
    parser.addini("rag_baseline", "the baseline of assert_retrieval, relative to the rootdir")


@pytest.fixture(scope="session")
def assert_retrieval(pytestconfig: pytest.Config) -> Callable[..., GateReport]:
    """Assert that results of an evaluation, or Scores, keep to rules.

    Called as `llama_index_rag_metrics.assert_retrieval`; the baseline comes from the option, or
    from the configuration, where the call doesn't give one. With --rag-accept, results become the
    baseline before they are judged by it.
    """
    from llama_index_rag_metrics.decisions.gate import gate
    from llama_index_rag_metrics.decisions.gate.rules import parse_rules
    from llama_index_rag_metrics.runtime.errors import InvalidInput

    option = pytestconfig.getoption("--rag-baseline")
    folder = pytestconfig.rootpath if option is None else pytestconfig.invocation_params.dir
    named = option or pytestconfig.getini("rag_baseline")
    of_session = folder / named if named else None
    accepted: dict[Path, str] = {}

    def assert_with_baseline(
        results: Results, *rules: str, baseline: BaselineLike | None = None, strict: bool = False
    ) -> GateReport:
        __tracebackhide__ = True
        baseline = of_session if baseline is None else baseline
        if isinstance(baseline, (str, Path)):
            baseline = path = pytestconfig.rootpath / baseline
            is_accepted = pytestconfig.getoption("--rag-accept")
            if is_accepted and any(rule.baseline for rule in parse_rules(rules)):
                text = results.to_json()
                if accepted.setdefault(path, text) != text:
                    remedy = "Give each test a baseline of its own, as baseline='FILE'."
                    raise InvalidInput("baseline", str(path), "one test's results", remedy)
                results.to_json(path)
        try:
            return gate.assert_retrieval(results, *rules, baseline=baseline, strict=strict)
        except InvalidInput as error:  # of which pytest's last line would show the class alone
            raise pytest.fail.Exception(str(error), pytrace=False) from None

    return assert_with_baseline
