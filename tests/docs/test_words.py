"""One vocabulary where people read: the texts of the package, the help, and the pages.

People ask questions, systems retrieve passages, datasets have labels. In names of code, in prompts
and where LlamaIndex, TREC or a file says so, other words remain.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import ROOT

PACKAGE = ROOT / "llama_index_rag_metrics"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

RETIRED = {
    r"quer(?:y|ies)": "question",
    r"items?": "passage",
    r"unjudged": "unlabelled, without labels",
    r"expected (?:passages?|items?)": "relevant passages",
    r"by ndcg\S*": "on ndcg",
}
"""Patterns of words, and what is said instead."""

KEPT = re.compile(
    r"query[ -]ids?|(?:search|custom) query|query\s+engines?|pseudo-queries|`[^`]*`|\"\w+\""
    r"|query, ?(?:doc|expected)_ids?|[{(][^{}()]*quer(?:y|ies)[^{}()]*[{})]"
    r"|the query that the agent wrote",
    re.IGNORECASE,
)
"""Ids, LlamaIndex's engines, what an agent writes, the statistics' imagined scores, and code."""

ELSEWHERE = {
    "metrics/texts/llm_relevancy.py": "a prompt",
    "docs/architecture.md": "for those who change the code",
    "docs/scale.md": "written by the benchmarks, like the table in the README",
}
CODE = re.compile(
    r"^(`{3,}).*?^\1$|<!-- speed -->.*?<!-- /speed -->|`[^`]*`|\]\([^)]*\)|<[^>]*>", re.M | re.S
)


def retired(text: str) -> list[str]:
    return [
        f"{word[0]!r}: say {new!r}"
        for old, new in RETIRED.items()
        for word in re.finditer(rf"(?<![\w@.,-]){old}(?![\w.=(-])", KEPT.sub("", text))
    ]


def texts(path: Path) -> Iterator[str]:
    """Texts of more than a word; of docstrings those of commands and metrics, which are shown."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        decorators = getattr(node, "decorator_list", ())
        if any(ast.unparse(decorator).startswith("command(") for decorator in decorators):
            yield ast.get_docstring(node) or ""  # type: ignore[arg-type]
        if isinstance(node, ast.ClassDef) and "metrics" in path.relative_to(PACKAGE).parts:
            yield (ast.get_docstring(node) or "").partition("\n\n")[0]
        is_text = isinstance(node, ast.Constant) and node not in docstrings
        if is_text and isinstance(node.value, str) and " " in node.value.strip():  # type: ignore[attr-defined]
            yield node.value  # type: ignore[attr-defined]


def test_words_of_the_package() -> None:
    sources = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    found = {
        name: [word for text in texts(path) for word in retired(text)]
        for name, path in sources.items()
        if not name.startswith(tuple(ELSEWHERE))
    }
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize("part", ["report", "scores", "decisions"])
def test_relevant_is_what_counts_for_a_metric(part: str) -> None:
    """Labelled says only whether there is a label, which may be of grade 0."""
    found = [text for path in (PACKAGE / part).rglob("*.py") for text in texts(path)]
    scripts = [path.read_text(encoding="utf-8") for path in (PACKAGE / part).rglob("*.js")]
    said = re.compile(r"(?<!un)labelled (?:passage|text|item)", re.IGNORECASE)
    assert [text for text in [*found, *scripts] if said.search(text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_words_of_the_pages(page: Path) -> None:
    if page.relative_to(ROOT).as_posix() not in ELSEWHERE:
        assert retired(CODE.sub("`code`", page.read_text(encoding="utf-8"))) == []
