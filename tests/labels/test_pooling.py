"""What to label next: the first passages of every system, what they rank differently first."""

import json
from pathlib import Path

import pytest

from llama_index_rag_metrics import Relevance, RetrievalDataset, Run, read_qrels
from llama_index_rag_metrics.labels import pool
from llama_index_rag_metrics.runtime.errors import InvalidInput


def test_union_of_the_first_without_a_label() -> None:
    runs = {"x": {"q": ["a", "b", "c"]}, "y": {"q": ["d", "b", "e"]}}
    chosen = pool(runs, {"q": {"a": 1, "d": 0, "b": -1}}, depth=2)
    assert [item.id for item in chosen.items] == ["b"]  # a negative grade is no label
    assert (chosen.n_judged, chosen.n_unjudged, chosen.depth) == (2, 1, 2)


def test_passages_ranked_most_differently_come_first() -> None:
    runs = {"x": {"q": ["same", "b", "c"]}, "y": {"q": ["same", "c", "b"]}, "z": {"q": ["same"]}}
    chosen = pool(runs)
    # 1/2 in one system and nothing in another; then by the best rank
    assert [(item.id, item.best_rank, item.spread) for item in chosen.items] == [
        ("b", 2, 0.5),
        ("c", 2, 0.5),
        ("same", 1, 0.0),
    ]
    assert [item.id for item in pool(runs, n=1).items] == ["b"]
    assert pool(runs, n=1).n_unjudged == 3


def test_passage_that_is_retrieved_twice_counts_once() -> None:
    chosen = pool({"x": {"q": ["a", "a", "b"]}}, depth=2)
    assert [(item.id, item.best_rank) for item in chosen.items] == [("a", 1), ("b", 2)]


def test_labels_are_those_of_the_dataset_unless_others_are_given() -> None:
    dataset = RetrievalDataset({"q": "?"}, {"q": Relevance({"a": 1, "b": 0})})
    runs = {"x": {"q": ["a", "b", "c"]}}
    assert [item.id for item in pool(runs, dataset=dataset).items] == ["c"]
    assert len(pool(runs, {}, dataset=dataset)) == 3


def test_file_hides_systems_and_is_read_back_as_judgements(tmp_path: Path) -> None:
    dataset = RetrievalDataset(
        {"q": "Which moon?"}, corpus={"a": "Io, 木衛一", "b": "Triton"}, titles={"a": "Moons"}
    )
    runs = {"secret one": {"q": ["a"]}, "secret two": {"q": ["b"]}}
    pooled = pool(runs, dataset=dataset)
    pooled.to_jsonl(tmp_path / "pool.jsonl")
    text = (tmp_path / "pool.jsonl").read_text(encoding="utf-8")
    records = {record["doc_id"]: record for record in map(json.loads, text.splitlines())}
    assert records["a"] == {
        "query_id": "q", "query": "Which moon?", "doc_id": "a", "text": "Moons\nIo, 木衛一",
    }  # fmt: skip
    assert "secret" not in text
    graded = [json.dumps({**record, "grade": 2}) for record in records.values()]
    (tmp_path / "judgements.jsonl").write_text("\n".join(graded), encoding="utf-8")
    judged = read_qrels(tmp_path / "judgements.jsonl")
    assert judged["q"].grades == {"a": 2, "b": 2}
    assert pool(runs, judged).n_unjudged == 0


def test_texts_come_from_runs_too() -> None:
    from llama_index_rag_metrics import Ranking

    runs = {"x": Run({"q": Ranking(["a"], texts=["text of a"])}), "y": Run({"q": ["b"]})}
    assert {item.id: item.text for item in pool(runs).items} == {"a": "text of a", "b": ""}
    # what was retrieved is what is judged; the dataset has the texts of what came as bare ids
    dataset = RetrievalDataset({"q": "?"}, corpus={"a": "another text of a", "b": "text of b"})
    items = pool(runs, dataset=dataset).items
    assert {item.id: item.text for item in items} == {"a": "text of a", "b": "text of b"}


def test_report_names_items(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    pooled = pool({evil: {"q": ["a"]}, "y": {"q": [evil]}})
    assert "Label 2 passages.\n What differs most comes first: until every" in str(pooled)
    assert evil not in pooled.to_html(tmp_path / "pool.html").read_text()
    assert {record["id"] for record in json.loads(pooled.to_json())} == {"a", evil}
    done = pool({"x": {"q": ["a"]}}, {"q": {"a": 0}})
    assert "Every passage within the first 10 of a system is labelled." in str(done)


@pytest.mark.parametrize(("argument", "options"), [("depth", {"depth": 0}), ("n", {"n": 0})])
def test_wrong_arguments(argument: str, options: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match=f"^{argument}: "):
        pool({"x": {"q": ["a"]}, "y": {"q": ["b"]}}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("runs", [{}, [Run({"q": ["a"]})], 5])
def test_pool_of_no_runs(runs: object) -> None:
    with pytest.raises(InvalidInput, match="runs"):
        pool(runs)  # type: ignore[arg-type]


def test_answers_of_a_repeated_run_each_count() -> None:
    repeated = Run(repeats=[Run({"q": ["a"]}), Run({"q": ["b"]})])
    assert [item.id for item in pool({"x": repeated}).items] == ["a", "b"]
