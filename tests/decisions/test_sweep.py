"""sweep(): every configuration built, evaluated and compared, with what it costs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    Sweep,
    asweep,
    evaluate,
    metric,
    sweep,
)
from llama_index_rag_metrics.decisions.sweeps.sweeping import file_name
from llama_index_rag_metrics.runtime.errors import InvalidInput, JournalMismatch, LinesSkipped

N = 60
TEXTS = {f"d{number}": f"text {number} " * 5 for number in range(N)}
DATASET = RetrievalDataset(
    {f"q{number}": f"{number}" for number in range(N)},
    {f"q{number}": [f"d{number}"] for number in range(N)},
    TEXTS,
)


class Builder:
    """Builds retrievers that find the right document for a share of the questions."""

    def __init__(self) -> None:
        self.built: list[tuple[int, int]] = []

    def __call__(self, share: int, top_k: int) -> Any:
        if share == 0:
            raise ValueError("nothing to index")
        self.built.append((share, top_k))

        def retrieve(query: str) -> list[NodeWithScore]:
            number = int(query)
            is_hit = number % 10 < share
            ids = [f"d{(number + rank + (not is_hit)) % N}" for rank in range(top_k)]
            return [NodeWithScore(node=TextNode(id_=item, text=TEXTS[item])) for item in ids]

        return retrieve


GRID = {"share": [2, 9], "top_k": [1, 3]}


def split(text: str) -> list[str]:
    return text.split()


def test_quality_and_cost_of_every_configuration() -> None:
    swept = sweep(
        Builder(), GRID, DATASET, ["recall@3", "mrr"], tokenizer=split, price_per_million=2.0
    )
    assert [configuration.name for configuration in swept] == [
        "share=2, top_k=1",
        "share=2, top_k=3",
        "share=9, top_k=1",
        "share=9, top_k=3",
    ]
    alone = evaluate(Builder()(9, 3), DATASET, ["recall@3", "mrr"])
    assert swept["share=9, top_k=3"].mean("mrr") == alone.scores.means["mrr"]
    # 10 words a document: 3 documents, 30 tokens; 1,000 queries at 2 a million tokens
    assert [configuration.tokens for configuration in swept] == [10, 30, 10, 30]
    assert [configuration.price for configuration in swept] == [0.02, 0.06, 0.02, 0.06]
    assert all(configuration.p95 is not None for configuration in swept)
    assert swept[0].params == {"share": 2, "top_k": 1}


def test_the_cheapest_of_those_that_can_not_be_told_apart() -> None:
    swept = sweep(Builder(), GRID, DATASET, ["recall@3"], tokenizer=split)
    assert swept.winner is None
    assert [configuration.params["share"] for configuration in swept.undefeated] == [9, 9]
    assert swept.cheapest is swept["share=9, top_k=1"]
    assert swept.decision == (
        "2 of 4 can't be told apart by recall@3; the cheapest, by tokens, then p95, is "
        "share=9, top_k=1."
    )
    assert {configuration.name for configuration in swept.front} >= {"share=9, top_k=1"}


def test_a_winner_where_there_is_one() -> None:
    swept = sweep(Builder(), {"share": [2, 5, 9], "top_k": [1]}, DATASET, ["recall@3"])
    assert swept.winner is swept["share=9, top_k=1"]
    assert swept.decision == "share=9, top_k=1 is the best of 3 by recall@3."
    assert swept.report().decision[0].tone == "best"


def test_less_can_be_better() -> None:
    swept = sweep(Builder(), GRID, DATASET, ["tokens", "recall"], tokenizer=split)
    assert {configuration.params["top_k"] for configuration in swept.undefeated} == {1}
    assert swept.ranked[0].params["top_k"] == 1
    by_recall = sweep(Builder(), GRID, DATASET, ["tokens", "recall"], primary="recall")
    assert {configuration.params["share"] for configuration in by_recall.undefeated} == {9}


def test_a_failing_configuration_ends_nothing() -> None:
    swept = sweep(Builder(), {"share": [0, 9], "top_k": [1]}, DATASET, ["mrr"])
    assert [configuration.error for configuration in swept] == ["ValueError: nothing to index", ""]
    assert swept.decision.startswith("Only share=9, top_k=1 was evaluated")
    assert "nothing to index" in str(swept)
    nothing = sweep(Builder(), {"share": [0], "top_k": [1]}, DATASET, ["mrr"])
    assert nothing.decision == "No configuration could be evaluated."
    row = "share=0, top_k=1 ValueError: nothing to index"
    assert row in " ".join(str(nothing).split())
    assert "nothing to index" in nothing.to_markdown()
    assert nothing.undefeated == nothing.front == ()


def test_it_goes_on_where_it_ended(tmp_path: Path) -> None:
    whole = sweep(Builder(), GRID, DATASET, ["mrr"], tokenizer=split, journal=tmp_path)
    journals = sorted(tmp_path.glob("*.jsonl"))
    assert len(journals) == 4
    torn = journals[1].read_bytes().splitlines(keepends=True)
    journals[1].write_bytes(b"".join(torn[:20]))
    journals[2].unlink()
    again = Builder()
    resumed = sweep(again, GRID, DATASET, ["mrr"], tokenizer=split, journal=tmp_path)
    assert len(again.built) == 2
    assert [configuration.mean("mrr") for configuration in resumed] == [
        configuration.mean("mrr") for configuration in whole
    ]


def test_another_build_is_another_sweep(tmp_path: Path) -> None:
    def first(top_k: int) -> Any:
        return Builder()(9, top_k)

    def second(top_k: int) -> Any:
        return Builder()(2, top_k)

    sweep(first, {"top_k": [1]}, DATASET, ["mrr"], journal=tmp_path)
    with pytest.raises(JournalMismatch, match="second"):
        sweep(second, {"top_k": [1]}, DATASET, ["mrr"], journal=tmp_path)


class Lingering:
    """Builds one configuration that never comes, and takes its time to be stopped."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = False

    async def __call__(self, top_k: int) -> Any:
        if top_k == 1:
            await self.begun.wait()
            return Builder()(9, top_k)
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.ended = True


