"""Grades as LLMs write them: one that is clear counts, whatever its form; none is guessed."""

from __future__ import annotations

import time

import pytest

from llama_index_rag_metrics.metrics.texts.llm_judge import Grades, read_grade, read_grades

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
    # and plain
    ("2", 2),
    (" 2.\n", 2),
    ("`2`", 2),
    ('"2"', 2),
    ("**0**", 0),
]

REFUSED = [
    "",
    "no idea",
    "I would give it a 2.",
    "between 2 and 3",
    "Grade: between 2 and 3",
    "Grade: 2 or 3",
    "Grade: 2-3",
    "Grade: 2 - 3",
    "2/3",
    "Grade: 2/3",
    "Grade: 2 out of 3",
    "2 or 3",
    "2-3",
    "1.5",
    "Grade: 1.5",
    "Grade: 2,5",
    "Grade: 200%",
    "4",
    "-1",
    "Grade: 4",
    "Grade: -1",
    "Grade: 2\nGrade: 3",
    "##final score: 2\n##final score: 1",
    '{"grade": 2} or {"grade": 3}',
    '{"grade": 2}\nGrade: 3',
    '{"grade": 2, "grade": 3}',
    '{"grade": 2, "score": 1}',
    '[{"O": 2}, {"O": 1}]',
    '{"grade": 4}',
    '{"grade": -1}',
    '{"grade": 1.5}',
    '{"grade": true}',
    '{"grade": null}',
    '{"grade": "two"}',
    '{"grade": "2 or 3"}',
    '{"grade": [2]}',
    '{"M": 2, "T": 1}',
    '{"answer": 2}',
    "[2]",
    "M: 2\nT: 1",
    "٢",
    "grade: ２",
    "0**2**",
    "*0*2",
    "Grade: 0`2`",
    "<think>Maybe the final score: 1",  # the LLM was cut off while it thought
    "Let me see.\n<think>Maybe\nGrade: 1\n",
]


@pytest.mark.parametrize(("text", "grade"), UNDERSTOOD)
def test_a_clear_grade(text: str, grade: int) -> None:
    assert read_grade(text).grade == grade


@pytest.mark.parametrize("text", REFUSED)
def test_no_grade_is_guessed(text: str) -> None:
    with pytest.raises(ValueError, match=r"grade|whole number|differs"):
        read_grade(text)


GRADED = [(1, 3), (2, 0), (3, 1)]


@pytest.mark.parametrize(
    "text",
    [
        '{"grades": [{"passage": 1, "grade": 3}, {"passage": 2, "grade": 0},'
        ' {"passage": 3, "grade": 1}]}',
        '```json\n[{"passage": 1, "O": 3}, {"passage": 2, "O": 0}, {"passage": 3, "O": 1}]\n```',
        '{"passage": 1, "grade": 3}\n{"passage": 2, "grade": 0}\n{"passage": 3, "grade": 1}',
        'Sure: {"1": 3, "2": 0, "3": 1}',
        '{"grades": {"1": 3, "2": 0, "3": 1}}',
        '{"grades": [3, 0, 1]}',
        "[3, 0, 1]",
        "Grades: [3, 0, 1]",
        "The final relevance scores:\n```json\n[3, 0, 1]\n```\n",
        '{"Grades": {"scores": [3, 0, 1]}}',
        "1: 3\n2: 0\n3: 1",
        "Here are the grades:\n\nPassage 1: 3\n**Passage 2:** 0\n- Passage 3: Grade: 1\n",
        "1 - 3\n2 – 0\n3 -- **1**",
        '{"grades": [3, 0, 1]}\n\n1: 3\n2: 0\n3: 1',
        "1. ##final score: 3\n2. ##final score: 0\n3. ##final score: 1",
    ],
)
def test_grades_of_several(text: str) -> None:
    assert [
        (numbered.passage, numbered.grade) for numbered in read_grades(text, 3).grades
    ] == GRADED


@pytest.mark.parametrize(
    ("text", "graded"),
    [('{"1": 3, "3": 1}', {1: 3, 3: 1}), ("1: 3\n2: 1 or 2\n3: 1", {1: 3, 3: 1})],
)
def test_some_may_be_missing(text: str, graded: dict[int, int]) -> None:
    assert read_grades(text, 3).by_number(3) == graded


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[3, 0]", "2 grades for 3 passages"),
        ("[3, 0, 1, 1]", "4 grades for 3 passages"),
        ('{"1": 3, "4": 0}', "there is no passage 4"),
        ("1: 3\n1: 3\n2: 0", "passage 1 is graded twice"),
        ('{"1": 3, "1": 2}', "'1' is given twice"),
        ('{"1": 4}', "4 isn't a grade"),
        ('{"1": "high"}', "isn't a whole number"),
        ('{"1": 3, "2": 0} or {"1": 3, "2": 1}', "differ"),
        ('{"grades": []}', "no grades of passages 1 to 3"),
        ("All of them are fine.", "no grades of passages 1 to 3"),
        ("", "no grades of passages 1 to 3"),
        ("See [3, 2, 1].\n1: 3\n2: 0\n3: 1", "differ"),
        ('{"1": 3, "2": 0}\n1: 2\n2: 0', "differ"),
        ("1: -1\n2: 0", "-1 isn't a grade"),
        ("1-3\n2-3", "no grades of passages 1 to 3"),
        ("1.2\n2.3", "no grades of passages 1 to 3"),
        ("None of the passages [1, 2, 3] answers it, so I give all of them 0.", "amid other words"),
        ("I looked at passages [1, 2, 3]. Passage 3 is best.", "amid other words"),
        ('Of {"n": 3} passages, [1, 2, 3] are best.', "amid other words"),
        ('Those that help: {"relevant_passages": [1, 2, 3]}', "no grades of passages 1 to 3"),
        ('{"answer": [1, 2, 3]}', "no grades of passages 1 to 3"),
        ("<think>\n1: 3\n2: 0\n3: 1\nor rather", "no grades of passages 1 to 3"),
        ("0: 3", r"passage\n  Input should be greater"),
    ],
)
def test_several_are_not_guessed_either(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_grades(text, 3).by_number(3)


def test_an_empty_list_is_no_answer() -> None:
    with pytest.raises(ValueError, match="no passage is graded"):
        Grades(grades=[]).by_number(2)


@pytest.mark.parametrize(
    "part", ["grade: ", "score ", "*", "1: ", "O: ", " \n", '"2', "-", "grade"]
)
def test_hostile_answers_take_no_time(part: str) -> None:
    began = time.thread_time()
    for read in (read_grade, lambda text: read_grades(text, 3)):
        with pytest.raises(ValueError, match="grade"):
            read(part * 20_000)
    assert time.thread_time() - began < 3
