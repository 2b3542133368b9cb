"""Checks of an LLM judge: judges whose faults are known are found out, and no others."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.llms import Completing
from support.openai_server import openai_server

from llama_index_rag_metrics import JudgeCheck, LLMRelevancy, Ranking, Run, agreement, check_judge
from llama_index_rag_metrics.labels.judge_checking import turns
from llama_index_rag_metrics.runtime.errors import BadAnswer, InvalidInput, ScorerFailed

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
    assert [effect.mean for effect in check.places.values()] == [0] * 5
    assert (check.preference, check.kappa, check.notes) == (None, None, ())
    assert "Asked again, it changes 0 of 120 texts" in shown(check)
    assert "At another place in the call, 0 of 240 grades change" in shown(check)


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
    # at the first place 1 above the four others; at another place 1/4 below the mean of the others
    means = {place: effect.mean for place, effect in check.places.items()}
    assert means == pytest.approx({1: 1, 2: -1 / 4, 3: -1 / 4, 4: -1 / 4, 5: -1 / 4})
    assert check.places[1].low is not None
    assert check.places[1].low > 0
    # one of five gets 1 more than alone
    assert check.together is not None
    assert check.together.difference.mean == pytest.approx(1 / 5)
    assert re.search(r"a share of 0\.4000 \(interval .* is due to the place", shown(check))
    assert "The place in a call matters." in shown(check)


@pytest.mark.parametrize("orders", [2, 3, 4])
def test_a_place_is_not_mixed_with_its_neighbours(orders: int) -> None:
    # Any choice of rows of the Latin square of five gives the first place 1 above the others. The
    # other places are compared with it as often as with each other once every choice had its turn:
    # there are 4, 6 and 4, of which 24 queries are a multiple.
    llm = judge(lambda text, place: deserved(text) + (place == 1))
    check = check_judge(llm, QUERIES, RUN, orders=orders)
    means = {place: effect.mean for place, effect in check.places.items()}
    assert means == pytest.approx({1: 1, 2: -1 / 4, 3: -1 / 4, 4: -1 / 4, 5: -1 / 4})


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
    assert "not clearly more than asking the same again" in shown(check)


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


OWN = {item for query_id in QUERIES for item in RUN[query_id].ids if item[-1] in "24"}


class TestItsOwnTexts:
    """Of each query the texts 2 and 4, which deserve 2 and 1; the others deserve 0, 1 and 0."""

    def test_preferred(self) -> None:
        llm = judge(lambda text, place: deserved(text) + (text[5] in "24"))
        check = check_judge(llm, QUERIES, RUN, human=DESERVED, own=OWN)
        preference = check.preference
        assert preference is not None
        assert (preference.own, preference.others, preference.difference.mean) == (1, 0, 1)
        assert (preference.n_own, preference.n_others, preference.difference.n) == (48, 72, 24)
        assert preference.is_controlled
        assert preference.difference.low is not None
        assert preference.difference.low > 0
        expected = "Texts of its own get +1.0000 more than others of the same 24 queries"
        assert expected in shown(check)
        assert "It prefers its own texts." in shown(check)

    def test_better_and_not_preferred(self) -> None:
        llm = judge(lambda text, place: deserved(text))
        fair = check_judge(llm, QUERIES, RUN, human=DESERVED, own=OWN).preference
        assert fair is not None
        assert fair.difference.mean == 0
        # without people's grades: (2 + 1) / 2 against (0 + 1 + 0) / 3, and nothing is said of bias
        check = check_judge(llm, QUERIES, RUN, own=OWN)
        assert check.preference is not None
        assert check.preference.difference.mean == pytest.approx(3 / 2 - 1 / 3)
        assert not check.preference.is_controlled
        assert "without people's grades that may be quality" in shown(check)
        assert "It prefers" not in shown(check)

    def test_what_people_left_unjudged_is_no_grade(self) -> None:
        llm = judge(lambda text, place: deserved(text))
        human = {
            query_id: {item: -1 if item.endswith(".1") else grade for item, grade in of.items()}
            for query_id, of in DESERVED.items()
        }
        check = check_judge(llm, QUERIES, RUN, human=human, own=OWN)
        assert check.kappa is not None
        assert (check.kappa.kappa, check.kappa.n) == (1, 24 * 4)
        assert check.preference is not None
        assert (check.preference.n_others, check.preference.difference.mean) == (48, 0)

    @pytest.mark.parametrize("highest", [1, 10])
    def test_another_scale_is_told(self, highest: int) -> None:
        llm = judge(lambda text, place: deserved(text))
        human = {
            query_id: {item: highest * (grade > 0) for item, grade in of.items()}
            for query_id, of in DESERVED.items()
        }
        check = check_judge(llm, QUERIES, RUN, human=human, own=OWN)
        assert f"people's grades go up to {highest} and the judge's to 2" in shown(check)
        assert check_judge(llm, QUERIES, RUN, human=DESERVED, own=OWN).notes == ()

    def test_by_query_and_where_there_are_none(self) -> None:
        llm = judge(lambda text, place: deserved(text))
        own = {"q00": ["q00.2"], "q01": ["q00.2"]}
        preference = check_judge(llm, QUERIES, RUN, own=own).preference
        assert preference is not None
        assert (preference.n_own, preference.difference.n, preference.difference.low) == (
            1,
            1,
            None,
        )
        assert check_judge(llm, QUERIES, RUN, own=["none"]).preference is None


def test_agreement_with_people_is_that_of_agreement() -> None:
    llm = judge(lambda text, place: deserved(text) if "text 1" not in text else 3)
    human = {query_id: DESERVED[query_id] for query_id in list(QUERIES)[:20]}
    check = check_judge(llm, QUERIES, RUN, human=human)
    relevance = LLMRelevancy(llm=llm).grade(QUERIES, RUN)
    expected = agreement(relevance, human)
    assert check.kappa is not None
    assert (check.kappa.kappa, check.kappa.n) == pytest.approx((expected.kappa, 100))
    assert (check.kappa.low, check.kappa.high) == pytest.approx((expected.low, expected.high))
    assert "it agrees beyond chance by a kappa of" in shown(check)


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
    assert first.startswith("1 text got no grade, such as: BadAnswer: llm_relevancy: no answer")
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
    assert (check.moved, check.due_to_place, check.together, check.places) == (None, None, None, {})
    assert "Asked again, it changes 0 of 24 texts" in shown(check)


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
    check = check_judge(llm, QUERIES, RUN, human=DESERVED, own=OWN, most_queries=6)
    rows = {row["check"]: row for row in json.loads(check.to_json())}
    assert check.moved is not None
    assert rows["at another place in the call"]["changed"] == check.moved.changed.mean
    assert rows["place 1"]["difference"] == check.places[1].mean
    assert rows["its own texts against others"]["n"] == 6
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
