"""Drawings of figures: where things stand, what they are called, what they show; hostile names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from support.reported import EVIL, comparison

from llama_index_rag_metrics import Scores, compare
from llama_index_rag_metrics.report.drawing import shortened, spread, ticks, without_prefix
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import on_axis
from llama_index_rag_metrics.report.svg import picture

SVG = "{http://www.w3.org/2000/svg}"
X = Axis("mean", ends=(0.0, 1.0))


def drawn(figure: Figure) -> ElementTree.Element:
    """The picture, read as the XML that it must be."""
    return ElementTree.fromstring(picture(figure, "caption"))


def words(figure: Figure) -> list[str]:
    return [text.text or "" for text in drawn(figure).iter(f"{SVG}text")]


def titles(figure: Figure) -> list[str]:
    return [title.text or "" for title in drawn(figure).iter(f"{SVG}title")]


def marks(figure: Figure) -> dict[str, tuple[str, str]]:
    """What each mark says under the pointer, to where it stands."""
    places = {}
    for svg in drawn(figure).iter(f"{SVG}svg"):
        for path in svg.findall(f"{SVG}path"):
            places[path.findtext(f"{SVG}title") or ""] = (svg.get("x", ""), svg.get("y", ""))
    return places


def dots(*series: Series) -> Figure:
    return Figure("points", X, Axis(), series)


def system(name: str, number: int, mean: float, **more: Any) -> Series:
    return Series(name, number, [mean], ["mrr"], [mean - 0.1], [mean + 0.1], **more)


def test_a_mean_and_its_interval_stand_at_their_share_of_the_axis() -> None:
    figure = dots(system("a", 0, 0.25, remarks=["mrr: 0.2500"]), system("b", 1, 0.5))
    assert [x for x, _ in marks(figure).values()] == ["25%", "50%"]
    lines = [line.attrib for line in drawn(figure).iter(f"{SVG}line")]
    assert [(line["x1"], line["x2"]) for line in lines if line.get("stroke-width")] == [
        ("15%", "35%"), ("40%", "60%")
    ]  # fmt: skip
    assert titles(figure) == ["a: mrr: 0.2500", "b"]


def test_a_mean_without_an_interval_has_a_mark_alone() -> None:
    figure = dots(Series("a", 0, [0.5], ["mrr"], [None], [None]))
    assert titles(figure) == ["a"]
    assert not [line for line in drawn(figure).iter(f"{SVG}line") if line.get("stroke-width")]


def test_what_has_no_value_has_no_place() -> None:
    nan = float("nan")
    means = Series("a", 0, [nan, 0.5], ["mrr", "ap"], [None] * 2, [None] * 2, ["x", "y"])
    assert titles(dots(means)) == ["a: y"]
    gap = Series("a", 0, [1, 2, 3], [0.5, nan, 1.0], remarks=["1: 0.5", "2: –", "3: 1"])
    figure = Figure("lines", Axis("k"), Axis("y"), [gap])
    assert titles(figure) == ["a", "a: 1: 0.5", "a: 3: 1"]
    assert "nan" not in picture(figure)


def test_several_metrics_of_several_systems_are_groups_of_rows() -> None:
    both = [Series(name, n, [0.1, 0.2], ["mrr", "ap"], [None] * 2, [None] * 2, ["1", "2"])
            for n, name in enumerate("ab")]  # fmt: skip
    shown = [text for text in words(dots(*both)) if text in {"mrr", "ap", "a", "b"}]
    assert shown == ["mrr", "a", "b", "ap", "a", "b"]
    rows = [float(y) for _, y in marks(dots(*both)).values()]
    assert rows == sorted(rows)
    assert len({*rows}) == 4


def test_what_all_names_begin_with_is_said_once_and_the_baseline_is_marked() -> None:
    figure = dots(system("e5-large-k5", 0, 0.3, is_baseline=True), system("e5-large-k10", 1, 0.4))
    assert words(figure).count("all names begin with e5-large-") == 1
    assert {"k5", "k10", "underlined: the baseline"} <= {*words(figure)}
    marked = [text.text for text in drawn(figure).iter(f"{SVG}text") if text.get("text-decoration")]
    assert marked == ["k5"]
    assert any("e5-large-k10" in title for title in titles(figure))  # whole, under the pointer


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (["a-b-c", "a-b-d"], "a-b-"),
        (["kind=bm25, k=3", "kind=bm25, k=30"], "kind=bm25, k="),
        (["chunk512", "chunk516"], ""),  # within a word
        (["abc-", "abc-x"], ""),  # nothing would remain of the first
        (["only-one"], ""),
        ([], ""),
        (["同一個-甲乙丙-一", "同一個-甲乙丙-二"], "同一個-甲乙丙-"),
    ],
)
def test_names_lose_whole_words_that_all_begin_with(names: list[str], prefix: str) -> None:
    assert without_prefix(names) == (prefix, [name[len(prefix) :] for name in names])


def test_names_made_short_stay_apart() -> None:
    names = [f"{'x' * 40}{n}{'y' * 40}" for n in range(12)]
    assert len({*shortened(names, 10)}) == 12
    assert shortened(["a" * 30], 10) == ["aaaaa…aaaa"]


@pytest.mark.parametrize("n", [1, 2, 10, 16])
def test_names_at_the_ends_of_lines_never_meet(n: int) -> None:
    """16 lines of 15 px fill 240 px: none is nearer than 15, none below the end."""
    for ends in ([100.0] * n, [0.0] * n, [240.0] * n, [float(13 * k % 240) for k in range(n)]):
        places = sorted(spread(ends, 15, 240))
        assert all(b - a >= 15 for a, b in pairwise(places))
        assert places[-1] <= 240


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.61, 0.64), (-0.3, 0.2), (3, 9000), (0.1, 0.1001), (-5e-7, 0)]
)
def test_ticks_are_round_few_and_within(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)
    for tick in found:  # what is written is the number itself
        assert float(on_axis(tick).replace("−", "-").replace(",", "")) == tick


def test_no_tick_lies_between_two_counts() -> None:
    curve = Series("bm25", 0, [1, 2, 3], [0.1, 0.2, 0.3])
    assert {"1", "2", "3"} <= {*words(Figure("lines", Axis("k", is_count=True), Axis(), [curve]))}
    assert ticks(0.9, 3.1, least=1) == [1, 2, 3]
    assert 1.5 in ticks(0.9, 3.1)


def lines(n: int, x: Sequence[float] = (1, 2)) -> Figure:
    series = [Series(f"s{k}", k, x, [0.1 * k, 0.05 * k]) for k in range(n)]
    return Figure("lines", Axis("k"), Axis("ndcg@k"), series)


def test_lines_have_their_names_at_their_ends_and_no_look_comes_twice() -> None:
    figure = lines(10)
    assert {f"s{k}" for k in range(10)} <= {*words(figure)}
    looks = {(line.get("stroke"), line.get("stroke-dasharray"))
             for line in drawn(figure).iter(f"{SVG}polyline")}  # fmt: skip
    assert len(looks) == 10


def test_of_many_lines_the_last_ones_are_grey_and_counted() -> None:
    figure = lines(13)
    grey = [line.findtext(f"{SVG}title") for line in drawn(figure).iter(f"{SVG}polyline")
            if line.get("stroke") == "currentColor"]  # fmt: skip
    assert grey == ["s10", "s11", "s12"]
    assert "grey: 3 more" in words(figure)


def test_points_are_named_where_there_is_room_and_a_line_joins_the_front() -> None:
    apart = Series("configurations", 0, [100, 900, 910], [0.1, 0.9, 0.9], labels=["a", "b", "c"],
                   remarks=["a: 1", "b: 2", "c: 3"], z=[5.0, None, 50.0])  # fmt: skip
    front = Series("Pareto front", 1, [100, 900], [0.1, 0.9], is_line=True)
    figure = Figure("marks", Axis("tokens"), Axis("mrr"), [apart, front],
                    z=Axis("p95, ms"))  # fmt: skip
    assert {"a", "b"} <= {*words(figure)}
    assert {"a: 1", "b: 2", "c: 3", "Pareto front"} == {*titles(figure)}
    assert "p95, ms: blue 5, red 50" in words(figure)
    assert len(list(drawn(figure).iter(f"{SVG}polyline"))) == 1
    crowd = Series("configurations", 0, [1] * 9, [1] * 9, labels=[f"n{k}" * 20 for k in range(9)],
                   remarks=[""] * 9)  # fmt: skip
    crowded = Figure("marks", Axis("tokens"), Axis("mrr"), [crowd])
    assert len([word for word in words(crowded) if word.startswith("n")]) < 9


def test_the_box_of_a_system_says_its_numbers() -> None:
    box = Series("s", 0, [-0.5, -0.1, 0.0, 0.2, 0.5], [], remarks=["median 0"])
    figure = Figure("boxes", Axis("difference"), Axis(), [box], zero_line=True)
    assert titles(figure) == ["s: median 0"]


def test_no_name_steers_the_drawing() -> None:
    for kind, figure_of in comparison().report().figures.items():
        figure = figure_of("mrr")
        if figure is not None:
            assert "<script" not in picture(figure, EVIL).lower(), kind
    odd = dots(system("null\x00 \x1b[31m \ud83d <b>", 0, 0.5), system("b", 1, 0.5))
    assert "null [31m <b>" in words(odd)


def many() -> dict[str, Any]:
    worse = Scores(["q1", "q2"], {"mrr": [0.0, 0.25], "ap": [1.0, 1.0]})
    better = Scores(["q1", "q2"], {"mrr": [1.0, 0.75], "ap": [0.0, 0.5]})
    return {"run-0": worse, "run-1": better, "run-2": worse, "run-3": worse, "run-4": better}


def test_figures_of_few_systems_keep_their_order() -> None:
    few = {name: scores for name, scores in many().items() if name < "run-3"}
    figure = compare(few, "run-0").report().figures["means"](None)
    assert figure is not None
    assert [series.name for series in figure.series] == ["run-0", "run-1", "run-2"]


def figure_of(name: str, *, remark: str = "") -> Figure:
    marks = Series("mrr", 0, [1, 2], [0.5, 0.25], remarks=["", ""])
    return Figure("marks", Axis("k"), Axis(name), [marks], name=name, remark=remark)


def test_no_caption_or_remark_of_a_picture_is_cut_off() -> None:
    values = [str(n) for n in range(40)]
    long = figure_of("size", remark=f"a mean over {', '.join(values)} and 檢索")
    text = picture(long, f"caption, ndcg({'x' * 120})@10")
    svg = ElementTree.fromstring(text)
    lines = [each.text or "" for each in svg.findall(f"{SVG}text")]
    assert {"caption,", *values, "檢索"} <= {*re.findall(r"caption,|\w+", " ".join(lines))}
    assert max(map(len, lines)) <= 86  # of 7.4 pixels, in 640
    assert [float(each.get("y", "")) for each in svg.findall(f"{SVG}text")][-1] < float(
        svg.get("height", "")
    )
