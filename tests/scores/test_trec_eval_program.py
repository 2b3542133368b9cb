"""`rag-metrics score --format trec` and `trec10` against the programs: every line, as printed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from support.trec_eval_program import GOLDEN, VERSIONS, NotBuilt, build, odd_files, output
from typer.testing import CliRunner

from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.scores.trec_eval import LEFT_OUT

FORMATS = {9: "trec", 10: "trec10"}
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


def ours(version: int, options: str, folder: Path) -> list[str]:
    files = [str(folder / "run"), "--qrels", str(folder / "qrels")]
    arguments = ["score", *files, "--format", FORMATS[version], *options.split()]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def assert_equal(printed: list[str], wanted: list[str]) -> None:
    """Line by line, but for what isn't computed here, and what C has no number for.

    With -J and no judged document retrieved, trec_eval divides 0 by 0 for the interpolated
    precision: NaN, and so its mean; here it is 0.
    """
    comparable = [line for line in wanted if line.split()[0] not in LEFT_OUT]
    if any(line.endswith("nan") for line in comparable):
        without = {line.split("\t")[0] for line in comparable if line.endswith("nan")}
        comparable, printed = (
            [line for line in lines if line.split("\t")[0] not in without]
            for lines in (comparable, printed)
        )
    assert printed == comparable


def test_odd_files(program: tuple[int, Path], tmp_path: Path) -> None:
    version, binary = program
    for seed in range(N_FILES):
        rng = random.Random(seed)
        complete = rng.random() < 0.5
        options = [
            rng.choice(["", "-q", "-q"]),
            "-c" if complete else "",
            rng.choice(["", "", "-l 2", "-l 3"]),
            rng.choice(["", "", "-J"]),
            rng.choice(["", "", "-M 1", "-M 4"]),
            rng.choice(["-m official", "-m all_trec", "-m all_trec", "-m set"]),
            "-m iprec_at_recall.0.33,0.5,0.77" if rng.random() < 0.2 else "",
            "-m ndcg.1=3,2=9" if rng.random() < 0.2 else "",
            f"-m set_F.{rng.choice([4, 0.25, 0.5, 2, 3])} -m 11pt_avg.0.2,0.5,0.8"
            if rng.random() < 0.2
            else "",
            "-m rbp.p=0.5" if version == 10 and rng.random() < 0.2 else "",
            # with -c, 10.0-rc3 counts a passage that it made up where the run has no ranking
            "-m utility.2,-.5,-1.25,0"
            if rng.random() < 0.2 and not (version == 10 and complete)
            else "",
        ]
        # without -c, version 10 ends at the first judged query that the run hasn't
        files = odd_files(seed, version, all_asked=version == 10 and not complete)
        (tmp_path / "run").write_text(files.run, "utf-8", newline="")
        (tmp_path / "qrels").write_text(files.qrels, "utf-8", newline="")
        chosen = " ".join(option for option in options if option)
        wanted = output(binary, chosen, tmp_path).splitlines()
        if any("." in option for option in options[6:]):
            # of a measure that is asked for twice, trec_eval has the parameters only
            labels = {line.split("\t")[0] for line in wanted}
            printed = [
                line for line in ours(version, chosen, tmp_path) if line.split("\t")[0] in labels
            ]
        else:
            printed = ours(version, chosen, tmp_path)
        assert_equal(printed, wanted)


def test_the_last_digit_of_set_f(program: tuple[int, Path], tmp_path: Path) -> None:
    # P 1/9, R 1/4, x = 0.25: 1.25 · 1/36 / (1/36 + 1/4) = 0.125 to the last bit; P = R = 1/80 has
    # 0.0125; their mean, 0.06875, is printed 0.0688, and one bit less 0.0687
    version, binary = program
    judged = [f"1 0 {item} 1" for item in "abcd"] + [f"2 0 d{n} 1" for n in range(80)]
    ranked = [f"1 Q0 {item} 0 {-n} t" for n, item in enumerate("astuvwxyz")]
    ranked += [f"2 Q0 {item} 0 {-n} t" for n, item in enumerate(["d0", *map(str, range(79))])]
    (tmp_path / "qrels").write_text("\n".join(judged) + "\n")
    (tmp_path / "run").write_text("\n".join(ranked) + "\n")
    printed = ours(version, "-m set_F.0.25", tmp_path)
    assert printed == output(binary, "-m set_F.0.25", tmp_path).splitlines()
    assert printed[0].endswith("0.0688")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*.txt")), ids=lambda path: str(path)[-9:])
def test_golden_outputs(path: Path) -> None:
    command, *wanted = path.read_text("utf-8").splitlines()
    _, program, *options, _, _ = command.split()
    version = {f"trec_eval-{name}": version for version, name in VERSIONS.items()}[program]
    assert_equal(ours(version, " ".join(options), path.parent), wanted)
