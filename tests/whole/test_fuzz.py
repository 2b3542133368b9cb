"""A few seconds of odd input; `python tests/support/fuzz.py --seconds 600` goes on for longer."""

import pytest
from support.fuzz import TARGETS, fuzz

pytest.importorskip("pyarrow", reason="tables and files of Arrow need the extra `batch`")
pytest.importorskip("polars", reason="tables need the extra `batch`")


@pytest.mark.slow
def test_odd_input_gives_errors_of_this_package_only() -> None:
    counts, wrong = fuzz(seconds=6, seed=0)
    assert wrong == {}
    assert set(counts) == {target.__name__ for target in TARGETS}
