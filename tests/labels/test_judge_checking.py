"""Checks of an LLM judge: judges whose faults are known are found out, and no others."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from support.llms import Completing
from support.openai_server import openai_server

from llama_index_rag_metrics import JudgeCheck, LLMRelevancy, Ranking, Run, agreement, check_judge
from llama_index_rag_metrics.labels.judge_checking import Call, QueryGrades, _place_effect, turns
from llama_index_rag_metrics.runtime.errors import BadAnswer, InvalidInput, ScorerFailed
from llama_index_rag_metrics.statistics.intervals import excludes_0
from llama_index_rag_metrics.statistics.kappa import Kappa

TEXTS = 5
QUERIES = {f"q{n:02}": f"query {n}" for n in range(24)}
RUN = Run(
    {
        query_id: Ranking(
            [f"{query_id}.{n}" for n in range(TEXTS)],
            texts=[f"text {n} of {query_id}, which deserves {n % 3}" for n in range(TEXTS)],
        )
        for query_id in QUERIES
    }
)
DESERVED = {
    query_id: {item: n % 3 for n, item in enumerate(RUN[query_id].ids)} for query_id in QUERIES
}


def judge(grade: Callable[[str, int], int], **fields: Any) -> Completing:
    """An LLM that grades by the text and its place in the call, 0 where it is alone."""

    def answer(prompt: str) -> str:
        texts = re.findall(r"<passage[^>]*>\n(.*?)\n</passage>", prompt, re.DOTALL)
        if "number=" not in prompt:
            return str(min(grade(texts[0], 0), 3))
        return json.dumps([min(grade(text, place), 3) for place, text in enumerate(texts, 1)])

    return Completing(answer=answer, asked=[], **fields)


def deserved(text: str) -> int:
    return int(text.rsplit(maxsplit=1)[-1])


def shown(check: JudgeCheck) -> str:
    return " ".join(str(check).split())


def test_a_steady_judge() -> None:
    llm = judge(lambda text, place: deserved(text))
    check = check_judge(llm, QUERIES, RUN)
    assert (check.n_queries, check.texts_per_call) == (24, 5)
    # 24 queries of 5 texts, alone twice; in the same call twice, and in two further orders
    assert check.usage.requests == len(llm.asked) == 24 * (5 * 2 + 2 + 2)
    assert check.repeated_together is not None
    assert check.moved is not None
    assert check.together is not None
    for change, n in (
        (check.repeated, 120),
        (check.repeated_together, 120),
        (check.moved, 240),
        (check.together, 120),
    ):
        assert (change.n, change.n_changed, change.changed.mean) == (n, 0, 0)
        assert change.difference.mean == 0
        assert change.changed.high is not None
        assert 0.05 < change.changed.high < 0.2  # of 24 queries
    assert check.due_to_place is not None
    assert check.due_to_place.low is not None
    assert check.due_to_place.low < 0
    assert check.place is not None
    assert (check.place.slope.mean, check.place.slope.n, check.place.p_value) == (0, 24, 1)
    # no change was seen, yet 24 queries don't rule small ones out
    assert check.place.slope.low is not None
    assert -0.5 < check.place.slope.low < 0
    assert (check.kappa, check.notes) == (None, ())
    assert "Asked twice, the judge changed its grade on 0 of 120 passages" in shown(check)
    assert "At another place in the call, 0 of 240 grades change" in shown(check)
    assert "No trend over the places is shown: each place further back changes" in shown(check)


def test_a_judge_that_likes_the_first() -> None:
    llm = judge(lambda text, place: deserved(text) + (place == 1))
    check = check_judge(llm, QUERIES, RUN, orders=5)
    assert check.repeated_together is not None
    assert check.repeated_together.n_changed == 0
    # in five orders each text stands first once. Of the four orders beside the first, the text that
    # stood first differs in four, and each of the other four texts in one: 8 of 20
    assert check.moved is not None
    assert check.moved.changed.mean == pytest.approx(8 / 20)
    assert check.due_to_place is not None
    assert check.due_to_place.mean == pytest.approx(8 / 20)
    assert check.due_to_place.low is not None
    assert check.due_to_place.low > 0
    # each text stands at all places from 1 to 5, 3 on average, and is graded 1 higher at 1:
    # (-2 · 1 - 1 · 0 + 0 · 0 + 1 · 0 + 2 · 0) / (4 + 1 + 0 + 1 + 4)
    assert check.place is not None
    assert check.place.slope.mean == pytest.approx(-2 / 10)
    assert check.place.slope.high is not None
    assert check.place.slope.high < 0
    assert check.place.p_value < 1e-9
    # one of five gets 1 more than alone
    assert check.together is not None
    assert check.together.difference.mean == pytest.approx(1 / 5)
    assert "a share of +0.400 (interval" in shown(check)
    expected = "The place in a call matters: each place further back lowers the grade of the same"
    assert f"{expected} text by 0.20 (interval −0.2" in shown(check)


@pytest.mark.parametrize("orders", [2, 3, 4, 5])
def test_a_trend_over_the_places_is_found_in_any_orders(orders: int) -> None:
    llm = judge(lambda text, place: place // 2)  # 0, 1, 1, 2, 2 at the places 1 to 5
    check = check_judge(llm, QUERIES, RUN, orders=orders)
    assert check.place is not None
    assert check.place.slope.low is not None
    assert check.place.slope.low > 0
    if orders == 5:  # (-2 · 0 - 1 · 1 + 0 · 1 + 1 · 2 + 2 · 2) / 10
        assert check.place.slope.mean == pytest.approx(5 / 10)
    assert "each place further back raises the grade" in shown(check)


def test_the_slope_by_hand() -> None:
    # Three texts in two orders, a b c and b c a (turned by one) or c a b (by two). A text that
    # moves from p to q with grades g and h has the slope (h - g) / (q - p), and weighs (q - p)².
    grades = {"a": 1, "b": 2, "c": 3}
    looks = [
        QueryGrades("q1", "", {}, {}, _calls(["abc", "abc", "bca"], {**grades}, at_first=-1)),
        QueryGrades("q2", "", {}, {}, _calls(["abc", "abc", "cab"], {**grades}, at_first=0)),
        QueryGrades("q3", "", {}, {}, _calls(["abc", "abc", "cab"], {**grades}, at_first=-1)),
        QueryGrades("q4", "", {}, {}, []),
    ]
    effect = _place_effect(looks, 0.95)
    assert effect is not None
    # q1: a 1 -> 3 gains 1, b 2 -> 1 loses 1, c 3 -> 2 gains nothing:
    #     (2 · 1 + (-1)(-1) + 0) / (4 + 1 + 1) = 1/2
    # q2: 0;  q3: a 1 -> 2 gains 1, b 2 -> 3 nothing, c 3 -> 1 loses 1: (1 + 0 + 2) / 6 = 1/2
    slopes = [1 / 2, 0, 1 / 2]
    assert effect.slope.n == 3
    assert effect.slope.mean == pytest.approx(1 / 3)
    # mean 1/3, standard deviation sqrt(1/12), error sqrt(1/36) = 1/6, t = 2 with 2 degrees of
    # freedom: p = 1 - 2 / sqrt(2² + 2)
    assert effect.p_value == pytest.approx(1 - 2 / 6**0.5)
    assert effect.p_value == pytest.approx(ttest_1samp(slopes, 0).pvalue)
    assert effect.slope.low is not None
    assert effect.slope.low < 0


def _calls(orders: list[str], grades: dict[str, int], *, at_first: int) -> list[Call]:
    return [
        {
            text: (place, grades[text] + (at_first if place == 1 else 0))
            for place, text in enumerate(order, 1)
        }
        for order in orders
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("chance", "least", "most"), [(0.0, 0.0, 0.10), (0.2, 0.9, 1.0)])
def test_planted_places_are_found_and_no_others(chance: float, least: float, most: float) -> None:
    """+1 at the first and -1 at the last place, with this chance; 5 % of grades are noise."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(200):
        looks = []
        for number in range(30):
            merit = rng.integers(0, 4, 5)
            turned = turns(5, 3, number, seed=0)
            calls = []
            for turn in (0, *turned):
                call = {}
                for place in range(1, 6):
                    text = (place - 1 + turn) % 5
                    shift = ((place == 1) - (place == 5)) * (rng.random() < chance)
                    noisy = rng.random() < 0.05
                    grade = rng.integers(0, 4) if noisy else np.clip(merit[text] + shift, 0, 3)
                    call[str(text)] = (place, int(grade))
                calls.append(call)
            looks.append(QueryGrades(f"q{number}", "", {}, {}, calls))
        effect = _place_effect(looks, 0.95)
        assert effect is not None
        found.append(excludes_0(effect.slope))
    assert least <= np.mean(found) <= most


