"""What counts as a question in an LLM's answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_rag_metrics.labels.question_parsing import parse


@pytest.mark.parametrize(
    ("answer", "questions"),
    [
        ("1. What is A?\n2) Is it B?\n(3) Is it C?", ["What is A?", "Is it B?", "Is it C?"]),
        ("- What is A?\n* What is B?\n• What is C?", ["What is A?", "What is B?", "What is C?"]),
        ("1. What is A? 2. What is B?", ["What is A?", "What is B?"]),
        ("a) What is A?\nB) What is B?\nii. And C?", ["What is A?", "What is B?", "And C?"]),
        ("Question 1: What is A?\nQ2. What is B?", ["What is A?", "What is B?"]),
        ("**Question 1:** What is A?\n**Question 2**\nWhat is B?", ["What is A?", "What is B?"]),
        ("1. **What is A?**\n2. *What* is **B**?", ["What is A?", "What is B?"]),
        ("## Questions\n### What is A?\n> What is B?", ["What is A?", "What is B?"]),
        ("\"What's A?\"\n'Who's B?'\n“C?”\n«D ?»", ["What's A?", "Who's B?", "C?", "D ?"]),
        ('Who said "why?"', ['Who said "why?"']),
        ("What is A? (2 marks)\nWhat is B? Answer: C", ["What is A?", "What is B?"]),
        ('1. "What is (a)?" (Answer: b)\nWho said "why?" (B)', ["What is (a)?", 'Who said "why?"']),
        ("[ ] What is it?\n- [ ] Why?\n☐ Who?", ["What is it?", "Why?", "Who?"]),
        ("Multiple choice: Which?\n**Multiple-choice question 2:** Why?", ["Which?", "Why?"]),
        ("Here is what?\nNote: is it A?", ["Here is what?", "Note: is it A?"]),
        ('["What is A?", "What is B?"]', ["What is A?", "What is B?"]),
        ('```json\n{"questions": [{"question": "What is A?"}]}\n```', ["What is A?"]),
        ('[\n"What is A?",\n"What is B?",\n]', ["What is A?", "What is B?"]),
        ("| 1 | What is A? |\nWhat does a|b do?", ["What is A?", "What does a|b do?"]),
        ("<think>Ask what? Or why?</think>\nWhat is A?", ["What is A?"]),
        ("<think>Ask what?\nWhy is that?", []),  # cut off while it thought
        ("What does <think> open?\nWhat is A?", ["What does <think> open?", "What is A?"]),
        ("Sure! Here is one: What is A?", ["What is A?"]),
        ("What is A?\nwhat  is a ?\nWhat is A", ["What is A?"]),
        ("U.S. law came when?\nJ. Doe is who?", ["U.S. law came when?", "J. Doe is who?"]),
        ("3.5 percent of what?\nWhat is 2**3**2?", ["3.5 percent of what?", "What is 2**3**2?"]),
        ("What does __init__ do?\n¿Qué es A?", ["What does __init__ do?", "¿Qué es A?"]),
        ("ما هو هذا؟\nΤι είναι αυτό;\nԻ՞նչ է սա", ["ما هو هذا؟", "Τι είναι αυτό;", "Ի՞նչ է սա"]),
        ("以下是两个问题：\n1、什么是水\n请解释什么是水。", ["什么是水", "请解释什么是水。"]),
        ("问题二：树高吗。", ["树高吗。"]),
        ("【1】請問他是誰\n水是透明的。", ["請問他是誰"]),
        ("2つの質問です。\n1. 首都はどこですか\n空は青いです。", ["首都はどこですか"]),
        ("質問2：なぜ青いの？", ["なぜ青いの？"]),
        ("질문입니다:\n질문 1: 물은 무엇인가\n설명하시오.", ["물은 무엇인가"]),
        ("2. 왜 푸른가요?\n비가 오니까요.", ["왜 푸른가요?"]),
        ("คำถาม 2 ข้อ:\n1. กรุงเทพอยู่ที่ไหน\nกรุงเทพเป็นเมืองหลวง", ["กรุงเทพอยู่ที่ไหน"]),
    ],
)  # fmt: skip
def test_questions_are_freed_of_what_surrounds_them(answer: str, questions: list[str]) -> None:
    assert parse(answer)[0] == questions


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "?",
        "Here are two questions based on the text:",
        "Here are two questions based on the context?",
        "Note: these questions test knowledge, okay?",
        "**Note that** the questions are hard, okay?",
        "Let me know if you need more.",
        "Would you like me to generate more questions?",
        "Do you want some more questions?",
        "Is there anything else I can do?",
        "State law prevails here.",
        "Explanation of the terms used",
        "List of questions about the text",
        "Provide feedback on these questions.",
        "Name: A. Smith",
        "Find below two questions.",
        "Explain the following:",
        "The lake freezes from the top.",
        "Question 1",
        "以下是两个关于水的问题",
        "I'm sorry, but I can't help with that.",
    ],
)
def test_other_lines_are_refused(answer: str) -> None:
    assert parse(answer)[0] == []


@given(
    st.lists(
        st.sampled_from(["1. ", "- ", "**", '"', "Q: ", "#", "What is A", "?", "\n", " ", "か"])
    )
)
def test_a_question_is_bare_and_stays_what_it_is(parts: list[str]) -> None:
    for question in parse("".join(parts))[0]:
        assert parse(question)[0] == [question]
        assert not question.startswith(("1.", "-", "Q:", "#", " "))


IMPERATIVES = [
    "Describe the process by which the lake freezes.",
    "Explain why the lake freezes from the top",
    "In your own words, summarize what the crew found.",
    "Based on the context, identify three causes of the fire.",
    "Briefly outline the steps that follow.",
    "Name two moons of Saturn.",
    "Discuss the role of ice. Give examples.",
    "Compare and contrast A and B.",
    "Beschreiben Sie den Ablauf der Reise.",
    "Nenne zwei Monde des Saturn.",
    "Décrivez le rôle de la glace.",
    "Explique por qué el lago se congela.",
    "Descrivi il ruolo del ghiaccio.",
    "Опишите роль льда.",
    "简述湖水结冰的过程。",
    "氷の役割を説明してください。",
    "얼음의 역할을 설명하시오.",
]


@pytest.mark.parametrize("imperative", IMPERATIVES)
def test_an_imperative_is_a_question(imperative: str) -> None:
    answer = f"Here are the questions you asked for:\n\n1. {imperative}\n2. **{imperative}**"
    assert parse(answer)[0] == [imperative]
