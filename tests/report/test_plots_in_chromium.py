"""The plots of a page in a real Chromium: on screens, on paper, under the pointer, for readers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.chromium import AA, CHROMIUM, OPTIONS, axe_violations
from support.reported import EVIL, QUERIES, baseline, comparison, other

from llama_index_rag_metrics import compare
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.html import write_page
from llama_index_rag_metrics.report.model import Report

pytestmark = pytest.mark.browser

READY = "#plots[data-ready]"


def ten() -> Any:
    names = [f"openai-3-large-chunk{size}-{kind}" for size in (128, 256, 512, 960, 2048)
             for kind in ("plain", "rerank")]  # fmt: skip
    systems = {name: (other if n % 3 else baseline)() for n, name in enumerate(names)}
    return compare(systems, names[0])


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    pages: list[Any] = []

    def open_report(reported: Any, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        pages.append(context.new_page())
        pages[-1].goto(reported.to_html(tmp_path / "report.html").as_uri())
        pages[-1].wait_for_selector(READY)
        return pages[-1]

    yield open_report
    for page in pages:
        page.context.close()


def test_every_plot_is_drawn_and_names_are_text(opened: Callable[..., Any]) -> None:
    page = opened(comparison())
    captions = page.locator("#figures figure:visible figcaption").all_inner_texts()
    assert len(captions) == 6
    assert page.locator("#figures figure:visible svg[role=img]").count() == 6
    assert EVIL in page.locator("#figure-means text").all_text_contents()
    assert page.locator("img").count() == 0


def test_another_metric_is_drawn(opened: Callable[..., Any]) -> None:
    page = opened(comparison())
    assert "ndcg@k" in page.locator("#figure-by_cutoff text").all_text_contents()
    means = page.locator("#figure-means").inner_html()
    page.select_option("#metric", label="recall@2")
    page.locator("#figure-by_cutoff text", has_text="recall@k").wait_for()
    assert page.locator("#figure-means").inner_html() == means  # which shows all metrics


def test_of_ten_systems_the_means_follow_the_metric(opened: Callable[..., Any]) -> None:
    page = opened(ten())
    label = page.locator("#figure-means svg[role=img]")
    assert label.get_attribute("aria-label") == "Means with their intervals, ndcg@3"
    page.select_option("#metric", label="mrr")
    page.locator("#figure-means svg[aria-label$=mrr]").wait_for()


def test_a_bar_hands_over_its_questions(opened: Callable[..., Any]) -> None:
    page = opened(comparison())
    page.evaluate("window.page = { filter: (...given) => { window.given = given; } }")
    page.select_option("#metric", label="mrr")
    bars = page.locator("#figure-distribution [data-questions]")
    page.locator("#figure-distribution svg[aria-label$=mrr]").wait_for()
    # by mrr the other system gains 1/2 on q1, loses 1/2 on q2, and 1 each on q4 and q5
    assert bars.count() == 3
    bars.first.click()
    ids, label = page.evaluate("window.given")
    assert ids == ["q4", "q5"]
    assert label == f"{EVIL} minus baseline on mrr, −1.000 to −0.935: 2 questions"


def test_a_bar_without_a_filter_does_nothing(opened: Callable[..., Any]) -> None:
    page = opened(comparison())
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.evaluate("delete window.page")
    page.locator("#figure-distribution [data-questions]").first.click()
    assert trouble == []


@pytest.mark.parametrize("paper", ["A4", "Letter"])
@pytest.mark.parametrize("reported", [comparison, ten])
def test_plots_are_on_paper(
    opened: Callable[..., Any], tmp_path: Path, paper: str, reported: Callable[[], Any]
) -> None:
    page = opened(reported())  # nobody scrolled to the plots
    page.pdf(path=tmp_path / "report.pdf", format=paper)
    assert plots_of(tmp_path / "report.pdf") == page.locator("#figures figure:visible").count()


def test_plots_and_questions_are_printed_by_the_command(browser: Any, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    path = comparison().to_html(tmp_path / "report.html")
    out, profile = tmp_path / "report.pdf", f"--user-data-dir={tmp_path / 'profile'}"
    command = [CHROMIUM, "--headless", *OPTIONS, profile, f"--print-to-pdf={out}", path.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert plots_of(out) == 6
    text = printed(out)
    assert "not printed" not in text
    assert all(question in text for question in QUERIES.values())


def printed(path: Path) -> str:
    text = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True)
    return text.stdout.decode()


def plots_of(path: Path) -> int:
    """How many of the captions stand on pages that have the red of the second system, too.

    Nothing else in a report is of that red.
    """
    for tool in ("pdftotext", "pdftoppm"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}: apt-get install poppler-utils")
    drawn = subprocess.run(["pdftoppm", "-r", "40", path], check=True, capture_output=True)
    captions = ("Means with their intervals", "Differences from the baseline",
                "Differences, question by question", "By cutoff k", "Precision and recall",
                "Latency")  # fmt: skip
    pages, pictures = printed(path).split("\f"), ppm_pages(drawn.stdout)
    plain = [" ".join(page.split()) for page in pages]
    return sum(
        any(caption in page and is_red(picture)
            for page, picture in zip(plain, pictures, strict=False))
        for caption in captions
    )  # fmt: skip


def ppm_pages(data: bytes) -> list[bytes]:
    """The pixels of the pages that pdftoppm wrote one after the other."""
    pages = []
    while data:
        kind, width, height, most, _ = data.split(maxsplit=4)
        assert (kind, most) == (b"P6", b"255")
        # one blank ends the head, and pixels may begin with blanks, too
        start = data.index(b"255\n") + 4
        size = int(width) * int(height) * 3
        pages.append(data[start : start + size])
        data = data[start + size :]
    return pages


def is_red(pixels: bytes) -> bool:
    """Whether anything is nearly #ee6677."""
    return any(
        red > 200 and 70 < green < 150 and 80 < blue < 160
        for red, green, blue in zip(pixels[::3], pixels[1::3], pixels[2::3], strict=True)
    )


