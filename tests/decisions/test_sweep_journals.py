"""Journals of a sweep: another value's results never come back, and what captures calls resumes."""

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from support.searching_workflows import SearchOnce

from llama_index_rag_metrics import RetrievalDataset, sweep
from llama_index_rag_metrics.decisions.sweeps.sweep_result import Sweep
from llama_index_rag_metrics.decisions.sweeps.sweeping import file_name
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, JournalMismatch
from llama_index_rag_metrics.runtime.journal import JsonLinesJournal

N = 20
DATASET = RetrievalDataset(
    {f"q{number}": f"{number}" for number in range(N)},
    # behind the first two that are retrieved
    {f"q{number}": [f"d{number + 2}"] for number in range(N)},
)
OPTIONS: dict[str, Any] = {"metrics": ["recall@5"]}


class Builder:
    """Builds retrievers of the depth that a value holds, and counts what it builds."""

    def __init__(self) -> None:
        self.n_built = 0

    def __call__(self, model: Any) -> Callable[[str], list[str]]:
        self.n_built += 1
        depth = model() if callable(model) else int(model)
        return lambda query: [f"d{int(query) + rank}" for rank in range(depth)]


def test_results_of_another_value_never_come_back(tmp_path: Path) -> None:
    build = Builder()
    for value, recall, n_built in [(1, 0.0, 1), (3, 1.0, 2), (1, 0.0, 2)]:
        (configuration,) = sweep(build, {"model": [value]}, DATASET, journal=tmp_path, **OPTIONS)
        assert configuration.mean("recall@5") == recall
        assert build.n_built == n_built


def test_values_that_look_alike_are_not_taken_for_one_another(tmp_path: Path) -> None:
    sweep(Builder(), {"model": [3]}, DATASET, journal=tmp_path, **OPTIONS)
    with pytest.raises(JournalMismatch, match="run is"):
        sweep(Builder(), {"model": ["3"]}, DATASET, journal=tmp_path, **OPTIONS)
    with pytest.raises(JournalMismatch, match="run is 'new index, model=3', but the journal has"):
        sweep(Builder(), {"model": [3]}, DATASET, journal=tmp_path, run="new index", **OPTIONS)


def test_value_without_a_name_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    build, model = Builder(), lambda: 3
    with pytest.raises(InvalidInput, match="Name them"):
        sweep(build, {"model": [1, model]}, DATASET, journal=tmp_path, **OPTIONS)
    assert build.n_built == 0
    for n_built in (1, 1):
        named = sweep(build, {"model": {"deep": model}}, DATASET, journal=tmp_path, **OPTIONS)
        assert named["model=deep"].mean("recall@5") == 1.0
        assert build.n_built == n_built


class Neighbours(BaseRetriever):
    """Finds as many documents as it is deep."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        first = int(query_bundle.query_str)
        ids = [f"d{first + rank}" for rank in range(self.depth)]
        # core before 0.14 takes nodes of one text for one node
        nodes = [TextNode(id_=node_id, text=node_id) for node_id in ids]
        return [NodeWithScore(node=node) for node in nodes]


def _function(depth: int) -> Any:
    async def ask(question: str) -> str:
        await Neighbours(depth).aretrieve(question)
        return "an answer"

    return ask


def _function_of_ids(depth: int) -> Any:
    async def ask(question: str) -> list[str]:
        return [f"d{int(question) + rank}" for rank in range(depth)]

    return ask


def _workflow(depth: int) -> SearchOnce:
    return SearchOnce(Neighbours(depth))


def _chat_engine(depth: int) -> ContextChatEngine:
    return ContextChatEngine.from_defaults(retriever=Neighbours(depth), llm=MockLLM())


def test_shallow_journal_of_an_index_is_no_deeper_one(tmp_path: Path) -> None:
    """An index is asked for the largest cutoff: 3 passages aren't the first 10 of it."""
    nodes: list[BaseNode] = [TextNode(id_=f"d{n}", text=f"{n}") for n in range(N)]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=2))

    def asked(name: str) -> Sweep:
        grid: dict[str, Any] = {"model": [1], "min_score": [None, 0.0]}
        return sweep(lambda model: index, grid, DATASET, [name], journal=tmp_path)

    for _ in range(2):
        runs = [each.results.run for each in asked("recall@3") if each.results is not None]
        assert [len(run["q0"].ids) for run in runs] == [3, 3]
    with pytest.raises(JournalMismatch, match="depth is '10', but the journal has '3'"):
        asked("recall@10")


@pytest.mark.parametrize("build", [_function, _function_of_ids, _workflow, _chat_engine])
def test_source_that_captures_calls_is_resumed(build: Callable[[int], Any], tmp_path: Path) -> None:
    grid = {"depth": [1, 3]}
    built: list[int] = []

    def counted(depth: int) -> Any:
        built.append(depth)
        return build(depth)

    whole, again = (sweep(counted, grid, DATASET, journal=tmp_path, **OPTIONS) for _ in range(2))
    assert built == [1, 3]
    torn = tmp_path / file_name("depth=3")
    torn.write_bytes(b"".join(torn.read_bytes().splitlines(keepends=True)[:7]))
    resumed = sweep(counted, grid, DATASET, journal=tmp_path, **OPTIONS)
    assert built == [1, 3, 3]
    for found in (whole, again, resumed):
        assert not found.failed
        assert [configuration.mean("recall@5") for configuration in found] == [0.0, 1.0]
        for configuration, first in zip(found, whole, strict=True):
            assert configuration.results is not None
            assert first.results is not None
            assert _retrieved(configuration.results.run) == _retrieved(first.results.run)


