"""One command each: `nox -s tests`, `lint`, `types`, `test_types`, `docs`, `pages`, …"""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def tests(session: nox.Session) -> None:
    """The tests and doctests; further arguments are pytest's."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", *(session.posargs or ["-n", "auto"]))


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff's rules and format."""
    session.install("ruff>=0.6")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict."""
    session.install(".[dev]")
    session.run("python", "-m", "mypy", "--strict")


@nox.session
def test_types(session: nox.Session) -> None:
    """mypy --strict over the tests, too, with the packages that they meet."""
    session.install(".[dev,integrations]", "llama-index-observability-otel")
    session.run(
        *("python", "-m", "mypy", "--strict"),
        *("llama_index_rag_metrics", "llama_index_rag_metrics_cli.py"),
        *("llama_index_rag_metrics_pytest.py", "tests"),
    )


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, into site/; a warning is an error."""
    session.install(".[docs]")
    session.run("python", "-m", "sphinx", "-W", "docs", "site")


@nox.session
def pages(session: nox.Session) -> None:
    """Every Python block of READMEs and documentation, and the examples."""
    session.install(".[test]")
    session.run("python", ".ci/readme.py", "blocks")
    session.run("python", ".ci/readme.py", "examples")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Speed against peers, as ratios within one run."""
    session.install(".[dev]")
    session.run("python", "benchmarks/run.py", *session.posargs)
