"""What the terminal shows."""

from __future__ import annotations

import io
from typing import Any

import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo
from rich.cells import cell_len
from rich.console import Console
from support.command_line import columns_of
from support.retrievers import Scripted, node

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, results_report
from llama_index_rag_metrics.report import terminal
from llama_index_rag_metrics.report.numbers import shown as shown_cell
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import systems_report
from llama_index_rag_metrics.stories.rows import latency_rows


def to_text(reported: Any, width: int | None = None) -> str:
    return terminal.to_text(results_report(reported), width=width)


RELEVANCE = {
    "q1": Relevance({"a": 2, "b": 1, "z": 0}),
    "q2": Relevance(["c"]),
    "q3": Relevance({"z": 0}),
    "q4": Relevance(["d"]),
}
QUERIES = {
    "q1": "how much is a day ticket?",
    "q2": "志工林雅惠什麼時候在服務台？可以陪同填寫入會申請表、說明機器的使用規定嗎？",
    "q3": "unanswerable",
    "q4": "the one that fails [bold]and holds markup[/bold]\x1b[31m",
}
METADATA = {"q1": {"language": "en"}, "q2": {"language": "zh"}, "q3": {"language": "en"}}


def results(name: str, rankings: dict[str, Ranking], **options: Any) -> EvaluationResults:
    run = Run(rankings, name=name)
    scores = score_rankings(
        RELEVANCE,
        run,
        ["mrr", "recall@2"],
        queries=QUERIES,
        metadata=METADATA,
        name=name,
        **options,
    )
    return EvaluationResults([], run=run, relevance=RELEVANCE, scores=scores)


@pytest.fixture
def good() -> EvaluationResults:
    return results(
        "good",
        {
            "q1": Ranking(["a", "b"], texts=["Title of a\nand more", "b"], latency=0.001),
            "q2": Ranking(["x", "c"], texts=["x", "c"], latency=0.0124),
            "q3": Ranking(["a"], latency=0.25),
            "q4": Ranking(["d"], latency=2.5),
        },
    )


@pytest.fixture
def bad() -> EvaluationResults:
    return results(
        "bad",
        {
            "q1": Ranking(["z", "a"], latency=0.01),
            "q2": Ranking([], latency=0.01),
            "q3": Ranking(["a"], latency=0.01),
            "q4": Ranking(latency=0.01, error="TimeoutError: [red]too late\x1b[31m\nreally"),
        },
    )


def shown(*reported: Any, width: int = 80, **options: Any) -> str:
    page = io.StringIO()
    console = Console(file=page, width=width, color_system=None, highlight=False)
    terminal.print_report(results_report(reported, **options), console=console)
    return page.getvalue()


def test_the_hardest_queries_say_what_came_first_and_what_was_wanted(
    good: EvaluationResults, bad: EvaluationResults
) -> None:
    lines = [line.strip() for line in shown(good, bad, worst=3).splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("Lowest mrr"))

    # mrr reads all of a ranking; what failed has none
    assert lines[start + 1].startswith("good: all 4 relevant passages were found; bad: 2 of 3")
    assert lines[start + 3] == "[grade] 0 to 2; none: unlabelled"
    assert lines[start + 4].startswith("q2  志工林雅惠")  # (1/2 + 0) / 2, the lowest average
    # its text in the corpus is "c"
    assert lines[start + 5].split() == ["relevant", "c", "[1]", "c"]
    assert lines[start + 6] == "good: rank 2; bad: never retrieved"
    assert lines[start + 7].split() == ["good", "0.50", "x", "x"]
    assert lines[start + 8].split(maxsplit=2) == ["bad", "0.00", "nothing retrieved"]
    assert "failed: TimeoutError: [red]too late" in " ".join(lines)
    assert any(line.split() == ["bad", "0.50", "z", "[0]"] for line in lines)
    assert any(line.endswith("1.00  a [2]  “Title of a” and more") for line in lines)


def test_nothing_is_shown_of_no_queries(good: EvaluationResults) -> None:
    assert "Lowest" not in shown(good, worst=0)


def test_an_unknown_key_or_metric_is_refused(good: EvaluationResults) -> None:
    with pytest.raises(InvalidInput, match="language"):
        shown(good, slice_by=["lang"])
    with pytest.raises(UnknownMetric):
        shown(good, metric="ndcg")


def test_no_results_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one retriever"):
        results_report([])


