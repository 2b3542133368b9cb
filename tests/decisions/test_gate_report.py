"""What the gate shows: sentences, a golden report, JSON, Markdown, notes and causes."""

import json
import math
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import TextNode
from markdown_it import MarkdownIt
from support.golden import check_golden
from support.verdicts import Rankings, scores, verdict_of

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    assert_retrieval,
    check_rules,
    evaluate,
)
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.report.text import escape_markdown
from llama_index_rag_metrics.runtime.errors import GateFailed, InconclusiveGate

QUERIES = ("where?", "what <b>is</b> | it?")


def evaluated(rankings: Rankings, queries: Sequence[str] = QUERIES) -> EvaluationResults:
    dataset = RetrievalDataset(
        queries={f"q{n}": text for n, text in enumerate(queries)},
        relevance={f"q{n}": {"good": 2, "fine": 1, "bad": 0} for n in range(len(queries))},
    )

    def retrieve(query: str) -> Any:
        if rankings[query] is None:
            raise TimeoutError("asleep")
        return rankings[query]

    return evaluate(retrieve, dataset, ["recall@5"], name="new")


def test_json_has_a_row_a_rule() -> None:
    (row,) = json.loads(check_rules(scores([0.5, 1.0]), "ndcg@10 >= 0.9").to_json())
    assert (row["rule"], row["outcome"], row["value"], row["n"]) == (
        *("ndcg@10 >= 0.9", "fail"),
        *(0.75, 2),
    )


def test_message_of_a_failure() -> None:
    results = evaluated({"where?": ["x"], "what <b>is</b> | it?": ["good", "fine"]})
    before = evaluated({"where?": ["good"], "what <b>is</b> | it?": ["good", "fine"]})
    rules = ["recall@5 >= baseline at 99%", "recall@5 >= 0.6", "recall@5 >= baseline as observed"]
    report = check_rules(results, rules, baseline=before).report()
    with pytest.raises(GateFailed) as caught:
        assert_retrieval(results, *rules, baseline=before)
    assert str(caught.value) == f"{report.decision[0].text}\n{to_text(report, width=120)}"
    check_golden("decisions/gate_report.txt", [str(caught.value), to_text(report, width=80)])


class TestWorstQuestions:
    def test_against_the_baseline_only_losses_are_shown_largest_first(self) -> None:
        verdict = verdict_of([0.1, 0.9, 0.5, 0.0], [0.2, 0.2, 0.9, 0.0])
        assert [query.query_id for query in verdict.worst] == ["q0002", "q0000"]
        assert [answer.score.value for answer in verdict.worst[0].answers] == [0.9, 0.5]

    def test_failures_are_named(self) -> None:
        results = evaluated({"where?": ["good", "fine"], "what <b>is</b> | it?": None})
        with pytest.raises(GateFailed, match="failed: TimeoutError: asleep"):
            assert_retrieval(results, "recall@5 >= 0.9")
        now = scores([0.0, 0.0, 1.0], failed={"q0000": "timeout", "q0001": "<b>"})
        assert "<b> (q0001)" in to_text(check_rules(now, "failed <= 0").report(), width=100)


