"""Whether the tests run where CI believes that they do."""

import os
from importlib.metadata import requires, version

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from support.paths import SHARED

CORE = version("llama-index-core")


def test_core_that_was_asked_for() -> None:
    wanted = os.environ.get("RAG_METRICS_CORE")
    if wanted is None:
        pytest.skip("no particular llama-index-core was asked for (RAG_METRICS_CORE)")
    assert SpecifierSet(wanted).contains(CORE), f"asked for {wanted}, got {CORE}"


def test_core_is_a_supported_one() -> None:
    needs = [Requirement(requirement) for requirement in requires("llama-index-rag-metrics") or []]
    core = next(need for need in needs if need.name == "llama-index-core")
    assert core.specifier.contains(CORE), f"{CORE} is outside {core.specifier}"


def test_ci_has_the_collection_that_some_tests_read() -> None:
    if "RAG_METRICS_CI" not in os.environ:
        pytest.skip("outside CI, the tests that read shared/data/cranfield may skip")
    assert (SHARED / "data" / "cranfield").is_dir()