def test_failures_are_listed_ten_at_most() -> None:
    errors = {f"q{n}": Ranking(error=f"OSError: {n}") for n in range(12)}
    scores = score_rankings({query_id: ["a"] for query_id in errors}, Run(errors), "mrr")
    text = shown(scores)

    assert "Failed: 12" in text
    assert "OSError: 9" in text
    assert "OSError: 10" not in text
    assert "and 2 other errors" in text


def test_notes_say_for_whom_they_hold() -> None:
    noted = Scores(["q"], {"mrr": [1.0]}, name="one", notes=["take care", "of all"])
    other = Scores(["q"], {"mrr": [1.0]}, name="two", notes=["of all"])
    text = shown(noted, other)

    assert "! one: take care" in text
    assert "! of all" in text


def test_data_can_neither_style_nor_steer_the_terminal(
    good: EvaluationResults, bad: EvaluationResults
) -> None:
    text = shown(good, bad, worst=4)

    assert "\x1b" not in text
    assert "[bold]and holds markup[/bold]" in text


def test_a_report_is_printed_to_standard_output(
    good: EvaluationResults, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.print_report(good.report())

    out, err = capsys.readouterr()
    assert "0.83" in out
    assert err == ""


def test_what_needs_no_labels_says_so() -> None:
    metrics = ["mrr", "bm25_similarity"]
    dataset = RetrievalDataset({"q1": "text", "q2": "text of c"}, {"q1": ["c"]}, {"c": "text of c"})
    results = evaluate(lambda query: ["c"], dataset, metrics)
    assert "bm25_similarity needs no labels: it has a value for 2 questions, not 1" in shown(
        results, width=100
    )


class TestMatched:
    """What a reader sees of a run whose items were recognised by their text."""

    TITAN = "Titan has rivers and lakes of liquid methane under an orange haze, and dunes."
    IO = "Io has volcanoes."

    @pytest.fixture
    def matched(self) -> EvaluationResults:
        both = node("c1")
        both.node.text = f"{self.TITAN} {self.IO}"  # type: ignore[attr-defined]
        other = node("c2")
        other.node.text = "Rhea is an icy body."  # type: ignore[attr-defined]
        dataset = RetrievalDataset(
            {"q1": "methane?", "q2": "volcanoes?", "q3": "by id?"},
            {"q1": {"titan": 2, "io": 1}, "q2": ["io"], "q3": ["c2"]},
            corpus={"titan": self.TITAN, "io": self.IO},
        )
        script = {"methane?": [both], "volcanoes?": [other], "by id?": [other]}
        return evaluate(Scripted(script), dataset, ["mrr"], matcher="text")

    @staticmethod
    def below(text: str, query: str) -> list[str]:
        lines = [" ".join(line.split()) for line in text.splitlines()]
        start = next(number for number, line in enumerate(lines) if query in line)
        return [
            line for line in lines[start + 1 : start + 6] if line.startswith(("score", "relevant"))
        ][:2]

    def test_what_came_first_says_what_it_stands_for(self, matched: EvaluationResults) -> None:
        text = shown(matched, metric="mrr", width=200)
        assert self.below(text, "methane?") == [
            f"relevant titan [2] {self.TITAN}",
            f"score 1.00 c1 is titan [2], io [1], by text {self.TITAN} {self.IO}",
        ]
        assert self.below(text, "volcanoes?") == [
            f"relevant io [1] {self.IO}",
            "score 0.00 c2 Rhea is an icy body.",
        ]
        # of c2 no text is known: it is recognised by its id all the same
        assert self.below(text, "by id?") == [
            "relevant c2 [1] Rhea is an icy body.",
            "score 1.00 c2 [1] Rhea is an icy body.",
        ]

    def test_texts_without_ids_are_shown(self) -> None:
        chunk = node("c1")
        chunk.node.text = f"{self.IO}\x1b[31m"  # type: ignore[attr-defined]
        dataset = RetrievalDataset({"q": "volcanoes?"}, expected_texts={"q": ["Io has\nvolcanoes"]})
        results = evaluate(Scripted({"volcanoes?": [chunk]}), dataset, ["mrr"], matcher="text")
        text = shown(results, width=120)
        assert "\x1b" not in text
        assert self.below(text, "q volcanoes?") == [
            "relevant expected text 1 [1] “Io has” volcanoes",
            "score 1.00 c1 is expected text 1 [1], by text Io has volcanoes. [31m",
        ]

    def test_spans_are_shown_as_places(self) -> None:
        chunk = node("c1")
        chunk.node.start_char_idx, chunk.node.end_char_idx = 0, 50  # type: ignore[attr-defined]
        chunk.node.relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="moons.txt")}
        labels = Relevance(["geysers"], spans={"geysers": ("moons.txt", 10, 40)})
        dataset = RetrievalDataset({"q": "geysers?"}, {"q": labels})
        results = evaluate(Scripted({"geysers?": [chunk]}), dataset, ["mrr"], matcher="span")
        assert self.below(shown(results, width=120), "q geysers?") == [
            "relevant geysers (moons.txt, characters 10 to 40) [1] text of c1",
            "score 1.00 c1 is geysers [1], by place text of c1",
        ]