@pytest.mark.parametrize("orders", [2, 5, 30, 50])
def test_orders_of_many_texts(orders: int) -> None:
    turned = [turns(50, orders, number, seed=0) for number in range(60)]
    assert all(rows[0] == 0 and len(set(rows)) == orders <= 50 for rows in turned)
    assert len(set(turned)) > 40 or orders == 50
    assert turned == [turns(50, orders, number, seed=0) for number in range(60)]


def test_a_judge_that_never_says_the_same_twice() -> None:
    times: defaultdict[tuple[str, bool], count[int]] = defaultdict(count)

    def grade(text: str, place: int) -> int:
        return next(times[text, place > 0])  # 0 and 1 alone, 0 to 3 in the four calls

    check = check_judge(judge(grade), QUERIES, RUN)
    assert check.repeated.changed.mean == 1
    assert check.moved is not None
    assert check.moved.changed.mean == 1
    assert check.due_to_place is not None
    assert check.due_to_place.low is not None
    assert check.due_to_place.high is not None
    assert check.due_to_place.mean == 0
    assert check.due_to_place.low < 0 < check.due_to_place.high
    assert "compared with asking again" in shown(check)


def test_a_judge_that_is_stricter_in_company() -> None:
    llm = judge(lambda text, place: deserved(text) + (place == 0))
    check = check_judge(llm, QUERIES, RUN)
    assert check.together is not None
    assert check.together.changed.mean == 1
    assert check.together.difference.mean == -1
    assert check.together.difference.high is not None
    assert check.together.difference.high < 0
    assert check.moved is not None
    assert check.moved.n_changed == 0


