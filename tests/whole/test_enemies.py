"""Odd arguments and odd data: refused or made harmless, and in no more than linear time."""

import math
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from support.retrievers import Scripted, node

from llama_index_rag_metrics import (
    LLMRelevancy,
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    check_rules,
    compare,
    evaluate,
    metric,
    read_qrels,
    score_rankings,
    score_table,
)
from llama_index_rag_metrics.cli.commands import chosen_metrics, split_names
from llama_index_rag_metrics.decisions.gate.rules import parse_rules
from llama_index_rag_metrics.labels.question_generation import parse
from llama_index_rag_metrics.report.text import escape_markdown
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning, RagMetricsError
from llama_index_rag_metrics.runtime.masking import mask

QUERIES = {f"q{number}": f"{number}?" for number in range(6)}
DATASET = RetrievalDataset(QUERIES, {query_id: ["d"] for query_id in QUERIES}, {"d": "a text"})


READERS: dict[str, Callable[[str], Any]] = {
    "metric": metric,
    "names": split_names,
    "options": lambda text: chosen_metrics([text]),
    "rule": lambda text: parse_rules([text]),
    "answer": parse,
    "masked": mask,
    "markdown": escape_markdown,
}
PIECES = [
    " ", ",", "(", "(,", ")", "a", "*", "**a", "*a ", "\n", "<think>", "- ", "1. ", "? ", "?*",
    "?(", "bearer ", "api_key: ", "sk-", "eyJ", "://a", "0", "a_", "<", "`", "| ", "#", "=",
]  # fmt: skip
N = 1_500


def seconds(read: Callable[[str], Any], text: str) -> float:
    """The thread's own time: what other processes take doesn't count."""
    begin = time.thread_time()
    with suppress(RagMetricsError):
        read(text)
    return time.thread_time() - begin


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("reader", READERS)
def test_time_grows_as_the_text_does(reader: str, piece: str) -> None:
    read = READERS[reader]
    read_seconds = {n: seconds(read, f"?{piece * n}!") for n in (1, N)}
    if read_seconds[N] < 0.002:
        # sixteen times as long, it would take 0.5 s if time were quadratic: a limit that is far
        # from both
        assert seconds(read, f"?{piece * (16 * N)}!") < 0.3
        return
    # of sixteen times the text: 16 times the time, where it is linear, and 256 where quadratic
    growth = min(
        seconds(read, f"?{piece * (16 * N)}!") / seconds(read, f"?{piece * N}!") for _ in range(3)
    )
    assert growth < 64


def test_commas_divide_outside_of_brackets() -> None:
    assert split_names("a,b(c,d),,g(h") == ["a", "b(c,d)", "", "g(h"]
    assert split_names("") == [""]


class Bytes(TextNode):
    def get_content(self, metadata_mode: MetadataMode = MetadataMode.NONE) -> str:
        return b"a text"  # type: ignore[return-value]


def test_content_that_is_no_text_is_refused() -> None:
    odd = NodeWithScore(node=Bytes(id_="d"), score=1.0)
    with pytest.raises(InvalidInput, match=r"a text from get_content\(\) of node 'd'"):
        evaluate(Scripted({text: [odd] for text in QUERIES.values()}), DATASET, ["mrr"])


def test_failed_ranking_is_empty_whatever_it_holds() -> None:
    """q failed: 0, though its ids have the label; p: 1. The mean is 1/2, in lists and in tables."""
    pa = pytest.importorskip("pyarrow")
    run = Run({"q": Ranking(["d"], tokens=[1], error="timeout"), "p": Ranking(["d"], tokens=[1])})
    metrics = ["mrr", "recall@2tokens"]
    scores = score_rankings({"q": ["d"], "p": ["d"]}, run, metrics)
    assert scores.means == {"mrr": 0.5, "recall@2tokens": 0.5}
    columns: dict[str, Any] = {"retrieved_ids": [["d"], ["d"]], "expected_ids": [["d"], ["d"]]}
    columns |= {"retrieved_tokens": [[1], [1]], "error": ["timeout", ""]}
    table = score_table(pa.table(columns), metrics)
    assert [table[name].to_pylist() for name in metrics] == [[0.0, 1.0]] * 2
    assert Ranking(["d"], error="").error is None  # as tables write it where nothing went wrong


