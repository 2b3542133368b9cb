"""The public names are complete and sorted, and importing the package stays light."""

import ast
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.processes import Forked

import llama_index_rag_metrics as package

ARGS = re.compile(r"^Args:\n((?:    .*\n?|\n)+)", re.M)
ARGUMENTS = re.compile(r"^    ([*\w]+(?:, [*\w]+)*)(?: \([^)]*\))?:", re.M)
"""One or several arguments that a docstring explains together."""

STABLE = {
    "Comparison", "METRICS", "RagMetricsError", "Ranking", "Relevance", "RetrievalDataset",
    "RetrieverEvaluator", "EvaluationResults", "Run", "Scores", "aevaluate", "assert_retrieval",
    "check_rules", "compare", "evaluate", "evaluate_stages", "generate_question_context_pairs",
    "metric", "metrics", "read_qrels", "read_run", "register", "score_rankings", "score_table",
    "write_qrels", "write_run",
}  # fmt: skip


def own_names() -> list[str]:
    """The names that the package lists itself; those of metrics stand beside their classes."""
    tree = ast.parse(Path(inspect.getfile(package)).read_text(encoding="utf-8"))
    [listed] = [
        statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
    ]
    names: list[str] = ast.literal_eval(listed)
    return names


def test_names_are_sorted_and_unique() -> None:
    def constants_classes_functions(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    own = own_names()
    assert sorted(own, key=constants_classes_functions) == own
    assert len(set(package.__all__)) == len(package.__all__)


def test_contract_is_kept() -> None:
    metric_classes = {package.METRICS[name].metric_class.__name__ for name in package.METRICS}
    bases = {"BinaryMetric", "GainMetric", "GroupMetric", "RankingMetric"}
    assert (STABLE | metric_classes | bases) - set(package.__all__) == set()


@pytest.mark.parametrize("name", package.__all__)
def test_names_can_all_be_imported(name: str) -> None:
    value = getattr(package, name)
    assert not isinstance(value, types.ModuleType)
    assert name in dir(package)
    assert name == "METRICS" or inspect.getdoc(value)


def test_metrics_is_the_function_and_not_the_room_of_that_name() -> None:
    assert [metric.metric_name for metric in package.metrics(["mrr", "ap@5"])] == ["mrr", "ap@5"]


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        package.Nope  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", ["F1", "FBeta"])
def test_metric_of_another_library_is_an_attribute_error_that_names_its_class(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'. .* is of the class FScore"):
        getattr(package, name)


def test_everything_imported_is_public() -> None:
    tree = ast.parse(Path(inspect.getfile(package)).read_text(encoding="utf-8"))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package.__name__):
            names = {name.asname or name.name for name in node.names}
            names = {name for name in names if not name.startswith("_")}
            imported |= set(import_module(node.module or "").__all__) if "*" in names else names
    assert imported == set(package.__all__)


def test_metric_is_named_in_no_list_but_the_table() -> None:
    """Whoever adds one writes its class, its row, its oracle and its definition."""
    home = Path(inspect.getfile(package)).parent
    lists = [home / "__init__.py", *(home / "metrics").rglob("__init__.py")]
    if (home.parent / "pyproject.toml").exists():
        lists.append(home.parent / "pyproject.toml")
    classes = {entry.metric_class.__name__ for entry in package.METRICS.values()}
    words = {word for path in lists for word in re.findall(r"\w+", path.read_text("utf-8"))}
    assert classes & words == set()


def _in_a_new_process(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = """
import sys
import llama_index.core.evaluation
before = set(sys.modules)
import llama_index_rag_metrics
llama_index_rag_metrics.metric("cohere_rerank_relevancy@5")
print(*set(sys.modules) - before)
"""
    loaded = set(_in_a_new_process(code).split())
    heavy = {"scipy", "pandas", "sklearn", "typer", "bm25s", "polars", "pyarrow", "cohere"}
    assert "llama_index_rag_metrics.files.trace_reading" in loaded
    assert (heavy | {"llama_index.core.agent"}) & loaded == set()


def test_importing_the_package_registers_its_names() -> None:
    code = """
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
before = dict(METRIC_REGISTRY)
import llama_index_rag_metrics
print("ndcg@10" in before, "ndcg@10" in METRIC_REGISTRY)
print(all(METRIC_REGISTRY[name] is held for name, held in before.items()))
"""
    assert _in_a_new_process(code).split() == ["False", "True", "True"]


def test_metrics_cross_processes() -> None:
    code = """
import pickle, sys
import llama_index_rag_metrics as package
made = [package.metric(name) for name in ("ndcg(mode=exponential)@10", "f(beta=2)")]
run = package.Run({"q": ["a"]})
print(pickle.dumps((made, package.Relevance({"a": 2}), run)).hex())
"""
    printed, _ = Forked(code).communicate()
    made, relevance, run = pickle.loads(bytes.fromhex(printed.strip()))
    assert [metric.metric_name for metric in made] == ["ndcg(mode=exponential)@10", "f(beta=2)"]
    assert (relevance, run) == (package.Relevance({"a": 2}), package.Run({"q": ["a"]}))


def documented() -> Iterator[tuple[str, Any]]:
    """Every function, class and method of the package that has a docstring of its own."""
    for module_info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module_info.name.endswith("__main__"):
            continue
        module = import_module(module_info.name)
        own = [
            member
            for member in vars(module).values()
            if getattr(member, "__module__", None) == module.__name__
        ]
        methods = [
            getattr(value, "__func__", value)
            for owner in filter(inspect.isclass, own)
            for value in vars(owner).values()
        ]
        for member in [*own, *methods]:
            is_member = inspect.isclass(member) or inspect.isfunction(member)
            if is_member and "Args:" in (member.__doc__ or ""):
                yield f"{module.__name__}.{member.__qualname__}", member


def test_docstrings_explain_arguments_that_exist() -> None:
    wrong = {}
    n_explained = 0
    for name, member in documented():
        explained = ARGS.search(inspect.cleandoc(member.__doc__))
        assert explained, f"{name}: nothing is explained under Args"
        arguments = {
            argument.strip("*")
            for listed in ARGUMENTS.findall(explained[1])
            for argument in listed.split(", ")
        }
        assert arguments, f"{name}: no argument is explained under Args"
        n_explained += len(arguments)
        known = {*inspect.signature(member).parameters, *getattr(member, "model_fields", ())}
        if unknown := arguments - known:
            wrong[name] = unknown
    assert wrong == {}
    assert n_explained > 300