def test_what_people_left_unjudged_is_no_grade() -> None:
    llm = judge(lambda text, place: deserved(text))
    human = {
        query_id: {item: -1 if item.endswith(".1") else grade for item, grade in of.items()}
        for query_id, of in DESERVED.items()
    }
    check = check_judge(llm, QUERIES, RUN, human=human)
    assert check.kappa is not None
    assert (check.kappa.kappa, check.kappa.n) == (1, 24 * 4)


@pytest.mark.parametrize("highest", [1, 10])
def test_another_scale_is_told(highest: int) -> None:
    llm = judge(lambda text, place: deserved(text))
    human = {
        query_id: {item: highest * (grade > 0) for item, grade in of.items()}
        for query_id, of in DESERVED.items()
    }
    check = check_judge(llm, QUERIES, RUN, human=human)
    assert f"people's grades go up to {highest} and the judge's to 2" in shown(check)
    assert check.report().decision[0].text.endswith("their grades are on another scale.")
    assert check_judge(llm, QUERIES, RUN, human=DESERVED).notes == ()


def test_agreement_with_people_is_that_of_agreement() -> None:
    llm = judge(lambda text, place: deserved(text) if "text 1" not in text else 3)
    human = {query_id: DESERVED[query_id] for query_id in list(QUERIES)[:20]}
    check = check_judge(llm, QUERIES, RUN, human=human)
    relevance = LLMRelevancy(llm=llm).grade(QUERIES, RUN)
    expected = agreement(relevance, human)
    assert check.kappa is not None
    assert (check.kappa.kappa, check.kappa.n) == pytest.approx((expected.kappa, 100))
    assert (check.kappa.low, check.kappa.high) == pytest.approx((expected.low, expected.high))
    # Landis and Koch's moderate agreement begins at 0.41: the lower end decides
    assert check.kappa.low is not None
    assert check.kappa.low > 0.41
    first = check.report().decision[0]
    assert (first.tone, first.text[:45]) == (
        "best",
        "This judge agrees with people, kappa 0.72 (0.",
    )