def test_scores_keep_the_labels_that_they_were_scored_with() -> None:
    """Labels that change later aren't those of earlier scores: the two don't compare."""
    lists, grades = {query_id: ["d"] for query_id in QUERIES}, {"d": 1}
    run, dataset = Run(dict.fromkeys(QUERIES, ("d", "e"))), RetrievalDataset(QUERIES, lists)

    def scored() -> list[Any]:
        labels = lists, dict.fromkeys(QUERIES, grades)
        scores = [score_rankings(each, run, "mrr") for each in labels]
        return [*scores, evaluate(lambda query: ["d", "e"], dataset, "mrr")]

    before = scored()
    for query_id in QUERIES:
        lists[query_id][:] = ["e"]
        dataset.relevance[query_id] = Relevance(["e"])
    grades |= {"d": 0, "e": 1}
    for then, now in zip(before, scored(), strict=True):
        with pytest.raises(InvalidInput, match="6 with other labels"):
            compare({"before": then, "now": now}, "before")


def test_copies_of_results_keep_whole_texts() -> None:
    """Of 400 words and 3, a budget of 300 holds nothing, also after a pickle."""
    nodes = [NodeWithScore(node=TextNode(id_="x", text="word " * 400), score=1.0)]
    results = evaluate(lambda query: [*nodes, node("d", score=0.5)], DATASET, "mrr")
    run = pickle.loads(pickle.dumps(results)).run
    scores = score_rankings(DATASET, run, "recall@300tokens", tokenizer=str.split)
    assert scores.means == {"recall@300tokens": 0.0}
    assert scores.notes[-1].startswith("tokens by str.split, of the texts alone")


def test_systems_matched_with_other_texts_of_labels_do_not_compare() -> None:
    fires = NodeWithScore(node=TextNode(text="The kiln fires at 1240 degrees."), score=1.0)
    scores = {}
    for name, text in {"a": "the kiln fires at 1240 degrees", "b": "who may open the kiln"}.items():
        dataset = RetrievalDataset(QUERIES, expected_texts={key: [text] for key in QUERIES})
        scores[name] = evaluate(lambda query: [fires], dataset, "mrr", matcher="text").scores
    stored = {name: Scores.from_json(each.to_json()) for name, each in scores.items()}
    for systems in (scores, stored):
        with pytest.raises(InvalidInput, match="6 with other texts of labels"):
            compare(systems, "a")


def test_parts_of_labels_that_nobody_reads_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"expected the arguments of Relevance.*got 'weight'"):
        Relevance({"facets": {"x": ["a"], "y": ["b"]}, "weight": {"x": 3}})
    with pytest.raises(InvalidInput, match="none beside facets"):
        Relevance(facets={"x": ["a"]}, groups=[["b"]])
    with pytest.raises(RagMetricsError, match="every id once"):
        read_qrels({"q": {1: 1, "1": 2}})


def test_labels_without_a_place_are_said() -> None:
    """q has a of a and b, p, whose label has no place, 0."""
    labels = {"q": Relevance(["a", "b"], spans={"a": ("doc", 0, 10)}), "p": Relevance(["c"])}
    found = Ranking(["n"], spans=[("doc", 0, 10)])  # type: ignore[list-item]
    scores = score_rankings(labels, Run({"q": found, "p": found}), "span_recall")
    assert scores.means == {"span_recall": 0.5}
    assert scores.notes[0].startswith("2 of 3 relevant passages have no place")