def test_nothing_is_left_running_after_an_error(tmp_path: Path) -> None:
    sweep(Builder(), {"share": [9], "top_k": [1]}, DATASET, ["mrr"], journal=tmp_path)
    (journal,) = tmp_path.glob("*.jsonl")
    *lines, _ = journal.read_bytes().splitlines(keepends=True)
    journal.unlink()
    # with an answer missing it is built, and so the other is at work when the journal is refused
    (tmp_path / file_name("top_k=1")).write_bytes(b"".join(lines))
    build = Lingering()

    async def left_running() -> set[asyncio.Task[Any]]:
        with pytest.raises(JournalMismatch):
            await asweep(build, {"top_k": [2, 1]}, DATASET, ["mrr"], at_once=2, journal=tmp_path)
        assert build.ended
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(left_running()) == set()


def test_nothing_is_left_running_when_it_is_cancelled() -> None:
    build = Lingering()

    async def cancelled() -> set[asyncio.Task[Any]]:
        sweeping = asyncio.create_task(asweep(build, {"top_k": [2]}, DATASET, ["mrr"]))
        await build.begun.wait()
        sweeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sweeping
        assert build.ended
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(cancelled()) == set()


async def _abuild(share: int, top_k: int) -> Any:
    await asyncio.sleep(0)
    return Builder()(share, top_k)


def test_asynchronous_builds_at_once() -> None:
    swept = asyncio.run(asweep(_abuild, GRID, DATASET, ["mrr"], at_once=4, tokenizer=split))
    assert [configuration.mean("mrr") for configuration in swept] == [
        configuration.mean("mrr") for configuration in sweep(Builder(), GRID, DATASET, ["mrr"])
    ]
    assert not swept.is_timed
    assert "by tokens, is" in swept.decision
    assert "p95" not in swept.report().sections[0].tables[0].head
    assert "latencies aren't compared" in " ".join(str(swept).split())


def test_an_index_and_chunks_that_one_set_of_labels_judges() -> None:
    """Spans: what the chunks are doesn't matter, as a look at the whole document shows."""
    document = Document(doc_id="book", text=" ".join(f"word{number}" for number in range(300)))
    start = document.text.index("word100")
    wanted = Relevance.of_spans([("book", start, start + 70)])
    dataset = RetrievalDataset({"q": "word100"}, {"q": wanted}, {"book": document.text})

    def build(chunk_size: int) -> VectorStoreIndex:
        splitter = TokenTextSplitter(chunk_size=chunk_size, chunk_overlap=0, tokenizer=split)
        nodes = splitter.get_nodes_from_documents([document])
        return VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))

    names = ["span_recall@100", "span_precision@100"]
    swept = sweep(build, {"chunk_size": [10, 50]}, dataset, names, tokenizer=split)
    # all chunks were retrieved; a cut between two small ones takes the blank, 1 of 70 characters
    assert [configuration.mean("span_recall@100") for configuration in swept] == [69 / 70, 1]
    assert metric("span_recall@100").metric_name == swept.primary