class TestAssertion:
    def test_inconclusive_is_a_warning_or_with_strict_a_failure(self) -> None:
        now, before = scores([0.0] * 2 + [1.0] * 48), scores([1.0] * 50)
        rule = "ndcg@10 >= baseline - 0.02"
        with pytest.warns(InconclusiveGate, match="Too few to tell: use about"):
            assert_retrieval(now, rule, baseline=before)
        with pytest.raises(GateFailed, match=r"^inconclusive: ndcg@10 is 0\.96"):
            assert_retrieval(now, rule, baseline=before, strict=True)

    def test_pass_is_silent(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert assert_retrieval(scores([1.0]), "ndcg@10 >= 0.5").outcome == "pass"


HALF = [0.5] * 50
SENTENCES = [
    # -0.58 + 1.676551 × 0.0705
    ([0.0] * 29 + [1.0] * 21, [1.0] * 50, "ndcg@10 >= baseline - 0.02"),
    # M = 1: error √(2 / 52 / 51) = 0.027462, t(0.95; 51) = 1.675285. A quarter of a change by 1 in
    # 50¼: variance ¼ / 49¼ = 0.005076, share 0.004975; at 181 error √((0.919 + 2 × 1.006) / 183 /
    # 182) = 0.009382, chance √0.919 / 183 = 0.005238: 1.653269 × 0.009382 + 0.841621 × 0.005238 =
    # 0.0199; at 50 0.0570
    (HALF, HALF, "ndcg@10 >= baseline - 0.02"),
    # no tolerance is proposed that nobody would have: of 5, variance ¼ / 4¼ = 0.0588, share 0.0476,
    # M² = 1.0250: error √(2.344 / 7 / 6) = 0.2362, chance √0.2941 / 7 = 0.0775;
    # 1.9432 × 0.2362 + 0.8416 × 0.0775 = 0.52
    ([0.5] * 5, [0.5] * 5, "ndcg@10 >= baseline - 0.02"),
    # nothing shows that an unchanged system lost nothing: a quarter of a change by 1 in 200¼:
    # variance ¼ / 199¼ = 0.001255, share 0.001248, M² = (0.251 + 2) / (0.250 + 2) = 1.0006; error
    # √((0.251 + 2.001) / 202 / 201) = 0.007448, chance √0.251 / 202 = 0.002480: 1.652470 × 0.007448
    # + 0.841621 × 0.002480 = 0.0144
    ([0.5] * 200, [0.5] * 200, "ndcg@10 >= baseline"),
    # 10 of 50 lose 0.5: between -0.153 and -0.052
    ([0.0] * 10 + [0.5] * 40, HALF, "ndcg@10 >= baseline - 0.1"),
    ([0.5], [0.5], "ndcg@10 >= baseline + 0.2"),
    ([0.6, 0.6], [0.5, 0.5], "ndcg@10 >= baseline + 0.2 as observed"),
    ([0.4, 0.4], [0.5, 0.5], "ndcg@10 <= baseline as observed"),
    ([0.6, 0.6], [0.5, 0.5], "ndcg@10 <= baseline + 0.2 as observed"),
    ([0.6, 0.6], [0.5, 0.5], "ndcg@10 <= baseline - 0.2 as observed"),
    ([math.nan], [0.5], "ndcg@10 >= baseline"),
    # a value just off the limit is told from it
    ([0.79999, 0.8], None, "ndcg@10 >= 0.8"),
    ([1.0] * 80 + [0.0] * 20, None, "ndcg@10 >= 0.83 at 95%"),
]


def test_sentences() -> None:
    texts = []
    for now, before, rule in SENTENCES:
        baseline = None if before is None else scores(before)
        (verdict,) = check_rules(scores(now), rule, baseline=baseline)
        texts.append(f"{verdict.rule}: {verdict}")
    check_golden("decisions/gate_sentences.txt", texts)


NASTY = (
    "<img src=x> | `code` [a](http://x) **b** _c_ @someone #4321 https://x.org www.x.org ~~d~~ \\"
)


class TestMarkdown:
    def rendered(self, text: str) -> Any:
        return (
            MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
        )

    def test_text_from_data_stays_text(self) -> None:
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

    def test_report_leaves_nothing_that_github_would_link(self) -> None:
        for link in ("@someone", "#4321", "https://", "www.x", "a@b.org"):
            assert link in f"{NASTY} a@b.org"
            assert link not in escape_markdown(f"{NASTY} a@b.org")


UNDECIDED = "ndcg@10 >= baseline - 0.02"
KEPT, BROKEN = "ndcg@10 >= 0.4", "ndcg@10 >= 0.6"


def test_failures_come_first_in_words_and_rows() -> None:
    texts = []
    for rules in (
        [UNDECIDED, BROKEN, KEPT],
        [BROKEN, UNDECIDED, "ndcg@10 >= 0.7"],
        [KEPT, UNDECIDED],
        [KEPT, "failed <= 0"],
        [KEPT],
    ):
        report = check_rules(scores(HALF), rules, baseline=scores(HALF)).report()
        assert to_text(report, width=500).splitlines()[1].strip() == report.decision[0].text
        rows = [str(row.cells[0].value) for table in report.tables for row in table.rows]
        texts += [", ".join(rows), *(statement.text for statement in report.decision), ""]
    check_golden("decisions/gate_decisions.txt", texts)


def test_report_says_where_all_failed() -> None:
    now = scores([0.0, 0.0], failed=dict.fromkeys(("q0000", "q0001"), "timeout"))
    for rule in (KEPT, UNDECIDED):
        result = check_rules(now, rule, baseline=scores([1.0, 0.5]))
        assert result.outcome == "fail"
        cause = "Nothing was measured on 2 questions: 2 failed (timeout)."
        assert result.report().decision[-1].text == cause
        assert cause in to_text(result.report(), width=120)


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
    content = report.report()
    assert content.decision[1].text.startswith(
        "10 of 20 labels name passages that the index doesn't have, such as 'd10' of question 'q10'"
    )
    assert not any("the index doesn't have" in note for note in content.notes)
