"""Nuggets as facets: the published scores by hand, files, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from llama_index_rag_metrics import (
    Nugget,
    Nuggets,
    Relevance,
    RetrievalDataset,
    read_qrels,
    score_files,
    score_rankings,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.rankings.relevance import Support
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput


def five(*supports: Support) -> Nuggets:
    """Three vital nuggets and two okay ones, and how far an answer supports each."""
    importances = ["vital", "vital", "vital", "okay", "okay"]
    nuggets = [
        Nugget(f"fact {number}", importance, {"answer": support})  # type: ignore[arg-type]
        for number, (importance, support) in enumerate(zip(importances, supports, strict=True), 1)
    ]
    return Nuggets({"q": nuggets}, {"q": "why?"})


def facet_recall(nuggets: Nuggets, **options: object) -> float:
    relevance = nuggets.relevance(**options)  # type: ignore[arg-type]
    return float(score_rankings(relevance, {"q": ["answer"]}, ["facet_recall"])["facet_recall"][0])


class TestPublishedScores:
    """Pradeep et al. 2024, arXiv:2411.09607: s = 1 for support, .5 for partial support, else 0.

    All: mean of s over all nuggets; Vital: over the vital ones; Weighted: with 1 for vital ones and
    .5 for others. Strict: .5 counts 0.
    """

    ANSWER = five("full", "partial", "none", "full", "partial")

    @pytest.mark.parametrize(
        ("options", "strict", "lenient"),
        [
            # All Strict (1 + 0 + 0 + 1 + 0) / 5; All (1 + .5 + 0 + 1 + .5) / 5
            ({"okay_weight": 1}, 2 / 5, 3 / 5),
            # Vital Strict (1 + 0 + 0) / 3; Vital (1 + .5 + 0) / 3
            ({"vital_only": True}, 1 / 3, 1.5 / 3),
            # Weighted Strict (1 + .5 * 1) / (3 + .5 * 2); Weighted (1.5 + .5 * 1.5) / 4
            ({}, 1.5 / 4, 2.25 / 4),
        ],
        ids=["all", "vital", "weighted"],
    )
    def test_by_hand(self, options: dict[str, object], strict: float, lenient: float) -> None:
        full = facet_recall(self.ANSWER, **options)
        at_all = facet_recall(self.ANSWER, partial=True, **options)
        assert full == pytest.approx(strict)
        # a half is halfway between nothing and all
        assert (full + at_all) / 2 == pytest.approx(lenient)

    def test_several_passages_support_together(self) -> None:
        nuggets = Nuggets(
            {
                "q": [
                    Nugget("a", "vital", {"d1": "full", "d2": "none"}),
                    Nugget("b", "vital", {"d1": "partial", "d2": "full"}),
                    Nugget("c", "okay", {"d1": "none", "d2": "none"}),
                ]
            }
        )
        run = {"q": ["d3", "d1", "d2"]}
        names = ["facet_recall@2", "facet_recall@3", "complete@3", "judged@3", "precision@3"]
        scores = score_rankings(nuggets.relevance(), run, names)
        # a: 1 of 2.5; a and b: 2 of 2.5; c isn't found; d3 isn't judged; d1 and d2 supply something
        assert [scores[name][0] for name in names] == pytest.approx([0.4, 0.8, 0, 2 / 3, 2 / 3])

    def test_every_metric_of_facets_takes_them(self) -> None:
        relevance = self.ANSWER.relevance()
        names = ["facet_recall", "complete", "alpha_ndcg@5", "err_ia@5", "group_recall", "ndcg@5"]
        assert score_rankings(relevance, {"q": ["answer"]}, names)["alpha_ndcg@5"][0] == 1


def test_a_question_without_any_passage_is_unjudged() -> None:
    nuggets = Nuggets({"q": [Nugget("a")], "r": [Nugget("a", supports={"d": "none"})], "s": []})
    assert nuggets.relevance() == {"r": Relevance.facets({"a": []}, grades={"d": 0})}


def test_a_question_without_a_vital_nugget_has_nothing_to_find() -> None:
    nuggets = Nuggets({"q": [Nugget("a", "okay", {"d": "full"})]})
    relevance = nuggets.relevance(vital_only=True)
    assert list(score_rankings(relevance, {"q": ["d"]}, ["facet_recall"]).excluded) == ["q"]


def test_the_weight_of_other_nuggets_may_be_0_where_there_are_vital_ones_alone() -> None:
    nuggets = Nuggets({"q": [Nugget("a", "vital", {"d": "full"}), Nugget("b", "okay")]})
    expected = nuggets.relevance(vital_only=True)
    assert nuggets.relevance(vital_only=True, okay_weight=0) == expected
    with pytest.raises(InvalidInput, match="okay_weight: expected a number above 0, got 0"):
        nuggets.relevance(okay_weight=0)


MOONS = Nuggets(
    {
        "q1": [
            Nugget("jets of water\u2028vapour {x}", "vital", {"d1": "full", "d2": "partial"}),
            Nugget("月球 </script>", "okay", {"d1": "none", "d2": "full"}),
        ],
        "q2": [],
        "q3": [Nugget("not compared yet")],
    },
    {"q1": "Which moon?", "q2": "Who?", "q3": "When?"},
    {"q2": "BadAnswer: no answer that fits"},
)


class TestFiles:
    def test_all_of_it_comes_back(self, tmp_path: Path) -> None:
        MOONS.save(tmp_path / "nuggets.jsonl")
        again = Nuggets.load(tmp_path / "nuggets.jsonl")
        assert again == MOONS
        assert (again.queries, again.errors) == (MOONS.queries, MOONS.errors)
        assert pickle.loads(pickle.dumps(again)) == MOONS

    def test_they_are_judgements_and_a_dataset(self, tmp_path: Path) -> None:
        path = tmp_path / "nuggets.jsonl"
        MOONS.save(path)
        qrels = read_qrels(path)
        assert qrels["q1"] == MOONS.relevance()["q1"]
        assert RetrievalDataset.load(path).relevance["q1"] == qrels["q1"]
        write_run(Run({"q1": ["d1"]}), tmp_path / "run.jsonl")
        scores = score_files(tmp_path / "run.jsonl", path, ["facet_recall@5"])
        assert scores.by_query("facet_recall@5") == pytest.approx({"q1": 1 / 1.5})
        assert set(scores.excluded) == {"q2", "q3"}

    def test_other_choices_are_judgements_of_their_own(self, tmp_path: Path) -> None:
        path = tmp_path / "vital.jsonl"
        relevance = MOONS.relevance(vital_only=True, partial=True)
        write_qrels(relevance, path)
        assert read_qrels(path) == relevance

    def test_those_of_the_nuggetizer(self, tmp_path: Path) -> None:
        """What its `create` writes: no supports, a query id called qid."""
        path = tmp_path / "created.jsonl"
        path.write_text(
            '{"query": "why?", "qid": "2024-1", "nuggets": [{"text": "a", "importance": "okay"}]}\n'
        )
        assert Nuggets.load(path) == {"2024-1": [Nugget("a", "okay")]}

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"query_id": "q"}', "a question with 'nuggets'"),
            ('{"query_id": "q", "nuggets": ["a"]}', "nuggets, a list of"),
            ('{"query_id": "q", "nuggets": [{"importance": "okay"}]}', "nuggets, a list of"),
            ('{"query_id": "q", "nuggets": [{"text": " "}]}', "isn't blank"),
            ('{"query_id": "q", "nuggets": [{"text": "a", "importance": "high"}]}', "'vital' or"),
            ('{"query_id": "q", "nuggets": [{"text": "a", "supports": {"d": 1}}]}', "'full', 'par"),
            ('{"query_id": "q", "nuggets": [{"text": "a", "supports": ["d"]}]}', "support}"),
            ('{"query_id": "q", "nuggets": [{"text": "a"}, {"text": "a"}]}', "question once"),
            ('{"nuggets": []}', "an id"),
        ],
    )
    def test_a_broken_line_is_named(self, line: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "nuggets.jsonl"
        path.write_text(f'{{"query_id": "p", "nuggets": []}}\n{line}\n')
        with pytest.raises(FileFormatError, match=message) as raised:
            Nuggets.load(path)
        assert raised.value.line == 2

    def test_a_question_stands_once(self, tmp_path: Path) -> None:
        path = tmp_path / "nuggets.jsonl"
        path.write_text('{"query_id": "p", "nuggets": []}\n' * 2)
        with pytest.raises(FileFormatError, match="every question once, got 'p'"):
            Nuggets.load(path)


def test_a_nugget_stands_once() -> None:
    with pytest.raises(InvalidInput, match=r"nuggets of 'q'.*every nugget once"):
        Nuggets({"q": [Nugget("a"), Nugget("a", "okay")]})


def test_a_nugget_does_not_change() -> None:
    supports: dict[str, Support] = {"d": "full"}
    nugget = Nugget("a", supports=supports)
    supports["d"] = "none"
    assert nugget.supported_by() == ["d"]
    with pytest.raises(TypeError):
        nugget.supports["d"] = "none"  # type: ignore[index]


class TestReport:
    def test_says_what_nothing_supports(self) -> None:
        text = str(MOONS)
        assert "3 questions, 3 nuggets" in text
        assert "1 question has errors" in text
        assert "vital: not compared yet" in text
        assert "BadAnswer: no answer that fits" in text

    def test_records(self) -> None:
        rows = MOONS.to_pandas().to_dict("records")
        assert rows[0] == {
            "query_id": "q1",
            "nugget": "jets of water\u2028vapour {x}",
            "importance": "vital",
            "full": ["d1"],
            "partial": ["d2"],
            "looked_at": 2,
        }

    def test_markup_in_texts_is_text(self, tmp_path: Path) -> None:
        hostile = Nuggets({"q": [Nugget("<img src=x onerror=alert(1)>", supports={"d": "none"})]})
        page = hostile.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
        assert "<img src=x" not in page
        assert "<img src=x" not in hostile._repr_html_()

    def test_of_nothing(self) -> None:
        assert "0 nuggets" in str(Nuggets({}))