def test_it_is_reported_everywhere(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="plots")
    swept = sweep(Builder(), GRID, DATASET, ["recall@3", "mrr"], tokenizer=split)
    frame = swept.to_pandas()
    assert frame["tokens"].tolist() == [10, 30, 10, 30]
    assert frame["undefeated"].tolist() == [False, False, True, True]
    rows = json.loads(swept.to_json())
    assert [row["share"] for row in rows] == [2, 2, 9, 9]
    assert "share" in swept.to_markdown()
    assert "tabular" in swept.to_latex()
    assert "share" in swept._repr_html_()
    page = swept.to_html(tmp_path / "sweep.html").read_text("utf-8")
    assert "Pareto" in page
    marks = swept.plot("tradeoff").data[0]
    assert list(marks.x) == [10, 30, 10, 30]
    assert list(marks.y) == [configuration.mean("recall@3") for configuration in swept]
    cells = swept.plot("heat_map").data[0]
    assert [list(row) for row in cells.z] == [
        [swept[0].mean("recall@3"), swept[2].mean("recall@3")],
        [swept[1].mean("recall@3"), swept[3].mean("recall@3")],
    ]
    with pytest.raises(InvalidInput, match="two or more parameters"):
        sweep(Builder(), {"share": [9], "top_k": [1]}, DATASET, ["mrr"]).plot("heat_map")


def test_the_head_says_what_all_configurations_share() -> None:
    swept = sweep(Builder(), GRID, DATASET, ["recall@3"], confidence=0.9, tokenizer=split)

    report = swept.report()
    about = dict(report.about)
    assert about["tokens by"] == "split"
    # what differs is said once, in the table, and not again for each configuration
    assert not any("share=" in text for text in about.values())
    assert "90 % interval" in report.sections[0].tables[0].head


def test_names_are_escaped(tmp_path: Path) -> None:
    def build(kind: str) -> Any:
        return Builder()(9, 1)

    swept = sweep(build, {"kind": ["<script>x</script>", "b"]}, DATASET, ["mrr"])
    assert "<script>x" not in swept._repr_html_()
    assert "<script>x" not in swept.to_html(tmp_path / "page.html").read_text("utf-8")


def test_compared_with_one_of_them() -> None:
    swept = sweep(Builder(), GRID, DATASET, ["recall@3"])
    comparison = swept.compare()
    assert comparison.baseline == "share=2, top_k=1"
    assert re.search(r"are better than share=2, top_k=1", comparison.decision)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"build": 3}, "a function of the parameters"),
        ({"grid": {}}, "at least one configuration"),
        ({"at_once": 0}, "configurations to evaluate at once"),
        ({"primary": "ndcg"}, "'mrr'"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"name": "x"}, "it sets that"),
        ({"price_per_million": -1}, "a price from 0 on"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"build": Builder(), "grid": GRID, "dataset": DATASET, **arguments}
    with pytest.raises(InvalidInput, match=message):
        sweep(metrics=["mrr"], **options)


def test_an_unknown_configuration() -> None:
    swept = sweep(Builder(), {"share": [9], "top_k": [1]}, DATASET, ["mrr"])
    assert isinstance(swept, Sweep)
    with pytest.raises(InvalidInput, match="share=9, top_k=1"):
        swept["share=3"]


def test_an_argument_that_there_isnt_is_refused_before_anything_is_built() -> None:
    def build(k: int) -> Any:
        raise AssertionError("nothing is built")

    with pytest.raises(InvalidInput, match=r"sweep\(\) has no argument 'worker'. .*'workers'"):
        sweep(build, {"k": [1]}, DATASET, "mrr", worker=8)  # type: ignore[call-arg]


def test_lines_that_cant_be_read_are_skipped_where_that_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    rows = [json.dumps({"query": f"{n}?", "expected_ids": ["d"]}) for n in range(3)]
    path.write_text("\n".join([*rows, "{broken"]))
    with pytest.warns(LinesSkipped):
        swept = sweep(
            lambda depth: lambda query: ["d"],
            {"depth": [1]},
            path,
            count_tokens=False,
            on_error="skip",
        )
    (finished,) = swept.finished
    assert finished.results is not None
    assert len(finished.results) == 3
