"""What the terminal shows."""

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.evaluation_results import (
    EvaluationResults,
    results_report,
    system_of,
)
from llama_index_rag_metrics.report import terminal
from llama_index_rag_metrics.report.numbers import shown as shown_cell
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import counts_tables, systems_report

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
    run = Run(rankings, name=name, queries=QUERIES, metadata=METADATA)
    scores = score_rankings(RELEVANCE, run, ["mrr", "recall@2"], **options)
    return EvaluationResults(scores)


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
    systems = {system_of(each).name: each for each in reported}
    console = Console(file=page, width=width, color_system=None, highlight=False)
    terminal.print_report(results_report(systems, **options), console=console)
    return page.getvalue()


GOLDEN = """\
 Retrieval of good and bad  3 questions scored; 1 with nothing relevant
 bad: 1 of 4 failed (TimeoutError: [red]too late [31m really), 1 counted as 0;
 without them mrr is 0.25; 1 of 3 got no passages.

Means with 95 % intervals
 system                   mrr              recall@2
 ──────────────────────────────────────────────────
 good     0.83 (0.10 to 1.00)   1.00 (0.44 to 1.00)
 bad      0.17 (0.00 to 0.90)   0.17 (0.00 to 0.90)

Questions and latency
                                 nothing       nothing
 system  questions  scored      relevant     retrieved  failed  latency p50
 ──────────────────────────────────────────────────────────────────────────
 good            4       3             1             0       0       131 ms
 bad             4       3             1             1       1      10.0 ms

mrr by language (scored questions)
 system   en (1)   zh (1)   without (1)
 ──────────────────────────────────────
 good       1.00     0.50          1.00
 bad        0.50     0.00          0.00

Lowest mrr on average
 good: all 4 relevant passages were found; bad: 2 of 3 relevant passages were
 never retrieved.
 in brackets the grade of the label; without: unlabelled
 q2  志工林雅惠什麼時候在服務台？可以陪同填寫入會申請表、說明機器的使用規定嗎？
     relevant        c [1]  c
                     good: rank 2; bad: never retrieved
     good      0.50  1. x  x
     bad       0.00  nothing retrieved
 q4  the one that fails [bold]and holds markup[/bold] [31m
     relevant        d [1]: good: rank 1
     good      1.00  1. d [1]
     bad       0.00  failed: TimeoutError: [red]too late [31m really
 q1  how much is a day ticket?
     bad: 1 of 2 relevant passages was never retrieved.
     relevant        b [1]  b
                     good: rank 2; bad: never retrieved
                     a [2]  “Title of a” and more
                     good: rank 1; bad: rank 2
     good      1.00  1. a [2]  “Title of a” and more
     bad       0.50  1. z [0]

Failed: 1
 bad  TimeoutError: [red]too late [31m really (q4)
"""


def test_systems_stand_side_by_side(good: EvaluationResults, bad: EvaluationResults) -> None:
    """Means by hand: mrr (1 + 1/2 + 1) / 3 and (1/2 + 0 + 0) / 3; q3 has nothing relevant."""
    assert shown(good, bad, slice_by=["language"], worst=3) == GOLDEN


def test_queries_of_none_show_nothing(good: EvaluationResults) -> None:
    assert "Lowest" not in shown(good, worst=0)
    assert "Why: results.worst(), or results.to_html(path)." in str(good)


def test_unknown_key_is_refused(good: EvaluationResults) -> None:
    with pytest.raises(InvalidInput, match="language"):
        shown(good, slice_by=["lang"])


def test_failures_are_listed_ten_at_most() -> None:
    errors = {f"q{n}": Ranking(error=f"OSError: {n}") for n in range(12)}
    scores = score_rankings({query_id: ["a"] for query_id in errors}, Run(errors), "mrr")
    text = shown(scores)
    assert "Failed: 12" in text
    assert "OSError: 9" in text
    assert "OSError: 10" not in text
    assert "other errors (q10, q11)" in text


def test_notes_say_for_whom_they_hold() -> None:
    noted = Scores(["q"], {"mrr": [1.0]}, name="one", notes=["take care", "of all"])
    other = Scores(["q"], {"mrr": [1.0]}, name="two", notes=["of all"])
    text = shown(noted, other)
    assert "! one: take care" in text
    assert "! of all" in text


def test_report_is_on_stdout(good: EvaluationResults, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_report(good.report())
    out, err = capsys.readouterr()
    assert "0.83" in out
    assert err == ""


def test_metric_that_needs_no_labels_says_so() -> None:
    metrics = ["mrr", "bm25_similarity"]
    dataset = RetrievalDataset({"q1": "text", "q2": "text of c"}, {"q1": ["c"]}, {"c": "text of c"})
    results = evaluate(lambda query: ["c"], dataset, metrics)
    assert "bm25_similarity has a value for 2 questions, not 1" in shown(results, width=100)


def test_high_percentile_needs_20_questions() -> None:
    """p95 parts 1 in 20."""
    for n, heads in ((19, ["latency p50"]), (20, ["latency p50", "latency p95"])):
        run = Run({f"q{number}": Ranking(["a"], latency=0.01) for number in range(n)})
        system = System.of(Scores([*run], {"mrr": [1.0] * n}))._replace(retrieval=Retrieval(run))
        (table,) = counts_tables([system])
        assert table.head == heads


def test_page_and_a_sentence_round_an_interval_alike() -> None:
    """Six questions, of which one scores a third: the lower end is far below 0.01."""
    report = systems_report([System.of(Scores([*"abcdef"], {"recall": [0.0] * 5 + [1 / 3]}))])
    (cell,) = report.tables[0].rows[0].cells
    ends = shown_cell(cell).partition(" (")[2].rstrip(")")
    assert ends.startswith("0.00 to ")
    assert f"recall is 0.06 ({ends} with 95 % confidence)" in report.decision[0].text


@pytest.mark.parametrize(
    ("ids", "lines"),
    [
        (("q1", "q2"), ["q1", "q2"]),
        # as much as can be searched for
        (("0b9a3c1e-4f63-4a0e-9d57-1c2f3a4b5c6d", "q2"), ["0b9a3c1e…", "q2"]),
        (("member-fees-concession-1", "q2"), ["member-fees-concessi", "on-1", "q2"]),
    ],
)
def test_ids_of_questions_are_unique(ids: tuple[str, ...], lines: list[str]) -> None:
    rankings = {query_id: ["b"] for query_id in ids}
    worst = score_rankings(dict.fromkeys(ids, ("a",)), rankings, ["mrr"]).worst("mrr")
    starts = [line.split()[0] for line in str(worst).splitlines() if line.startswith(" ")]
    assert [start for start in starts if start in lines] == lines


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_fit_with_all_values(
    good: EvaluationResults, bad: EvaluationResults, width: int
) -> None:
    systems = [good, bad, results("package.module:檢索器的長名字", dict(good.run))]
    lines = shown(*systems, width=width, slice_by=["language"]).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert not [line for line in lines if line != line.rstrip()]
    heads = " ".join(lines)
    assert all(name in heads for name in ("mrr", "recall@2", "zh (1)"))