def test_high_percentiles_need_as_many_questions_as_they_divide() -> None:
    """p95 parts 1 in 20, p99 1 in 100."""

    def percentiles(n: int) -> list[str]:
        run = Run({f"q{number}": Ranking(["a"], latency=0.01) for number in range(n)})
        system = System.of(Scores([*run], {"mrr": [1.0] * n}))._replace(retrieval=Retrieval(run))
        return [row.label.removeprefix("latency ") for row in latency_rows([system])]

    assert [percentiles(n) for n in (19, 20, 99, 100)] == [
        ["p50"],
        ["p50", "p95"],
        ["p50", "p95"],
        ["p50", "p95", "p99"],
    ]


def test_counts_are_not_drawn_on_the_axis_of_shares() -> None:
    scores = Scores(["q1", "q2"], {"recall": [1.0, 0.5], "returned": [2.0, 7.0]})
    figure = systems_report([System.of(scores)]).figures["means"](None)
    assert figure is not None
    assert list(figure.series[0].y) == ["recall"]


def test_a_page_and_a_sentence_round_an_interval_alike() -> None:
    """Six questions, of which one scores a third: the lower end is far below 0.01."""
    report = systems_report([System.of(Scores([*"abcdef"], {"recall": [0.0] * 5 + [1 / 3]}))])
    (cell,) = report.sections[0].tables[0].rows[0].cells
    ends = shown_cell(cell).partition(" (")[2].rstrip(")")
    assert ends.startswith("0.00 to ")
    assert f"recall is 0.06 ({ends} with 95 % confidence)" in report.decision[0].text


def test_systems_are_rows_and_what_is_0_isnt_shown(
    good: EvaluationResults, bad: EvaluationResults
) -> None:
    table = columns_of(shown(good, bad, width=100))
    assert table["system"] == ["good", "bad", "good", "bad"]
    # good: first hits at ranks 1, 2, 1; bad: at 2, never, failed
    assert table["mrr"] == ["0.83", "0.17"]
    # good: all found within 2; bad: a of {a, b} for q1
    assert table["recall@2"] == ["1.00", "0.17"]
    counts = {"questions": "4", "scored": "3", "nothing relevant": "1"}
    assert {name: table[name] for name in counts} == {name: [n, n] for name, n in counts.items()}
    assert table["nothing retrieved"] == table["failed"] == ["0", "1"]
    assert table["latency p50"] == ["131 ms", "10.0 ms"]  # between 12.4 and 250 ms
    assert "not labelled" not in table  # none is


def test_means_have_their_intervals(good: EvaluationResults) -> None:
    interval = good.scores.intervals()["mrr"]
    assert interval.low is not None
    assert f"0.83 ({interval.low:.2f} to 1.00)" in to_text(good, width=80)
    assert len(to_text(good, width=80).splitlines()) <= 30


def test_slices_are_columns_and_say_how_many_questions_they_rest_on(
    good: EvaluationResults, bad: EvaluationResults
) -> None:
    table = columns_of(shown(good, bad, slice_by=["language"], worst=0, width=100))
    by_language = {"en (1)": ["1.00", "0.50"], "zh (1)": ["0.50", "0.00"]}
    assert {name: table[name] for name in by_language} == by_language


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_line_fits_and_no_value_is_left_out(
    good: EvaluationResults, bad: EvaluationResults, width: int
) -> None:
    systems = [good, bad, results("package.module:檢索器的長名字", dict(good.run))]
    lines = shown(*systems, width=width, slice_by=["language"]).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert not [line for line in lines if line != line.rstrip()]
    heads = " ".join(lines)
    assert all(name in heads for name in ("mrr", "recall@2", "zh (1)"))
