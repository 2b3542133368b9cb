"""Nuggets before people, in a real Chromium: both passes by keyboard, and what becomes of them.

Skips where Chromium or playwright is absent, except in CI.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.reviews import write as write_lines

from llama_index_rag_metrics import Nugget, Nuggets
from llama_index_rag_metrics.labels.review.reviews import ItemKey, Judgement, write_review_page
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

NUGGETS = Nuggets(
    {
        "q1": [
            Nugget("Cassini saw them", "okay", {"d1": "none"}),
            Nugget("It has </script> jets", "okay", {"d1": "full", "d9": "partial"}),
            Nugget("It is a moon", "vital"),
        ]
    },
    {"q1": "Why is Enceladus of interest?"},
)
TEXTS = {"q1": {"d1": "Jets rise from Enceladus.", "d2": "Triton circles Neptune."}}


def review(browser: Any, pool: Path, keys: dict[tuple[str, str], str]) -> Path:
    """Judge every item by its key, as (nugget, passage) shown on the page have it."""
    page = browser.new_page()
    page.set_default_timeout(10_000)
    page.goto(write_review_page(pool, pool.with_suffix(".html")).as_uri())
    page.wait_for_selector("#start:not([hidden])")
    page.fill("#reviewer", "Ada")
    page.keyboard.press("Enter")
    page.wait_for_selector("#review:not([hidden])")
    while not page.locator("#done").is_visible():
        shown = page.locator("#review").inner_text()
        (key,) = [key for texts, key in keys.items() if all(text in shown for text in texts)]
        page.keyboard.press(key)
    page.wait_for_selector("#kept:text-matches('stored$')")
    with page.expect_download() as downloading:
        page.keyboard.press("e")
    exported = pool.with_suffix(".said.jsonl")
    downloading.value.save_as(exported)
    page.close()
    return exported


def test_both_passes(browser: Any, tmp_path: Path) -> None:
    pool = tmp_path / "importance.jsonl"
    NUGGETS.to_review(pool)
    drop, okay, vital = "0", "1", "2"
    said = review(
        browser,
        pool,
        {
            ("Cassini saw them", ""): drop,
            ("It has </script> jets", ""): vital,
            ("It is a moon", ""): okay,
        },
    )
    left = NUGGETS.reviewed(said)
    assert [(nugget.text, nugget.importance) for nugget in left["q1"]] == [
        ("It has </script> jets", "vital"),
        ("It is a moon", "okay"),
    ]

    pool = tmp_path / "supports.jsonl"
    left.to_review(pool, TEXTS)
    none, partial, full = "0", "1", "2"
    said = review(
        browser,
        pool,
        {
            ("It has </script> jets", "Jets rise"): partial,
            ("It has </script> jets", "Triton"): none,
            ("It is a moon", "Jets rise"): none,
            ("It is a moon", "Triton"): full,
        },
    )
    assert [dict(nugget.supports) for nugget in left.reviewed(said)["q1"]] == [
        {"d1": "partial", "d9": "partial", "d2": "none"},
        {"d1": "none", "d2": "full"},
    ]


def write(path: Path, *judgements: Judgement) -> Path:
    return write_lines(path, *(judgement.record() for judgement in judgements))


def said(grade: str | None, passage: str | None = None, scale: str = "importance") -> Judgement:
    return Judgement(ItemKey("q1", passage, "It is a moon"), grade, scale)


def test_the_last_word_counts(tmp_path: Path) -> None:
    first = write(tmp_path / "first.jsonl", said("drop"), said("full", "d1", "support"))
    second = write(tmp_path / "second.jsonl", said("okay"), said(None, "d1", "support"))
    (moon,) = [nugget for nugget in NUGGETS.reviewed(first, second)["q1"] if "moon" in nugget.text]
    assert (moon.importance, dict(moon.supports)) == ("okay", {"d1": "full"})


@pytest.mark.parametrize(
    ("judgement", "message"),
    [
        (said("full"), "line 1: expected a grade of the scale 'importance'.*'full'"),
        (
            said("vital", "d1", "support"),
            "line 1: expected a grade of the scale 'support'.*'vital'",
        ),
    ],
)
def test_grades_of_another_scale(judgement: Judgement, message: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=message):
        NUGGETS.reviewed(write(tmp_path / "said.jsonl", judgement))


@pytest.mark.parametrize(
    ("judgement", "message"),
    [
        (said("vital", "d1"), "scale: expected"),
        (said("full", None, "support"), "scale: expected"),
        (Judgement(ItemKey("q1", None, "another"), "okay", "importance"), "a nugget of 'q1'"),
        (Judgement(ItemKey("q7", None, "It is a moon"), "okay", "importance"), "of 'q7'"),
    ],
)
def test_what_does_not_fit_is_refused(judgement: Judgement, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        NUGGETS.reviewed(write(tmp_path / "said.jsonl", judgement))


def test_judgements_of_passages_are_left_alone(tmp_path: Path) -> None:
    graded = Judgement(ItemKey("q1", "d1"), 3.0)
    skipped = Judgement(ItemKey("q1", None, "It is a moon"), None, "importance", skipped=True)
    assert NUGGETS.reviewed(write(tmp_path / "said.jsonl", graded, skipped)) == {
        "q1": [NUGGETS["q1"][2], *NUGGETS["q1"][:2]]  # vital ones first
    }


def test_judgements_of_another_pool_are_refused(tmp_path: Path) -> None:
    of_passages = write(tmp_path / "passages.jsonl", Judgement(ItemKey("q1", "d1"), 3.0))
    with pytest.raises(InvalidInput, match=r"judgements of nuggets, got 'passages\.jsonl'"):
        NUGGETS.reviewed(of_passages)
