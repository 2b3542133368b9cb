"""Scores against the programs of trec_eval: every value that they print of a metric of ours."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from support.trec_eval_program import GOLDEN, VERSIONS, NotBuilt, build, name_of, odd_files, output

from llama_index_rag_metrics import Relevance, Scores, metric, read_qrels, read_run, score_rankings

pytestmark = pytest.mark.peers

N_FILES = 150
"""Of each version."""

IN_CI = "RAG_METRICS_CI" in os.environ


@pytest.fixture(scope="module", params=VERSIONS)
def program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Path]:
    try:
        return request.param, build(request.param, tmp_path_factory.mktemp("trec_eval"))
    except NotBuilt as missing:
        if IN_CI:
            raise
        pytest.skip(str(missing))


def assert_equal(options: list[str], folder: Path, printed: list[str]) -> int:
    """To the four decimals that are printed, of questions and of means; says how many."""
    level = int(options[options.index("-l") + 1]) if "-l" in options else 1
    depth = int(options[options.index("-M") + 1]) if "-M" in options else None
    lines = [line.split("\t") for line in printed]
    names = {label.strip(): name_of(label.strip(), level) for label, _, _ in lines}
    known = {label: name for label, name in names.items() if name is not None}
    qrels, run, rankings = read_qrels(folder / "qrels"), read_run(folder / "run"), {}
    for query_id, ranking in run.items():
        grades = Relevance(qrels.get(query_id, ())).grades
        rankings[query_id] = list(ranking.ids)[:depth]
        if "-J" in options:
            rankings[query_id] = [i for i in rankings[query_id] if grades.get(i, -1) >= 0]
    scores = score_rankings(qrels, rankings, dict.fromkeys(known.values()), no_relevant="zero")
    averaged = sorted(scores.query_ids)
    if "-c" not in options:
        averaged = [query_id for query_id in averaged if query_id in run and run[query_id].ids]
    n_compared = 0
    for label, query_id, text in lines:
        name = known.get(label.strip())
        if name is not None:
            value = mean_of(scores, name, averaged)
            if query_id != "all":
                value = scores.by_query(name)[query_id]
            assert f"{value:6.4f}" == text, (label, query_id)
            n_compared += 1
    return n_compared


def mean_of(scores: Scores, name: str, query_ids: list[str]) -> float:
    """As trec_eval adds them up: one after another, on which the last printed digit depends."""
    by_query = scores.by_query(metric(name).metric_name)
    values = [by_query[query_id] for query_id in query_ids]
    return float(np.cumsum(values)[-1] / len(values)) if values else 0.0


def test_odd_files(program: tuple[int, Path], tmp_path: Path) -> None:
    version, binary = program
    for seed in range(N_FILES):
        rng = random.Random(seed)
        complete = rng.random() < 0.5
        options = [
            "-q",
            "-c" if complete else "",
            rng.choice(["", "", "-l 2", "-l 3"]),
            rng.choice(["", "", "-J"]),
            rng.choice(["", "", "-M 1", "-M 4"]),
            rng.choice(["-m official", "-m all_trec", "-m all_trec", "-m set"]),
        ]
        # without -c, version 10 ends at the first judged query that the run hasn't
        files = odd_files(seed, version, all_asked=version == 10 and not complete)
        (tmp_path / "run").write_text(files.run, "utf-8", newline="")
        (tmp_path / "qrels").write_text(files.qrels, "utf-8", newline="")
        chosen = " ".join(option for option in options if option)
        assert assert_equal(chosen.split(), tmp_path, output(binary, chosen, tmp_path).splitlines())


def test_last_digit_of_set_f(program: tuple[int, Path], tmp_path: Path) -> None:
    # P 1/9, R 1/4, x = 0.25: 1.25 · 1/36 / (1/36 + 1/4) = 0.125 to the last bit; P = R = 1/80 has
    # 0.0125; their mean, 0.06875, is printed 0.0688, and one bit less 0.0687
    _, binary = program
    judged = [f"1 0 {item} 1" for item in "abcd"] + [f"2 0 d{n} 1" for n in range(80)]
    ranked = [f"1 Q0 {item} 0 {-n} t" for n, item in enumerate("astuvwxyz")]
    ranked += [f"2 Q0 {item} 0 {-n} t" for n, item in enumerate(["d0", *map(str, range(79))])]
    (tmp_path / "qrels").write_text("\n".join(judged) + "\n")
    (tmp_path / "run").write_text("\n".join(ranked) + "\n")
    printed = output(binary, "-m set_F.0.25", tmp_path).splitlines()
    assert assert_equal([], tmp_path, printed) == 1
    assert printed[0].endswith("0.0688")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*.txt")), ids=lambda path: str(path)[-9:])
def test_golden_outputs(path: Path) -> None:
    command, *printed = path.read_text("utf-8").splitlines()
    _, _, *options, _, _ = command.split()
    assert assert_equal(options, path.parent, printed) > 20
