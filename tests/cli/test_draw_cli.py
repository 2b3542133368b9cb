"""`rag-metrics labels draw`, and what reads a draw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import run

from llama_index_rag_metrics import Draw, RetrievalDataset, score_rankings, write_run
from llama_index_rag_metrics import Run as RunOf

IDS = [f"q{number}" for number in range(30)]
OLD = {query_id: [f"{query_id}-{rank}" for rank in range(4)] for query_id in IDS}
NEW = {
    query_id: ids[::-1] if number % 3 == 0 else ids
    for number, (query_id, ids) in enumerate(OLD.items())
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rankings in (("old", OLD), ("new", NEW)):
        write_run(RunOf(rankings, name=name), tmp_path / f"{name}.jsonl")
    texts = {item: f"text of {item}" for ids in OLD.values() for item in ids}
    RetrievalDataset({each: f"What about {each}?" for each in IDS}, corpus=texts).save("data.jsonl")
    return tmp_path


def test_a_draw_from_two_runs_to_a_verdict(files: Path) -> None:
    drawn = run("labels", "draw", "old.jsonl", "new.jsonl", "-k", "3", "-n", "6", "-o", "draw.json")
    assert drawn.exit_code == 0
    said = "33 % of 30 questions retrieve something else in the first 3; 6 of these 10 are drawn."
    assert " ".join(drawn.output.split()) == f"draw.json: {said}"
    draw = Draw.load(files / "draw.json")

    pooled = run(
        *("labels", "pool", "old.jsonl", "new.jsonl", "--drawn", "draw.json", "-d", "data.jsonl"),
        *("--strategy", "depth", "-o", "pool.jsonl"),
    )
    assert pooled.exit_code == 0
    rows = [json.loads(line) for line in (files / "pool.jsonl").read_text().splitlines()]
    assert {row["query_id"] for row in rows} == set(draw.drawn)
    assert all(row["text"] for row in rows)

    relevant = {query_id: OLD[query_id][:1] for query_id in draw.drawn}
    for name, rankings in (("old", OLD), ("new", NEW)):
        scores = score_rankings(relevant, rankings, ["hit_rate@3"])
        (files / f"{name}.json").write_text(scores.to_json())
    rule = ("--rule", "hit_rate@3 >= baseline - 0.02")
    assert run("gate", "old.json", "-b", "base.json", "--update-baseline", *rule).exit_code == 0
    gate = run("gate", "new.json", "-b", "base.json", "--drawn", "draw.json")
    # the right passage of each drawn question fell from place 1 to 4: the loss is the share
    assert gate.exit_code == 1
    said = " ".join(gate.output.split())
    assert (
        0 < said.index("The rule failed:") < said.index("6 of them, labelled, show the difference")
    )
    assert "a loss of 0.3" in said
    update = run("gate", "new.json", "-b", "base.json", "--update-baseline", "--drawn", "draw.json")
    assert update.exit_code == 2
    absolute = run(
        *("gate", "new.json", "-b", "base.json", "--drawn", "draw.json"),
        *("--rule", "hit_rate@3 >= 0.5"),
    )
    assert absolute.exit_code == 2
    assert "a rule against the baseline" in absolute.output


def test_options_of_a_draw(files: Path) -> None:
    any_order = run(
        *("labels", "draw", "old.jsonl", "new.jsonl", "-k", "4", "--any-order", "-o", "draw.json")
    )
    assert "None of 30 questions retrieves other passages in the first 4" in any_order.output
    whole = run(
        *("labels", "draw", "old.jsonl", "new.jsonl", "--whole", "--seed", "3", "-o", "draw.json")
    )
    assert "33 % of 30 questions retrieve something else: all 10 of these" in whole.output
    assert Draw.load(files / "draw.json").seed == 3
