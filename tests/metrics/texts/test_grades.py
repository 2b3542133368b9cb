"""Grades as LLMs write them: one that is clear counts, whatever its form; none is guessed."""

import time

import pytest

from llama_index_rag_metrics.metrics.texts.grades import read_grade

UNDERSTOOD = [
    # UMBRELA's own form (https://arxiv.org/abs/2406.06519), with and without its steps
    ("##final score: 2", 2),
    ("## final score: 2", 2),
    ("##final score:0", 0),
    ("M: 2\nT: 1\n##final score: 2", 2),
    ("Measure how well the content matches: 3\nT: 3\n\n##final score: 1\n", 1),
    ("Final score is 3.", 3),
    ("relevance category: 1", 1),
    # the JSON that TREC's judges were asked for (Thomas et al. 2024)
    ('{"O": 2}', 2),
    ('{"M": 2, "T": 1, "O": 1}', 1),
    ('[{"M": 2, "T": 1, "O": 1}]', 1),
    ("M: 3, T: 1, O: 2", 2),
    # ours, fenced and amid chatter
    ('{"grade": 2}', 2),
    ('{"grade": "2"}', 2),
    ('{"grade": 2.0}', 2),
    ('{"grade": 2, "why": "because {it} is 1 of 3"}', 2),
    ('{"relevance": "partial", "grade": 1}', 1),
    ('{"Final Score": 3}', 3),
    ('{"result": {"score": 0}}', 0),
    ('```json\n{"grade": 2}\n```', 2),
    ('Sure! Here is the grade you asked for:\n{"grade": 2}\nLet me know if {that} helps.', 2),
    ('{"grade": 2}\n\nGrade: 2', 2),
    ("<think>Is it a 3? Grade: 1? No.</think>\nGrade: 2", 2),
    # in words
    ("Grade: 2", 2),
    ("**Grade:** 2", 2),
    ("**Grade: 2**", 2),
    ("grade = 2", 2),
    ("final_score: 2", 2),
    ("Grade: 2 (something of an answer)", 2),
    ("Grade: 2 - it holds something of an answer.", 2),
    ("The passage is on the subject.\n\nGrade: 1.", 1),
    ("Based on [1], the relevance score is 3", 3),
    ("Rating:\n2", 2),
    # with a reason that holds a number, or out of 3
    ("Grade: 3 - it says the kiln fires at 1240 degrees.", 3),
    ("Relevance: 2 (on a scale of 0-3)", 2),
    ("Grade: 2, since it names 3 kilns.", 2),
    ("Grade: 2/3", 2),
    ("Grade: 2 out of 3", 2),
    ("2/3", 2),
    ("0 out of 3", 0),
    ("I would rate this 2 out of 3.", 2),
    # and plain
    ("2", 2),
    (" 2.\n", 2),
    ("`2`", 2),
    ('"2"', 2),
    ("**0**", 0),
]

REFUSED = [
    *("", "no idea", "I would give it a 2.", '{"answer": 2}', "[2]", '{"M": 2, "T": 1}'),
    "M: 2\nT: 1",
    # one of several
    *("between 2 and 3", "Grade: between 2 and 3", "Grade: 2 or 3", "Grade: 2-3", "Grade: 2 - 3"),
    *("Grade: 2, 3", "2 or 3", "2-3", '{"grade": "2 or 3"}', '{"grade": 2, "score": 1}'),
    *("Grade: 2\nGrade: 3", "##final score: 2\n##final score: 1", '{"grade": 2} or {"grade": 3}'),
    *('{"grade": 2}\nGrade: 3', '{"grade": 2, "grade": 3}', '[{"O": 2}, {"O": 1}]'),
    # of another scale
    *("Grade: 2/30", "Grade: 2 out of 10", "Grade: 2/5", "I would rate this 2 out of 10."),
    *("4", "-1", "Grade: 4", "Grade: -1", '{"grade": 4}', '{"grade": -1}', "Grade: 200%"),
    # of something else
    *("2/3 of the passage are about kilns.", "3 out of 3 words are in it."),
    "I'd give it 2 out of 3 or 3 out of 3.",
    # no whole number
    *("1.5", "Grade: 1.5", "Grade: 2,5", '{"grade": 1.5}', '{"grade": true}', '{"grade": null}'),
    *('{"grade": "two"}', '{"grade": [2]}', "٢", "grade: ２", "0**2**", "*0*2", "Grade: 0`2`"),
    # the LLM was cut off while it thought
    *("<think>Maybe the final score: 1", "Let me see.\n<think>Maybe\nGrade: 1\n"),
]


@pytest.mark.parametrize(("text", "grade"), UNDERSTOOD)
def test_clear_grade(text: str, grade: int) -> None:
    assert read_grade(text) == grade


@pytest.mark.parametrize("text", REFUSED)
def test_grades_are_never_guessed(text: str) -> None:
    with pytest.raises(ValueError, match=r"grade|whole number|differs"):
        read_grade(text)


@pytest.mark.parametrize(
    "part",
    ["grade: ", "score ", "*", "1: ", "O: ", " \n", '"2', "-", "grade", "{", '{"a":', "rate "],
)
def test_hostile_answers_take_no_time(part: str) -> None:
    began = time.thread_time()
    with pytest.raises(ValueError, match="grade"):
        read_grade(part * 20_000)
    assert time.thread_time() - began < 3
