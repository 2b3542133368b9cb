"""trec_eval itself, built from its sources, and odd files to try it on.

    python tests/support/trec_eval_program.py

writes tests/golden/trec_eval/*.txt anew: the first line of each is the command that made the rest.
"""

import math
import random
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

TOOLS = Path(__file__).parents[3] / "shared" / "tools"
GOLDEN = Path(__file__).parents[1] / "golden" / "trec_eval"
VERSIONS = {9: "9.0.8", 10: "10.0"}

GOLDEN_OPTIONS = ("-q", "-q -c", "-c -l 2", "-q -c -J", "-q -c -M 3", "-q -n -c")

NAMES = {
    "map": "ap", "Rprec": "r_precision", "bpref": "bpref", "recip_rank": "mrr", "infAP": "infap",
    "dcg": "dcg", "ndcg": "ndcg(ideal=all)", "set_P": "precision", "set_recall": "recall",
    "set_F": "f1",
}  # fmt: skip
"""Of measures without a parameter, and the metric that each is."""

CUT = {
    "P": "precision", "recall": "recall", "ndcg_cut": "ndcg", "map_cut": "ap",
    "success": "hit_rate",
}  # fmt: skip
"""Of measures whose parameter is a cutoff."""

WITHOUT_MIN_GRADE = ("dcg", "ndcg")


def name_of(label: str, level: int = 1) -> str | None:
    """The metric that a measure is, under the label that trec_eval prints; None where it's none."""
    family, _, parameter = label.rpartition("_")
    parameters, cutoff = [], ""
    if label in NAMES:
        name, _, own = NAMES[label].partition("(")
        parameters += [own.rstrip(")")] if own else []
    elif family == "set_F":
        # trec_eval's parameter is the square of van Rijsbergen's beta
        name = "f"
        parameters.append(f"beta={math.sqrt(float(parameter))!r}")
    elif family in CUT:
        name, cutoff = CUT[family], f"@{parameter}"
    else:
        return None
    if level != 1 and name not in WITHOUT_MIN_GRADE:
        parameters.append(f"min_grade={level}")
    return name + (f"({', '.join(parameters)})" if parameters else "") + cutoff


class NotBuilt(Exception):
    """What is missing to build it."""


class OddFiles(NamedTuple):
    """A run and its qrels."""

    run: str
    qrels: str


def build(version: int, folder: Path) -> Path:
    """The program of that version.

    Raises:
        NotBuilt: there are no sources, or no compiler.
    """
    source = TOOLS / f"trec_eval-{VERSIONS[version]}.tar.gz"
    if not source.is_file():
        raise NotBuilt(f"{source.name} isn't in shared/tools beside the project")
    if not (shutil.which("make") and shutil.which("gcc")):
        raise NotBuilt("there is no C compiler")
    with tarfile.open(source) as archive:
        archive.extractall(folder)
    inside = folder / f"trec_eval-{VERSIONS[version]}"
    # version 10's rbp reads two variables that it doesn't set: 0 is what it means
    compiler = "CC=gcc -w -ftrivial-auto-var-init=zero"
    subprocess.run(["make", "-s", compiler], cwd=inside, check=True, capture_output=True)
    return inside / "trec_eval"


def odd_files(seed: int, version: int, *, all_asked: bool) -> OddFiles:
    """What trec_eval reads and nobody writes: ties, gaps, scattered lines, columns and spaces.

    Args:
        seed: of the random numbers.
        version: 10 knows comments.
        all_asked: whether every judged query has a ranking.
    """
    rng = random.Random(seed)
    ids = [
        "d1", "d10", "d2", "D1", "é", "#3", "日本", "a-b", "0", "00", "x" * 30, "{y}", "d11", "z",
    ]  # fmt: skip
    queries = rng.sample(["1", "10", "2", "q", "Q", "ü", "q-1", "301", "02"], rng.randint(1, 7))
    judgements, lines = [], []
    for query in queries:
        pool = rng.sample(ids, rng.randint(1, len(ids)))
        highest = rng.choice([0, 1, 1, 2, 4, 11])
        grades = [rng.randint(-1, highest) for _ in pool[1:]]
        judged = zip(pool, [rng.randint(0, highest), *grades], strict=True)
        judgements += [f"{query} 0 {document} {grade}" for document, grade in judged]
    asked = queries if all_asked else rng.sample(queries, rng.randint(1, len(queries)))
    scores = ["1", "1.0", "+2", ".5", "5e-1", "-3", "0", "-0", "1e9", "inf", "-inf", "3.", "0.25"]
    for query in [*asked, *rng.sample(["unjudged", "zz"], rng.randint(0, 2))]:
        for document in rng.sample(ids, rng.randint(1, len(ids))):
            tag = rng.choice(["t", "t", "t more", "t 1 2 3"])
            lines.append(f"{query} Q0 {document} {rng.randint(-1, 9)} {rng.choice(scores)} {tag}")
    if rng.random() < 0.3:
        rng.shuffle(lines)
        rng.shuffle(judgements)
    return OddFiles(
        _written(lines, rng, ["", "  \t"] + ["# a b c 4 d", "#"] * (version == 10)),
        _written(judgements, rng, ["# judged by 3"] * (version == 10)),
    )


def _written(lines: list[str], rng: random.Random, between: list[str]) -> str:
    space, end = rng.choice([" ", "\t", "  ", " \t", "\v"]), rng.choice(["\n", "\n", " \n", "\r\n"])
    written = []
    for line in lines:
        if between and rng.random() < 0.1:
            written.append(rng.choice(between) + "\n")
        written.append(line.replace(" ", space) + end)
    return "".join(written)


def output(program: Path, options: str, folder: Path) -> str:
    """What it prints."""
    command = [str(program), *options.split(), "qrels", "run"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()


def main() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        for version, name in VERSIONS.items():
            program = build(version, Path(made))
            files = odd_files(2 * version, version, all_asked=False)
            folder = GOLDEN / name
            folder.mkdir(exist_ok=True)
            (folder / "run").write_text(files.run, "utf-8", newline="")
            (folder / "qrels").write_text(files.qrels, "utf-8", newline="")
            for number, options in enumerate(GOLDEN_OPTIONS):
                chosen = f"-m all_trec {options if version == 9 or '-c' in options else '-q -c'}"
                command = f"# trec_eval-{name} {chosen} qrels run\n"
                text = command + output(program, chosen, folder)
                (folder / f"{number}.txt").write_text(text, "utf-8", newline="")


if __name__ == "__main__":
    main()