def kappa(low: float, high: float) -> Kappa:
    return Kappa((low + high) / 2, low, high, 150)


@pytest.fixture(scope="module")
def steady() -> JudgeCheck:
    return check_judge(judge(lambda text, place: deserved(text)), QUERIES, RUN)


@pytest.mark.parametrize(
    ("people", "own", "tone", "start"),
    [
        (kappa(-0.2, 0.08), None, "alarm", "Don't use this judge uncalibrated: it hardly agrees"),
        (kappa(-0.2, 0.41), None, "open", "Whether this judge agrees with people isn't certain"),
        (kappa(0.40, 0.8), None, "open", "Whether this judge agrees with people isn't certain"),
        (kappa(0.41, 0.8), None, "best", "This judge agrees with people, kappa 0.605 (0.410 to"),
        (
            Kappa(math.nan, None, None, 3),
            None,
            "open",
            "Whether this judge agrees with people is unknown: 3",
        ),
        (None, kappa(0.1, 0.4), "alarm", "Don't use this judge: asked twice, it hardly agrees"),
        (None, kappa(0.1, 0.5), "open", "Whether this judge agrees with people is unknown: give"),
        (None, None, "open", "Whether this judge agrees with people is unknown: give"),
    ],
)
def test_the_first_sentence_says_whether_to_use_the_judge(
    steady: JudgeCheck, people: Kappa | None, own: Kappa | None, tone: str, start: str
) -> None:
    check = replace(steady, kappa=people, own_kappa=own)
    first = check.report().decision[0]
    assert (first.tone, first.text[: len(start)]) == (tone, start)


def test_a_judge_of_noise_is_refused_even_without_people() -> None:
    rolls = Random(0)
    check = check_judge(judge(lambda text, place: rolls.randrange(4)), QUERIES, RUN)
    assert check.report().decision[0].text.startswith("Don't use this judge: asked twice")


def test_nothing_is_cached_and_queries_are_drawn() -> None:
    llm = judge(lambda text, place: 1)
    scorer = LLMRelevancy(llm=llm, texts_per_call=3, label="mine")
    check = check_judge(scorer, QUERIES, RUN, most_queries=4, seed=2)
    assert (check.n_queries, check.texts_per_call, check.model) == (4, 3, "mine")
    assert len(llm.asked) == 4 * (3 * 2 + 2 + 2)
    asked = set(re.findall(r"query \d+", " ".join(llm.asked)))
    llm.asked.clear()
    check_judge(scorer, QUERIES, RUN, most_queries=4, seed=2)
    assert set(re.findall(r"query \d+", " ".join(llm.asked))) == asked
    assert len(llm.asked) == 4 * (3 * 2 + 2 + 2)


def test_what_fails_is_noted() -> None:
    def answer(prompt: str) -> str:
        several = "number=" in prompt
        if "text 3 of q05" in prompt and not several:
            return "no idea"
        if "query 7\n" in prompt and several:
            raise ConnectionError("down")
        return json.dumps([1] * prompt.count("</passage")) if several else "1"

    check = check_judge(Completing(answer=answer, asked=[]), QUERIES, RUN)
    assert (check.repeated.n, check.n_queries) == (119, 24)
    assert check.together is not None
    assert check.together.n == 119 - 5
    first, second = check.notes
    assert first.startswith("1 text got no grade, such as: BadAnswer: llm_relevancy: no usable")
    assert second == "4 calls with several texts gave no grades, such as: ConnectionError: down"
    assert "1 text got no grade" in shown(check)


