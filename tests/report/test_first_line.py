"""Every result begins with a sentence that decides or says what is missing, however shown."""

import html
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.every_result import ALL_FAILED, EVERY
from support.examples import examples

import llama_index_rag_metrics
from llama_index_rag_metrics import Scores, score_rankings
from llama_index_rag_metrics.report.html import fragment, html_page
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.report.text import one_line

BUILDERS = [
    pytest.param(build, id=f"{name} {number}")
    for name, builders in EVERY.items()
    for number, build in enumerate(builders)
]
pytestmark = pytest.mark.filterwarnings("ignore")


def subclasses(of_class: type[Any]) -> Iterator[type[Any]]:
    for subclass in of_class.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def test_classes_of_results_are_all_among_them() -> None:
    package = llama_index_rag_metrics
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    own = f"{package.__name__}."
    names = {each.__name__ for each in subclasses(Reportable) if each.__module__.startswith(own)}
    assert names == set(EVERY)


def words(page: str) -> str:
    """The text of HTML, without what isn't shown."""
    shown = re.sub(r"(?s)<(script|style|title).*?</\1>", " ", page)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", shown)).split())


@pytest.mark.parametrize("build", BUILDERS)
def test_first_line_begins_with_a_sentence(build: Callable[[], Reportable]) -> None:
    report = build().report(full=True)
    first = report.decision[0]
    assert re.fullmatch(r"(?s).*\w.* .* .*\.", first.text)
    assert "below" not in first.text
    sentence = " ".join(one_line(first.text).split())
    heading, line, *_ = to_text(report, width=2000).splitlines()
    assert heading.strip().startswith(one_line(report.title))
    assert line.strip() == sentence
    for page in (fragment(report), html_page(report)):
        above = words(page.partition("<table")[0])
        assert sentence.removeprefix(f"{first.label}: ") in above  # the label is a badge


def test_why_nothing_was_measured_is_said_once() -> None:
    scores = score_rankings({"q1": None, "q2": []}, {"q1": ["a"], "q2": ["a"]}, "mrr")
    reason = "1 without labels, 1 with nothing relevant"
    assert f"Nothing was measured on 2 questions: {reason}." in " ".join(str(scores).split())
    assert "has a value" not in str(scores)


@pytest.mark.parametrize("build", ALL_FAILED.values(), ids=ALL_FAILED)
def test_measurement_of_nothing_where_all_failed(build: Callable[[], Reportable]) -> None:
    result = build()
    first = result.report().decision[0]
    assert first.text.startswith("Nothing was measured")
    assert first.tone == "alarm"
    page = words(html_page(result.report()))
    for output in (str(result), result._repr_html_(), result.to_markdown(), page):
        assert "0.0000" not in output
    assert len(result.report().decision) == 1


@examples(100)
@given(st.data())
def test_sentence_of_a_system_agrees_with_its_scores(data: st.DataObject) -> None:
    ids = [f"q{number}" for number in range(data.draw(st.integers(1, 30)))]
    failed = data.draw(st.sets(st.sampled_from(ids)))
    values = {
        query_id: 0.0 if query_id in failed else data.draw(st.floats(0, 1)) for query_id in ids
    }
    scores = Scores(ids, {"mrr": [*values.values()]}, failed=dict.fromkeys(failed, "down"))
    text = " ".join(statement.text for statement in scores.report().decision)
    if len(failed) == len(ids):
        assert text.startswith("Nothing was measured")
        return
    number = r"(\d\.\d+)"
    found = re.match(
        rf"mrr is {number}(?: \({number} to {number} with 95 % confidence\))? on", text
    )
    assert found is not None
    mean, low, high = found.groups()
    assert abs(float(mean) - scores.means["mrr"]) <= 0.005 + 1e-9
    assert (low is None) == (len(ids) == 1)
    if low is not None:
        assert float(low) <= float(mean) <= float(high)
    assert f" on {len(ids)} question" in text
    assert (f"{len(failed)} of {len(ids)} failed (down)" in text) == bool(failed)
    if failed:
        others = [value for query_id, value in values.items() if query_id not in failed]
        (without,) = re.findall(rf"without them mrr is {number}\.", text)
        assert abs(float(without) - sum(others) / len(others)) <= 0.005 + 1e-9
