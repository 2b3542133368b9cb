"""The pytest plugin, in sessions of its own: options, baseline, messages, and what it costs."""

import json
import os
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import scipy.stats  # noqa: F401 - a session unloads what it loaded; parts of it load but once

import llama_index_rag_metrics
import llama_index_rag_metrics_pytest as plugin
from llama_index_rag_metrics import Scores

for name in llama_index_rag_metrics.__all__:  # nor does a session unload what it found loaded
    getattr(llama_index_rag_metrics, name)

pytest_plugins = ["pytester"]

NAME = plugin.__name__
ROOT = Path(llama_index_rag_metrics.__file__).parents[1]

TESTS = """
    import os

    from llama_index_rag_metrics import RetrievalDataset, evaluate

    LOST = int(os.environ.get("LOST", "0"))
    DATASET = RetrievalDataset(
        queries={f"q{n:02d}": f"question {n}" for n in range(50)},
        relevance={f"q{n:02d}": [f"d{n}"] for n in range(50)},
    )

    def retrieve(query):
        n = int(query.split()[1])
        return ["wrong", "other"] if n < LOST else [f"d{n}"]

    def test_retrieval(assert_retrieval):
        results = evaluate(retrieve, DATASET, ["recall@5"])
        assert_retrieval(results, "recall@5 >= baseline - 0.02", "recall@5 >= 0.3")
"""


class Session:
    """A pytest session within this process, or in one of its own, as often as it is called."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = pytester.path
        self._pytester = pytester
        self._monkeypatch = monkeypatch

    def __call__(
        self, *arguments: str, lost: int = 0, own_process: bool = False
    ) -> pytest.RunResult:
        self._monkeypatch.setenv("LOST", str(lost))
        plugins = ["-p", NAME, "-p", "no:cacheprovider"]
        if own_process:
            return self._pytester.runpytest_subprocess(*plugins, *arguments)
        return self._pytester.runpytest_inprocess(*plugins, *arguments)


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Run pytest in a folder with one test that measures."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini("[pytest]\nrag_baseline = baselines/main.json")
    pytester.makepyfile(test_retrieval=TESTS)
    return Session(pytester, monkeypatch)


@pytest.fixture
def with_baseline(session: Session) -> Session:
    """The same, with a stored baseline, in which no query is lost."""
    queries = {f"q{n:02d}": f"question {n}" for n in range(50)}
    scores = Scores(list(queries), {"recall@5": [1.0] * 50}, queries=queries)
    scores.to_json(session.folder / "baselines" / "main.json")
    return session


def test_missing_baseline_says_how_to_store_one(session: Session) -> None:
    result = session()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*main.json'. Accept these results: rag-metrics gate --accept, or pytest --rag-acc*"]
    )
    result.stdout.fnmatch_lines(["FAILED *::test_retrieval - Failed: baseline: expected a file*"])


def test_baseline_is_stored_on_request(session: Session) -> None:
    result = session("--rag-accept")
    result.assert_outcomes(passed=1)
    data = json.loads((session.folder / "baselines" / "main.json").read_text())
    assert data["means"] == {"recall@5": 1.0}
    assert len(data["retrieval"]["labels"]) == len(data["retrieval"]["run"]) == 50
    session().assert_outcomes(passed=1)


def test_failure_begins_with_the_verdict_and_shows_the_worst(with_baseline: Session) -> None:
    result = with_baseline("-ra", lost=29)
    result.assert_outcomes(failed=1)
    # 29 of 50 lose everything: -0.58 + 1.676551 × 0.0705 = -0.4618
    result.stdout.fnmatch_lines(
        [
            "E*recall@5 >= baseline - 0.02 at 95%*fail*0.42*1.00*−0.58*−0.46",
            "E*q00  question 0",
            "E*relevant*d0 [[]1[]]: never retrieved",
            "E*now*0.00  1. wrong",
        ]
    )
    assert "gate.py" not in result.stdout.str()
    # in CI pytest goes on with the whole report, elsewhere it cuts the line
    (summary,) = [line for line in result.stdout.lines if line.startswith("FAILED ")]
    verdict = "FAILED test_retrieval.py::test_retrieval - GateFailed: fail: recall@5 is 0.42"
    assert summary.startswith(verdict)


def test_inconclusive_is_a_warning(with_baseline: Session) -> None:
    result = with_baseline(lost=2)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*InconclusiveGate: recall@5 is 0.96 against 1.00*"])


def test_option_is_relative_to_where_pytest_was_started(with_baseline: Session) -> None:
    folder = with_baseline.folder
    (folder / "baselines" / "main.json").rename(folder / "moved.json")
    with_baseline("--rag-baseline", "moved.json").assert_outcomes(passed=1)


def test_call_may_name_its_own_baseline(session: Session, pytester: pytest.Pytester) -> None:
    own = TESTS.replace('>= 0.3"', '>= 0.3", baseline="own.json"')
    pytester.makepyfile(test_retrieval=own)
    session("--rag-accept").assert_outcomes(passed=1)
    assert (session.folder / "own.json").is_file()
    session(lost=29).assert_outcomes(failed=1)


def test_baseline_takes_results_of_one_test(session: Session, pytester: pytest.Pytester) -> None:
    another = """
    def test_another(assert_retrieval):
        results = evaluate(lambda query: [], DATASET, ["recall@5"])
        assert_retrieval(results, "recall@5 >= baseline - 0.02")
"""
    pytester.makepyfile(test_retrieval=TESTS + another)
    result = session("--rag-accept")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Give each test a baseline of its own, as baseline='FILE'."])


def test_accepted_results_must_keep_to_limits_all_the_same(with_baseline: Session) -> None:
    path = with_baseline.folder / "baselines" / "main.json"
    with_baseline("--rag-accept", lost=29).assert_outcomes(passed=1)
    assert Scores.from_json(path).means["recall@5"] == pytest.approx(0.42)
    with_baseline("--rag-accept", lost=40).assert_outcomes(failed=1)


def test_idle_session_imports_no_llama_index(session: Session, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_retrieval="""
        import sys

        def test_nothing_heavy():
            loaded = {one.split(".")[0] for one in sys.modules}
            assert not loaded & {"llama_index", "llama_index_rag_metrics", "numpy", "scipy"}
            assert "llama_index_rag_metrics_pytest" in loaded
        """
    )
    session(own_process=True).assert_outcomes(passed=1)


def test_installing_the_package_registers_the_plugin() -> None:
    plugins = [plugin for plugin in entry_points(group="pytest11") if plugin.value == NAME]
    if not plugins and "RAG_METRICS_CI" not in os.environ:
        pytest.skip("this tree isn't what is installed")
    # named like the module, or `-p` would load it a second time
    assert [plugin.name for plugin in plugins] == [NAME]
