"""What the first sentences add to a mean: whether it is valid, what was lost, what is missing."""

import warnings

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llama_index_rag_metrics import RetrievalDataset, Scores, compare, evaluate, score_rankings
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, results_report
from llama_index_rag_metrics.report.numbers import shown

TEXTS = {f"p{n}": f"Passage {n} tells of the year {1500 + n} and of a voyage." for n in range(8)}
VOYAGES = RetrievalDataset(
    {f"q{n}": f"Voyage {n}?" for n in range(8)},
    {f"q{n}": [f"p{n}"] for n in range(8)},
    corpus=TEXTS,
)


class Again(BaseRetriever):
    """Finds all passages, all but the first few under other ids."""

    def __init__(self, n_kept: int) -> None:
        self.n_kept = n_kept
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = [
            TextNode(id_=name if n < self.n_kept else f"new-{n}", text=text)
            for n, (name, text) in enumerate(TEXTS.items())
        ]
        return [NodeWithScore(node=node, score=1.0) for node in nodes]


def again(n_kept: int, name: str = "") -> EvaluationResults:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(Again(n_kept), VOYAGES, ["recall"], name=name)


def sentences(results: Scores | EvaluationResults) -> list[str]:
    return [statement.text for statement in results.report().decision]


UNDER_OTHER_IDS = (
    "relevant passages came under other ids. Match by text (matcher='text', --matcher text), or "
    "move the labels (rag-metrics labels move)."
)


def test_labels_under_other_ids_come_first_and_in_alarm() -> None:
    report = again(0).report()
    (first,) = report.decision
    assert first.tone == "alarm"
    assert first.text == f"Not a valid score: 8 of 8 {UNDER_OTHER_IDS}"
    (recall, *_) = report.tables[0].rows
    assert [cell.value for cell in recall.cells] == ["not valid"]
    assert not report.figures
    (hardest,) = report.listings
    assert hardest.lead == "8 of 8 relevant passages are under another id."
    assert hardest.queries[0].answers[0].score.value is None
    queries = again(0).report(full=True).queries
    assert queries is not None
    assert {answer.score.value for story in queries().stories for answer in story.answers} == {None}
    assert not queries().places  # as asked
    assert "scored" not in report.tables[1].head
    assert not any("valid" in note for note in report.notes)  # it is said once
    assert sentences(again(0).scores)[0] == first.text


def test_labels_of_which_most_are_under_other_ids() -> None:
    # by id 3 of 8 are found, by text the 5 others
    assert sentences(again(3))[0] == f"Not a valid score: 5 of 8 {UNDER_OTHER_IDS}"
    assert "valid" not in " ".join(sentences(again(5)))


def test_systems_of_which_one_is_not_valid() -> None:
    compared = compare({"old": again(8), "new": again(0)}, "old")
    first, verdict = compared.report().decision
    assert first.text.startswith("new: Not a valid score: 8 of 8 relevant passages")
    assert first.tone == "alarm"
    assert verdict.text.startswith("Nothing can be said about new and old")


def test_losses_and_what_could_find_them() -> None:
    # of 4 questions, 2 hit within the first 2; one has its passage at 3, one never
    dataset = RetrievalDataset({n: n for n in "0123"}, {n: ["a"] for n in "0123"})
    ranked = {"0": [*"abc"], "1": [*"bac"], "2": [*"bca"], "3": [*"bcd"]}
    deep = evaluate(ranked.__getitem__, dataset, ["recall@2"])
    assert sentences(deep)[1] == (
        "2 of 4 questions got no relevant passage in the first 2; 1 of 4 relevant passages was "
        "never retrieved, 1 is below the cutoff. A reranker could lift 1 of them."
    )


def test_first_line_says_that_questions_are_too_few() -> None:
    # hits 3 of 6: Wilson's interval is 0.188 to 0.812, so 6 · (0.624 / 0.25)² = 37.5
    retrieved = {f"q{n}": ["a" if n < 3 else "b"] for n in range(6)}
    scores = score_rankings({query_id: ["a"] for query_id in retrieved}, retrieved, "mrr")
    assert sentences(scores)[-1] == (
        "6 questions are too few: the interval is 0.62 wide; with about 38 it would be 0.25."
    )
    many = Scores([f"q{n}" for n in range(100)], {"mrr": [1.0, 0.5] * 50})
    assert len(sentences(many)) == 1


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("mrr", "Interval approximate: all questions have the same score."),
        ("returned", "No interval: all questions have the same score."),
    ],
)
def test_scores_that_are_all_the_same(metric: str, sentence: str) -> None:
    scores = Scores([f"q{n}" for n in range(50)], {metric: [1.0] * 50})
    assert sentences(scores)[-1] == sentence


def test_difference_that_is_shown_has_the_digits_that_show_it() -> None:
    # b is 0.001 better on each of 40 questions, which carry two digits; none of them scores more
    # than 0.005, so that no other question is taken to change by more
    ids = [f"q{n}" for n in range(40)]
    low = [n / 10_000 for n in range(40)]
    high = [score + 0.001 for score in low]
    compared = compare({"a": Scores(ids, {"mrr": low}), "b": Scores(ids, {"mrr": high})}, "a")
    assert compared["b", "mrr"].outcome == "better"
    a, b = (row.cells[0] for row in compared.report().tables[0].rows)
    assert a.digits == b.digits > 2
    # the means are 0.00195 and 0.00295
    assert shown(a) != shown(b)
    assert shown(a).startswith("0.00")


def test_names_are_counted_where_there_are_many() -> None:
    ids = [f"q{n}" for n in range(40)]
    systems = {
        f"openai-large-k{k}": Scores(ids, {"mrr": [(n * k) % 7 / 7 for n in range(40)]})
        for k in (1, 2, 3, 4, 5)
    }
    compared = compare(systems, "openai-large-k1")
    assert compared.decision.endswith("keep openai-large-k1.")
    title = "openai-large-k2, openai-large-k3 and 2 more against openai-large-k1"
    assert compared.report().title == title


def test_systems_of_other_sizes_are_counted_from_the_smallest_to_the_largest() -> None:
    parts = {name: Scores([*name], {"mrr": [1.0] * len(name)}) for name in ("ab", "cde")}
    assert results_report(parts).lead == "2 to 3 questions scored"
    assert results_report({"ab": parts["ab"], "again": parts["ab"]}).lead == "2 questions scored"