@pytest.mark.parametrize("width", [375, 800, 1280])
def test_no_plot_of_ten_systems_scrolls_or_leaves_its_card(
    opened: Callable[..., Any], width: int
) -> None:
    page = opened(ten(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => {
          const card = document.querySelector("#plots").getBoundingClientRect();
          return [...document.querySelectorAll("#plots text")].filter((text) => {
            const box = text.getBoundingClientRect();
            return box.width && (box.left < card.left || box.right > card.right);
          }).map((text) => text.textContent);
        }"""
    )
    assert outside == []


def test_long_names_stand_above_their_rows(opened: Callable[..., Any]) -> None:
    names = {"baseline": baseline(), "a" * 60: other(), "第三個系統": baseline()}
    page = opened(compare(names, "baseline"), viewport={"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert "a" * 60 in page.locator("#figure-means text").all_text_contents()


def figure_of(name: str) -> Figure:
    marks = Series("mrr", 0, [1, 2], [0.5, 0.25], remarks=["", ""])
    return Figure("marks", Axis("k"), Axis(name), [marks], name=name)


def chosen(metric: str | None) -> Figure:
    first, second = ("kind", "size") if metric == "mrr" else ("size", "kind")
    return replace(figure_of(first), variants=[figure_of(second)])


class Swept:
    """A report of two figures for each metric, in another order for another one."""

    def to_html(self, path: Path) -> Path:
        return write_page(
            Report("Sweep", metrics=["mrr", "ap"], figures={"tradeoff": chosen}), path
        )


def test_the_pair_of_parameters_stays_chosen(opened: Callable[..., Any]) -> None:
    page = opened(Swept())
    choice = page.get_by_label("what is shown")
    assert choice.input_value() == "kind"
    choice.select_option("size")
    shown = page.locator("#figure-tradeoff text")
    page.locator("#figure-tradeoff text", has_text="size").first.wait_for()
    page.evaluate("""() => {
      const metric = document.querySelector("#metric");
      if (!metric.options.length) metric.append(new Option("mrr", 0), new Option("ap", 1));
      metric.value = 1;
      metric.dispatchEvent(new Event("change"));
    }""")
    page.locator("#figure-tradeoff svg[aria-label$=ap]").wait_for()
    assert choice.input_value() == "size"
    assert choice.locator("option").all_inner_texts() == ["size", "kind"]
    assert "size" in shown.all_text_contents()


def test_no_button_comes_before_the_questions(opened: Callable[..., Any]) -> None:
    page = opened(ten())
    assert page.locator("#plots button, #plots a, #plots [tabindex]").count() == 0


def test_plots_follow_a_change_of_scheme_and_print_black(opened: Callable[..., Any]) -> None:
    page = opened(comparison())
    fill = "getComputedStyle(document.querySelector('#figure-means text')).fill"
    before = page.evaluate(fill)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(fill) != before
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(fill) == "rgb(0, 0, 0)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_plots_of_ten_systems(
    opened: Callable[..., Any], scheme: str
) -> None:
    page = opened(ten(), bypass_csp=True, color_scheme=scheme)
    assert axe_violations(page, [*AA, "best-practice"]) == []