def test_passages_without_a_text_are_said() -> None:
    """1 of 2 texts shares the question's only word: half of ln(1 + 0.5 / 1.5), not in silence."""
    dataset = RetrievalDataset({"q": "text"}, {"q": ["d"]}, {"d": "text"})
    scores = evaluate(lambda query: ["d", "unknown"], dataset, "bm25_similarity").scores
    assert scores.means["bm25_similarity"] == pytest.approx(math.log(1 + 0.5 / 1.5) / 2)
    assert scores.label_notes[0].startswith("1 of 2 passages have no text")
    judge = LLMRelevancy(llm=MockLLM())
    with pytest.warns(LabelWarning, match="couldn't be graded; 'q': InvalidInput: run"):
        assert judge.grade({"q": "?"}, Run({"q": Ranking(["d", "e"], texts=["a", ""])})) == {}


class Halved(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
        for item in nodes:
            item.score /= 2
        return nodes


def test_nodes_of_a_retriever_stay_as_they_are() -> None:
    """Half of 1 is above 0.4 for every question, not for the first alone."""
    kept = [node("d")]
    options: Any = {"node_postprocessors": [Halved()], "min_score": 0.4}
    assert evaluate(lambda query: kept, DATASET, "mrr", **options).scores.means == {"mrr": 1.0}


def test_journals_hold_answers_without_the_texts_of_a_corpus(tmp_path: Path) -> None:
    for text in ("a kiln", "fire"):
        dataset = RetrievalDataset({"q": "kiln"}, {"q": ["d"]}, {"d": text})
        results = evaluate(lambda query: ["d"], dataset, "mrr", journal=tmp_path / "j.jsonl")
        assert results.run["q"].texts == [text]


def test_systems_with_other_tokenizers_are_said() -> None:
    results: Any = {}
    for name, function in {"words": str.split, "letters": list_of_letters}.items():
        options: Any = {"tokenizer": function}
        results[name] = evaluate(lambda query: [node("d")], DATASET, "mrr@2tokens", **options)
    said = "tokens otherwise, which scores may show: words by str.split, letters by list_of_letters"
    assert said in compare(results, "words").notes


def list_of_letters(text: str) -> list[str]:
    return list(text)


MOONS = [node("a1", document="a"), node("a2", document="a"), node("b1", document="b")]


def test_note_counts_chunks_under_one_id_where_tokens_count() -> None:
    """Of three words each; the second of a is a copy, which costs nothing."""
    dataset = RetrievalDataset({"q": "?"}, {"q": ["b"]})
    options: dict[str, Any] = {"match_on": "ref_doc_id", "tokenizer": str.split}
    results = evaluate(lambda query: MOONS, dataset, ["mrr", "recall@6tokens"], **options)
    assert results.scores.means == {"mrr": 0.5, "recall@6tokens": 1}
    assert results.scores.label_notes[0].startswith("1 of 1 rankings have several passages under")
    for chunks, name in ((MOONS, "mrr"), ([MOONS[2]] * 2, "recall@2tokens")):  # or copies
        others = evaluate(lambda query, chunks=chunks: chunks, dataset, [name], **options)
        assert "several passages" not in " ".join(others.scores.notes)


def test_only_metrics_that_compare_ids_are_not_valid_where_ids_do_not_fit() -> None:
    chunk = node("b1", document="b")  # of what labels name
    chunk.node.start_char_idx, chunk.node.end_char_idx = 0, 14  # type: ignore[attr-defined]
    dataset = RetrievalDataset({"q": "?"}, {"q": Relevance({"b": 1}, spans={"b": ("b", 0, 14)})})
    results = evaluate(lambda query: [chunk], dataset, ["span_recall@3", "mrr"])
    (means,) = [table for table in results.report().tables if "Means" in table.title]
    assert [cell.value for cell in means.rows[0].cells] == [1.0, "not valid"]


def test_all_labels_are_counted_where_next_to_none_were_retrieved() -> None:
    scores = score_rankings([["a", "b", "c"]] * 6, [["x"]] * 6, "recall@1")
    assert scores.notes[0].startswith("0 of 18 labels")  # not of the 6 that six passages could be


def test_rule_on_questions_without_an_answer_takes_bare_scores() -> None:
    [verdict] = check_rules(Scores(["q1", "q2"], {"abstained": [1.0, 0.0]}), ["abstained >= 0.5"])
    assert verdict.outcome == "pass"
