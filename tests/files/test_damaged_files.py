"""Damaged Parquet files: an error that names the file, never the end of the process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="Arrow's files need the extra `batch`")

FLIP = """
    import random, sys
    from pathlib import Path
    from llama_index_rag_metrics import read_run, write_run
    from llama_index_rag_metrics.runtime.errors import RagMetricsError

    path, step = Path(sys.argv[1]), int(sys.argv[2])
    run = {f"q{n}": [f"d{n + k}" for k in range(5)] for n in range(30)}
    write_run(run, path)
    whole = path.read_bytes()
    rng = random.Random(step)
    for position in range(rng.randrange(step), len(whole), step):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            read_run(path)
        except RagMetricsError as error:
            # what can be read may have become other names and types: errors of the content
            named = [str(path), "in common", "column", "query"]
            assert any(name in str(error) for name in named), (position, error)
    for length in range(1, len(whole), step):
        path.write_bytes(whole[:length])
        try:
            read_run(path)
        except RagMetricsError as error:
            assert str(path) in str(error), (length, error)
        else:
            raise AssertionError(length)
"""


@pytest.mark.slow
def test_damaged_files_are_named_and_never_end_the_process(tmp_path: Path) -> None:
    script = [sys.executable, "-c", textwrap.dedent(FLIP), str(tmp_path / "run.parquet"), "11"]
    ended = subprocess.run(script, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2_000:])
