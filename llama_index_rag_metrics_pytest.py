"""The pytest plugin: the fixture `assert_retrieval`, and the options of its baseline.

    def test_the_retriever_is_no_worse(assert_retrieval):
        results = evaluate(my_retriever(), dataset, ["ndcg@10", "recall@5"])
        assert_retrieval(results, "ndcg@10 >= baseline - 0.02", "recall@5 >= 0.8")

pytest loads it in every session, also in those that measure nothing. So it lies outside the
package, whose import brings LlamaIndex along, and imports it when the fixture is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.gate.gate import RetrievalAssertion


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
def assert_retrieval(pytestconfig: pytest.Config) -> RetrievalAssertion:
    """Assert that results of an evaluation, or Scores, keep to rules.

    Called as `llama_index_rag_metrics.assert_retrieval`; the baseline comes from the option, or
    from the configuration, where the call doesn't give one.
    """
    from llama_index_rag_metrics.decisions.gate.gate import RetrievalAssertion

    baseline = pytestconfig.getoption("--rag-baseline")
    folder = pytestconfig.rootpath if baseline is None else pytestconfig.invocation_params.dir
    named = baseline or pytestconfig.getini("rag_baseline")
    return RetrievalAssertion(
        folder / named if named else None,
        root=pytestconfig.rootpath,
        accept=pytestconfig.getoption("--rag-accept"),
    )
