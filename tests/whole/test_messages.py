"""What a newcomer gets wrong, and what the error tells them to do."""

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.evaluation import resolve_metrics
from llama_index.core.schema import TextNode

from llama_index_rag_metrics import (
    NDCG,
    EmbeddingSimilarity,
    LLMRelevancy,
    RetrieverEvaluator,
    evaluate,
    generate_question_context_pairs,
    register,
    score_rankings,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric

pytestmark = pytest.mark.servers

DATASET = {"queries": {"q": "?"}, "corpus": {}, "relevant_docs": {"q": ["a"]}}


def retrieve(query: str) -> list[str]:
    return ["a"]


@pytest.mark.parametrize(
    ("call", "wording"),
    [
        (lambda: score_rankings({"q": ["a"]}, {"q": ["a"]}, [NDCG]), "Write NDCG()."),  # type: ignore[list-item]
        (lambda: RetrieverEvaluator(metrics=[NDCG], retriever=retrieve), "Write NDCG()."),  # type: ignore[list-item]
        (lambda: register({"my": NDCG}), "a metric class, such as a subclass of BinaryMetric"),  # type: ignore[arg-type]
        (lambda: NDCG(k=0), "ndcg: k must be greater than 0, got 0."),
        (lambda: setattr(NDCG(k=5), "k", 0), "Instance is frozen"),
    ],
)
def test_error_says_what_to_do(call: Callable[[], Any], wording: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert wording in str(caught.value)


def test_unknown_parameter_names_the_nearest() -> None:
    with pytest.raises(UnknownMetric, match=r"ndcg\(mod\)'. Did you mean 'mode'"):
        NDCG(mod="linear")  # type: ignore[call-arg]


@pytest.fixture
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """LlamaIndex's defaults, without a key for them."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("IS_TESTING", raising=False)
    monkeypatch.setattr(Settings, "_llm", None)
    monkeypatch.setattr(Settings, "_embed_model", None)


@pytest.mark.usefixtures("no_models")
def test_missing_model_names_its_argument_and_the_settings() -> None:
    with pytest.raises(InvalidInput, match=r"llm_relevancy needs an LLM.*llm=.*Settings\.llm"):
        evaluate(retrieve, DATASET, [LLMRelevancy()])
    with pytest.raises(InvalidInput, match=r"generate_question.*needs an LLM.*llm=.*Settings\.llm"):
        generate_question_context_pairs([TextNode(text="a")])
    with pytest.raises(InvalidInput, match=r"embed_model=.*Settings\.embed_model"):
        evaluate(retrieve, DATASET, [EmbeddingSimilarity()])


def test_stock_evaluator_knows_any_usual_cutoff() -> None:
    names = ["precision@5", "ap", "ap@10", "recall@100"]
    assert [metric().metric_name for metric in resolve_metrics(names)] == names


def test_further_names_can_be_registered_one_by_one() -> None:
    with pytest.raises(ValueError, match="Invalid metric name"):
        resolve_metrics(["ndcg(mode=exponential)@7"])
    register("ndcg(mode=exponential)@7")
    (made,) = resolve_metrics(["ndcg(mode=exponential)@7"])
    assert made().metric_name == "ndcg(mode=exponential)@7"
    with pytest.raises(UnknownMetric):
        register("ngcd@7")


def test_bare_ndcg_over_short_rankings_says_how_many_and_the_other_mean() -> None:
    expected = {"q1": ["a", "b", "c"], "q2": ["a"], "q3": ["a", "b"], "q4": ["a"]}
    retrieved = {"q1": ["a"], "q2": ["a"], "q3": [], "q4": ["x", "a"]}
    scores = score_rankings(expected, retrieved, ["ndcg", "mrr"])
    (note,) = [note for note in scores.notes if "ideal=all" in note]
    # only q1 retrieved something and less than is relevant: 1 / (1 + 1/log2(3) + 1/2) = .469279;
    # q2 1, q3 0, q4 1/log2(3) = .630930; the mean is .525052
    assert note.startswith("1 of 4 questions got fewer passages than are relevant, and ndcg")
    assert note.endswith("ndcg(ideal=all) has the mean 0.5251")
    whole = score_rankings(expected, retrieved, ["ndcg(ideal=all)", "ndcg@3"])
    assert whole.means["ndcg(ideal=all)"] == pytest.approx(0.525052, abs=5e-7)
    assert not [note for note in whole.notes if "ideal=all" in note]


def test_why_the_default_model_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llama_index.llms.openai", reason="LlamaIndex's default")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(Settings, "_llm", None)
    # LlamaIndex's message begins with a line of asterisks
    with pytest.raises(InvalidInput, match=r"default fails: Could not load OpenAI model\."):
        evaluate(retrieve, DATASET, ["llm_relevancy"])