def _retrieved(run: Run) -> dict[str, Any]:
    """All but the seconds that it took."""
    return {
        query_id: (ranking.ids, [(call.query, call.ids) for call in ranking.calls or ()])
        for query_id, ranking in run.items()
    }


def test_row_that_is_whole_but_odd_ends_the_sweep(tmp_path: Path) -> None:
    build = Builder()
    sweep(build, {"model": [3]}, DATASET, journal=tmp_path, **OPTIONS)
    path = tmp_path / file_name("model=3")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = json.dumps({"query_id": "q0", "retrieved_ids": 7}).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(FileFormatError, match="line 2"):
        sweep(build, {"model": [3]}, DATASET, journal=tmp_path, **OPTIONS)


SECRETS = ("zq7-Xy-plain", "zq7-Xy-other", "hunter22x", "QQQ-7777")
URL = f"https://me:{SECRETS[2]}@localhost/v1?api_key={SECRETS[3]}"


def _build_with_key(api_key: str, base_url: str) -> Any:
    if api_key == SECRETS[1]:
        raise ValueError(f"{api_key} is refused at {base_url}, as is {SECRETS[2]}")
    return lambda query: ["d3"]


@pytest.mark.parametrize("refused", [False, True])
def test_secrets_of_a_grid_are_written_nowhere(refused: bool, tmp_path: Path) -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    logger = logging.getLogger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    keys = {"one": SECRETS[0], "other": SECRETS[1] if refused else "zq7-Xy-third"}
    grid = {"api_key": keys, "base_url": {"here": URL}}
    try:
        found = sweep(_build_with_key, grid, DATASET, journal=tmp_path / "sweep", **OPTIONS)
        again = sweep(_build_with_key, grid, DATASET, journal=tmp_path / "sweep", **OPTIONS)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert [configuration.name for configuration in again] == [
        configuration.name for configuration in found
    ]
    assert "lock" in lines.getvalue()
    written = [lines.getvalue(), repr(list(found)), *_outputs(found, tmp_path)]
    written += [path.name + path.read_text("utf-8") for path in (tmp_path / "sweep").iterdir()]
    for text in written:
        assert not any(secret in text for secret in (*SECRETS, "zq7-Xy-third"))


def _outputs(found: Sweep, folder: Path) -> list[str]:
    page = found.to_html(folder / "page.html").read_text("utf-8")
    return [
        str(found), repr(found), found.decision, found.to_json(), found.to_markdown(),
        found._repr_html_(), found.to_pandas().to_csv(), page,
    ]  # fmt: skip


def test_busy_journal_ends_the_sweep(tmp_path: Path) -> None:
    grid = {"model": [1, 3]}
    path = tmp_path / file_name("model=3")
    with JsonLinesJournal(path, {"format": "another"}, dict), pytest.raises(JournalMismatch):
        sweep(Builder(), grid, DATASET, journal=tmp_path, **OPTIONS)


@pytest.mark.filterwarnings("ignore::llama_index_rag_metrics.runtime.errors.EveryQueryFailed")
def test_configurations_that_are_left_decide_nothing() -> None:
    def build(model: int) -> Any:
        def retrieve(query: str) -> list[str]:
            if model == 9:
                raise ConnectionError("down")
            return Builder()(model)(query)

        return retrieve

    found = sweep(build, {"model": [1, 3, 9]}, DATASET, workers=1, **OPTIONS)
    assert [configuration.name for configuration in found.failed] == ["model=9"]
    reason = "Nothing was measured on 20 questions: 20 failed (ConnectionError: down)."
    assert found["model=9"].failure("recall@5") == reason
    assert found["model=9"].results is not None
    assert found.winner is None
    assert found.decision == (
        f"No decision: 1 configuration failed and may be better ({reason[:-1]}). "
        "Of the others: model=3 is the best of 2 on recall@5 (95 % confidence, 20 questions)."
    )
    assert [configuration.name for configuration in found.ranked] == ["model=3", "model=1"]
    assert "failed: Nothing was measured on 20" in " ".join(found.to_markdown().split())


def test_interval_has_the_confidence_of_the_sweep() -> None:
    for confidence in (0.5, 0.95):
        found = sweep(Builder(), {"model": [3]}, DATASET, confidence=confidence, **OPTIONS)
        cell = found.report().tables[0].rows[0].cells[1]
        wanted = found.results["model=3"].scores.intervals(confidence=confidence)["recall@5"]
        assert (cell.low, cell.high) == (wanted.low, wanted.high)
