"""What the gate shows: worst queries, sentences, JSON, Markdown and notes."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import TextNode
from markdown_it import MarkdownIt
from support.verdicts import Rankings, scores, verdict_of

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    assert_retrieval,
    check_rules,
    evaluate,
)
from llama_index_rag_metrics.report.escape import markdown as escaped
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.errors import GateFailed, InconclusiveGate


def evaluated(
    rankings: Rankings, queries: Sequence[str] = ("where?", "what <b>is</b> | it?")
) -> EvaluationResults:
    dataset = RetrievalDataset(
        queries={f"q{n}": text for n, text in enumerate(queries)},
        relevance={f"q{n}": {"good": 2, "fine": 1, "bad": 0} for n in range(len(queries))},
    )

    def retrieve(query: str) -> Any:
        if rankings[query] is None:
            raise TimeoutError("asleep")
        return rankings[query]

    return evaluate(retrieve, dataset, ["recall@5"], name="new")


class TestWhatIsShown:
    def test_the_worst_queries_with_what_was_wanted_and_came(self) -> None:
        results = evaluated(
            {"where?": ["good", "fine"], "what <b>is</b> | it?": ["bad", "x", "fine"]}
        )
        (verdict,) = check_rules(results, "recall@5 >= 0.9")
        (worst,) = verdict.worst
        assert worst.record() == {
            "query_id": "q1",
            "question": "what <b>is</b> | it?",
            "score": 0.5,
            "baseline": None,
            "wanted": ["good [2]: never retrieved", "fine [1]: rank 3"],
            "retrieved": ["1. bad [0]", "2. x", "3. fine [1]"],
            "error": "",
        }

    def test_a_query_that_failed_says_so(self) -> None:
        results = evaluated({"where?": ["good", "fine"], "what <b>is</b> | it?": None})
        with pytest.raises(GateFailed, match="failed: TimeoutError: asleep"):
            assert_retrieval(results, "recall@5 >= 0.9")

    def test_a_count_of_failures_says_which_and_why(self) -> None:
        now = scores([0.0, 0.0, 1.0], failed={"q0000": "timeout", "q0001": "<b>"})
        assert check_rules(now, "failed <= 0").notes == (
            "failed: q0000: timeout",
            "failed: q0001: <b>",
        )
        assert check_rules(now, "failed <= 2").notes == ()
        alike = scores([0.0, 0.0, 1.0], failed=dict.fromkeys(("q0000", "q0001"), "timeout"))
        assert check_rules(alike, "failed <= 0").notes == ("failed: 2 × timeout (q0000, q0001)",)

    # the columns are 12, 4, 8, 10, 14 and 9 wide and take 3 more each, the margin 1; the rule takes
    # 33, or in two lines 19: 109 and 95 in all, 83 without the questions, 66 without the bounds

    def test_against_the_baseline_only_losses_are_shown_largest_first(self) -> None:
        verdict = verdict_of([0.1, 0.9, 0.5, 0.0], [0.2, 0.2, 0.9, 0.0])
        assert [query.query_id for query in verdict.worst] == ["q0002", "q0000"]
        assert (verdict.worst[0].score, verdict.worst[0].baseline) == (0.5, 0.9)

    def test_the_message_of_a_failure(self) -> None:
        results = evaluated({"where?": ["x"], "what <b>is</b> | it?": ["good", "fine"]})
        before = evaluated({"where?": ["good"], "what <b>is</b> | it?": ["good", "fine"]})
        with pytest.raises(AssertionError) as caught:
            assert_retrieval(
                results, "recall@5 >= baseline at 99%", "recall@5 >= 0.6", baseline=before
            )
        lines = [" ".join(line.split()) for line in str(caught.value).splitlines()]
        assert any(line.startswith("Retrieval gate of new: fail 2 rules") for line in lines)
        assert "recall@5 >= 0.6 fail 0.50 – – – 2" in lines
        first = "1 of 2 rules failed: recall@5 is 0.50, must be at least 0.6 (2 questions)."
        assert first in lines
        assert "q0 where?" in lines
        # recall@5 was 1 of 2 relevant ones, good and fine
        assert "new 0.00 1. x" in lines
        assert "relevant good [2]: never retrieved" in lines
        assert "fine [1]: never retrieved" in lines

    def test_inconclusive_is_a_warning_or_with_strict_a_failure(self) -> None:
        now, before = scores([0.0] * 2 + [1.0] * 48), scores([1.0] * 50)
        rule = "ndcg@10 >= baseline - 0.02"
        with pytest.warns(InconclusiveGate, match="can't be ruled out with 50 questions"):
            assert_retrieval(now, rule, baseline=before)
        with pytest.raises(GateFailed, match="inconclusive"):
            assert_retrieval(now, rule, baseline=before, strict=True)

    def test_the_first_line_of_a_failure_decides(self) -> None:
        with pytest.raises(GateFailed, match=r"^The rule failed: .* must be at least 0\.5") as told:
            assert_retrieval(scores([0.0, 0.0, 1.0]), "ndcg@10 >= 0.5")
        assert "Retrieval gate" in str(told.value).splitlines()[1]

    def test_a_pass_is_silent(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert assert_retrieval(scores([1.0]), "ndcg@10 >= 0.5").outcome == "pass"

    @pytest.mark.parametrize(
        ("now", "before", "rule", "sentence"),
        [
            (
                [0.0] * 29 + [1.0] * 21,
                [1.0] * 50,
                "ndcg@10 >= baseline - 0.02",
                # -0.58 + 1.676551 × 0.0705
                "ndcg@10 is 0.42 against 1.00 in the baseline, a loss of 0.58 (at least 0.46 "
                "with 95 % confidence); a loss of up to 0.02 is allowed (50 questions).",
            ),
            (
                [0.5] * 50,
                [0.5] * 50,
                "ndcg@10 >= baseline - 0.02",
                # M = 1: error √(2 / 52 / 51) = 0.027462, t(0.95; 51) = 1.675285. A quarter of a
                # change by 1 in 50¼: variance ¼ / 49¼ = 0.005076, share 0.004975; at 181 error
                # √((0.919 + 2 × 1.006) / 183 / 182) = 0.009382, chance √0.919 / 183 = 0.005238:
                # 1.653269 × 0.009382 + 0.841621 × 0.005238 = 0.0199; at 50 0.0570
                "ndcg@10 is 0.50 against 0.50 in the baseline, no change (at worst a loss of 0.05 "
                "with 95 % confidence); a loss of up to 0.02 is allowed (50 questions). A loss of "
                "more than 0.02 can't be ruled out with 50 questions. Use about 190, or allow "
                "0.06.",
            ),
            (
                [0.5],
                [0.5],
                "ndcg@10 >= baseline + 0.2",
                "ndcg@10 is 0.50 against 0.50 in the baseline, no change; a gain of at least 0.2 "
                "is required (1 question). A gain of at least 0.2 isn't shown with 1 question.",
            ),
            (
                [0.6, 0.6],
                [0.5, 0.5],
                "ndcg@10 >= baseline + 0.2 as observed",
                "ndcg@10 is 0.60 against 0.50 in the baseline, a gain of 0.10; a gain of at least "
                "0.2 is required (2 questions).",
            ),
            (
                [0.4, 0.4],
                [0.5, 0.5],
                "ndcg@10 >= baseline as observed",
                "ndcg@10 is 0.40 against 0.50 in the baseline, a loss of 0.10; no loss is allowed "
                "(2 questions).",
            ),
            (
                [math.nan],
                [0.5],
                "ndcg@10 >= baseline",
                "ndcg@10 can't be judged: none of 1 question has a value both now and in the "
                "baseline.",
            ),
        ],
    )
    def test_sentences(
        self, now: list[float], before: list[float], rule: str, sentence: str
    ) -> None:
        assert verdict_of(now, before, rule).sentence == sentence

    @pytest.mark.parametrize(
        ("rule", "wanted"),
        [
            ("calls <= baseline + 0.5 as observed", "a rise of up to 0.5 is allowed"),
            ("calls <= baseline - 0.2 as observed", "a fall of at least 0.2 is required"),
            ("calls <= baseline as observed", "no rise is allowed"),
        ],
    )
    def test_sentences_where_less_is_better(self, rule: str, wanted: str) -> None:
        new, before = scores([4.0, 4.0], "calls"), scores([3.0, 3.0], "calls")
        (verdict,) = check_rules(new, rule, baseline=before)
        assert verdict.sentence == (
            f"calls is 4.00 against 3.00 in the baseline, a rise of 1.00; {wanted} (2 questions)."
        )

    def test_a_value_just_off_the_limit_is_told_from_it(self) -> None:
        (verdict,) = check_rules(scores([0.79999, 0.8]), "ndcg@10 >= 0.8")
        assert verdict.sentence == "ndcg@10 is 0.799995, must be at least 0.8 (2 questions)."

    def test_json(self) -> None:
        report = check_rules(scores([0.25, 0.5]), "ndcg@10 >= 0.5")
        data = json.loads(report.to_json())
        assert data["outcome"] == "fail"
        (verdict,) = data["verdicts"]
        assert (verdict["rule"], verdict["value"], verdict["n"]) == ("ndcg@10 >= 0.5", 0.375, 2)
        assert verdict["worst"][0]["query_id"] == "q0000"


NASTY = (
    "<img src=x> | `code` [a](http://x) **b** _c_ @someone #4321 https://x.org www.x.org ~~d~~ \\"
)


class TestMarkdown:
    def rendered(self, text: str) -> Any:
        return (
            MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
        )

    def test_what_came_from_data_stays_text(self) -> None:
        dataset = RetrievalDataset(queries={"q|<1>": NASTY}, relevance={"q|<1>": ["<b>|x", "a|b"]})
        results = evaluate(lambda query: ["a|b", NASTY], dataset, ["recall@5"], name=NASTY)
        text = check_rules(results, ["recall@5 >= 0.8"]).to_markdown()
        inline = [token for token in self.rendered(text) if token.type == "inline"]
        kinds = {child.type for token in inline for child in token.children or ()}
        assert kinds == {"text"}
        shown = ["".join(child.content for child in token.children or ()) for token in inline]
        assert f"Retrieval gate of {NASTY}: ❌ fail" in shown
        assert {
            f"q|<1>: {NASTY}",
            "relevant <b>|x [1]: never retrieved",
            "relevant a|b [1]: rank 1",
            f"{NASTY} 0.50",
            "1. a|b [1]",
            f"2. {NASTY}",
        } <= set(shown)
        html = {
            token.content.strip() for token in self.rendered(text) if token.type == "html_block"
        }
        assert html == {"<details><summary>Worst questions on recall&#64;5</summary>", "</details>"}

    @pytest.mark.slow
    @given(
        st.text() | st.text("ab1 .|`*_[]()<>&#!\\-+=~:;/@'\"{}^$%,?", max_size=25),
        st.sampled_from(["| head |\n| --- |\n| {} |\n", "- {}\n", "### x {}\n"]),
    )
    def test_any_text_stays_text_wherever_it_stands(self, data: str, line: str) -> None:
        tokens = self.rendered(line.format(escaped(data)))
        inline = [token for token in tokens if token.type == "inline"]
        content = "".join(child.content for child in inline[-1].children or ()) if inline else ""
        assert {child.type for token in inline for child in token.children or ()} <= {"text"}
        assert content.strip() == ("x " * ("x" in line) + plain(data)).strip()
        assert not any(token.type in {"ordered_list_open", "html_block"} for token in tokens)

    def test_nothing_is_left_that_github_would_link(self) -> None:
        for link in ("@someone", "#4321", "https://", "www.x", "a@b.org"):
            assert link in f"{NASTY} a@b.org"
            assert link not in escaped(f"{NASTY} a@b.org")


class TestTheFirstLine:
    def first(self, *rules: str) -> str:
        now, before = scores([0.5] * 50), scores([0.5] * 50)
        report = check_rules(now, rules, baseline=before).report()
        assert report.decision[0].text == to_text(report, width=500).splitlines()[1].strip()
        return report.decision[0].text

    def test_it_says_how_many_rules_failed_and_the_first_one(self) -> None:
        undecided = "ndcg@10 >= baseline - 0.02"
        assert self.first(undecided, "ndcg@10 >= 0.6", "ndcg@10 >= 0.4") == (
            "1 of 3 rules failed: ndcg@10 is 0.50, must be at least 0.6 (50 questions)."
        )
        assert self.first("ndcg@10 >= 0.6", undecided, "ndcg@10 >= 0.7") == (
            "2 of 3 rules failed: ndcg@10 is 0.50, must be at least 0.6 (50 questions)."
        )
        assert self.first("ndcg@10 >= 0.4", undecided).startswith(
            "1 of 2 rules is inconclusive, none failed: ndcg@10 is 0.50 against 0.50"
        )
        assert self.first("ndcg@10 >= 0.4", "failed <= 0") == "All 2 rules are kept."
        assert self.first("ndcg@10 >= 0.4") == (
            "The rule is kept: ndcg@10 is 0.50, must be at least 0.4 (50 questions)."
        )

    def test_rules_that_failed_come_first_in_words_and_rows(self) -> None:
        now, before = scores([0.5] * 50), scores([0.5] * 50)
        rules = ["ndcg@10 >= 0.4", "ndcg@10 >= baseline - 0.02", "ndcg@10 >= 0.6"]
        report = check_rules(now, rules, baseline=before).report()
        outcomes = [row.cells[0].value for row in report.tables("summary")[0].rows]
        assert outcomes == ["fail", "inconclusive", "pass"]
        assert [statement.label for statement in report.decision] == ["fail", "inconclusive"]

    def test_where_all_failed_it_says_so(self) -> None:
        now = scores([0.0, 0.0], failed=dict.fromkeys(("q0000", "q0001"), "timeout"))
        first, *_ = check_rules(now, "ndcg@10 >= 0.4").causes
        assert first == "Nothing was measured: all 2 questions failed (timeout)."

    def test_where_all_failed_a_rule_against_the_baseline_has_no_difference(self) -> None:
        before = scores([1.0, 0.5])
        now = scores([0.0, 0.0], failed=dict.fromkeys(("q0000", "q0001"), "timeout"))
        result = check_rules(now, "ndcg@10 >= baseline - 0.02", baseline=before)
        assert result.outcome == "fail"
        text = to_text(result.report(), width=120)
        assert "Nothing was measured: all 2 questions failed (timeout)." in text


def test_passages_that_the_index_lacks_are_named_as_the_cause() -> None:
    texts = {f"d{n}": f"text {n}" for n in range(20)}
    queries = {f"q{n}": f"text {n}" for n in range(20)}
    dataset = RetrievalDataset(queries, {f"q{n}": [f"d{n}"] for n in range(20)})

    def searched(n_indexed: int) -> EvaluationResults:
        nodes = [TextNode(id_=name, text=text) for name, text in [*texts.items()][:n_indexed]]
        index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
        return evaluate(index, dataset, ["recall@20"])

    report = check_rules(searched(10), "recall@20 >= baseline", baseline=searched(20))
    assert report.outcome == "fail"
    assert report.causes[0].startswith(
        "10 of 20 labels name passages that the index doesn't have, such as 'd10' of question 'q10'"
    )
    assert report.report().decision[1].text == report.causes[0]
    assert not any("the index doesn't have" in note for note in report.notes)
