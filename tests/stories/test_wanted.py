"""What was wanted and what came: one answer, from a real evaluation through every output."""

from html.parser import HTMLParser
from typing import Any

import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo
from support.retrievers import Scripted, node

from llama_index_rag_metrics import (
    EvaluationResults,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    check_rules,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.evaluation_results import results_report, system_of
from llama_index_rag_metrics.report.markup import to_markdown
from llama_index_rag_metrics.report.model import QueryAnswers
from llama_index_rag_metrics.report.terminal import print_report
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.story import query_answers

IO = "Io has volcanoes and lakes of sulphur."
RHEA = "Rhea is an icy body."


def chunk(name: str, text: str) -> Any:
    made = node(name)
    made.node.text = text  # type: ignore[attr-defined]
    return made


def by_text(matcher: str | None = "text", metrics: list[str] | None = None) -> EvaluationResults:
    """Expected texts alone: no id is known."""
    dataset = RetrievalDataset({"q": "volcanoes?"}, expected_texts={"q": [IO, "Not retrieved."]})
    script = {"volcanoes?": [chunk("c1", RHEA), chunk("c2", IO)]}
    return evaluate(Scripted(script), dataset, metrics or ["mrr"], matcher=matcher)


def by_id() -> EvaluationResults:
    dataset = RetrievalDataset({"q": "volcanoes?"}, {"q": {"c2": 2, "c9": 1, "c1": 0}})
    script = {"volcanoes?": [chunk("c1", RHEA), chunk("c2", IO)]}
    return evaluate(Scripted(script), dataset, ["mrr"])


def by_group() -> EvaluationResults:
    dataset = RetrievalDataset({"q": "volcanoes?"}, {"q": Relevance(groups=[["c2", "c3"], ["c9"]])})
    script = {"volcanoes?": [chunk("c1", RHEA), chunk("c2", IO)]}
    return evaluate(Scripted(script), dataset, ["group_mrr"])


def by_span() -> EvaluationResults:
    made = node("c1")
    made.node.start_char_idx, made.node.end_char_idx = 0, 50  # type: ignore[attr-defined]
    made.node.relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="moons.txt")}
    labels = Relevance(["geysers"], spans={"geysers": ("moons.txt", 10, 40)})
    dataset = RetrievalDataset({"q": "geysers?"}, {"q": labels})
    return evaluate(Scripted({"geysers?": [made]}), dataset, ["mrr"], matcher="span")


def answers(results: EvaluationResults, metric: str = "mrr") -> QueryAnswers:
    return query_answers("q", [system_of(results)], metric)


def test_passages_that_systems_rank_differently_come_first() -> None:
    labels, runs = {"q": ["gone", "a"]}, [Run({"q": ["a"]}), Run({"q": ["x", "a"]})]
    systems = [System.of(score_rankings(labels, run, ["mrr"])) for run in runs]
    (first, second) = query_answers("q", systems, "mrr").wanted
    assert (first.ranks, second.ranks) == ([1, 2], [None, None])


MISSED = ("expected text 2 [1]", "Not retrieved.", "never retrieved")
RECOGNISED = ("expected text 1 [1]", IO, "rank 2 as c2")
EXPECTED = {
    "ids": (by_id, "mrr", "c1 [0]", [("c9 [1]", "never retrieved"), ("c2 [2]", IO, "rank 2")]),
    "groups": (
        by_group,
        "group_mrr",
        "c1",
        [("c9 [1]", "never retrieved"), ("c2 [1] or c3 [1]", IO, "rank 2")],
    ),
    "text": (by_text, "mrr", "c1", [MISSED, RECOGNISED]),
    "span": (
        by_span,
        "mrr",
        "c1 [1]",
        [("geysers (moons.txt, characters 10 to 40) [1]", "text of c1", "rank 1 as c1")],
    ),
}
each = pytest.mark.parametrize(
    ("build", "metric", "got", "wanted"), EXPECTED.values(), ids=EXPECTED
)


@pytest.mark.parametrize("build", [by_id, by_group, by_text, by_span])
def test_gate_shows_it_of_results_and_of_stored_scores(build: Any) -> None:
    results = build()
    stored = Scores.from_json(results.scores.to_json())
    metric = results.scores.metric_names[-1]
    for source in (results, stored):
        (verdict,) = check_rules(source, f"{metric} >= 2")
        (worst,) = verdict.worst
        query = answers(results, metric)
        assert worst.wanted == query.wanted
        assert worst.wanted
        assert worst.answers[0].retrieved == query.answers[0].retrieved
    assert stored == results.scores


class Words(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.words = ""
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.words += data


@each
def test_outputs_of_text_all_say_what_was_wanted_and_what_came(
    build: Any,
    metric: str,
    got: str,
    wanted: list[tuple[str, ...]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    from rich.console import Console

    report = results_report({"bm25": build()})
    print_report(report, console=Console(width=250, highlight=False))
    terminal = " ".join(capsys.readouterr().out.split())
    markdown = Words(to_markdown(report)).words
    for page in (terminal, markdown):
        assert got in page
        places = page[page.lower().index("relevant", page.index("Lowest")) :]
        for name, *parts in wanted:
            _, found, places = places.partition(name)
            assert found
            assert all(part in places for part in parts)