def test_a_judge_that_grades_nothing() -> None:
    llm = Completing(answer=lambda _: "no idea", asked=[])
    with pytest.raises(BadAnswer, match="no grade from 0 to 3"):
        check_judge(llm, QUERIES, RUN, workers=1)
    assert len(llm.asked) < 24 * 5 * 4  # it gives up


def test_a_service_that_refuses_is_named_without_its_key() -> None:
    def refuse(prompt: str) -> str:
        raise ConnectionError("Incorrect API key provided: sk-abcdefghij0123456789.")

    with pytest.raises(ScorerFailed, match=r"ConnectionError: .* provided: \*\*\*"):
        check_judge(Completing(answer=refuse, asked=[]), QUERIES, RUN)


def test_rankings_of_one_text_have_no_places() -> None:
    run = Run({query_id: Ranking(["d"], texts=["deserves 2"]) for query_id in QUERIES})
    check = check_judge(judge(lambda text, place: 2), QUERIES, run)
    assert (check.moved, check.due_to_place, check.together, check.place) == (
        None,
        None,
        None,
        None,
    )
    assert "Asked twice, the judge changed its grade on 0 of 24 passages" in shown(check)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"judge": "gpt"}, "judge"),
        ({"orders": 1}, "orders"),
        ({"texts_per_call": 1}, "texts_per_call"),
        ({"most_queries": 0}, "most_queries"),
        ({"confidence": 95}, "confidence"),
        ({"queries": {"q99": "?"}}, "run"),
        ({"run": Run({"q00": ["a"]})}, "run"),
        ({"run": Run({"q00": Ranking(["a"], texts=[" "])})}, "run"),
    ],
)
def test_what_can_not_be_used(arguments: dict[str, Any], named: str) -> None:
    llm = judge(lambda text, place: 1)
    call: dict[str, Any] = {"judge": llm, "queries": QUERIES, "run": RUN, **arguments}
    with pytest.raises(InvalidInput, match=named):
        check_judge(**call)
    assert llm.asked == []


def test_every_output(tmp_path: Path) -> None:
    llm = judge(lambda text, place: deserved(text) + (place == 1), usage={"prompt_tokens": 9})
    check = check_judge(llm, QUERIES, RUN, human=DESERVED, most_queries=6)
    rows = {row["check"]: row for row in json.loads(check.to_json())}
    assert check.moved is not None
    assert rows["at another place in the call"]["changed"] == check.moved.changed.mean
    assert check.place is not None
    assert rows["each place further back"]["difference"] == check.place.slope.mean
    assert rows["each place further back"]["p_value"] == check.place.p_value
    page = check.to_html(tmp_path / "check.html").read_text(encoding="utf-8")
    for text in (page, check.to_markdown(), str(check), check._repr_html_()):
        assert "Check of the judge completing" in text
        assert "another place" in text
    assert f"{9 * len(llm.asked):,} tokens read" in shown(check)
    assert "toprule" in check.to_latex()


def test_the_client_of_openai() -> None:
    openai = pytest.importorskip("llama_index.llms.openai", reason="OpenAI's client")
    known = judge(lambda text, place: deserved(text))
    with openai_server(known.answer) as server:
        llm = openai.OpenAI(model="gpt-4o-mini", api_key="sk-loopback", api_base=server.api_base)
        check = check_judge(llm, QUERIES, RUN, most_queries=3)
    assert check.repeated.n_changed == 0
    assert check.usage.tokens_in == 100 * check.usage.requests
    assert check.notes == ()
