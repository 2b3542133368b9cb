"""What an LLM would say of nuggets, by words in common; for scripted LLMs."""

from __future__ import annotations

import json
import re


def tagged(prompt: str, name: str) -> list[str]:
    """The texts between tags of that name, and between those that have a suffix."""
    pattern = rf"<({name}(?:-\w+)?)(?: number=\"\d+\")?>\n(.*?)\n</\1>"
    return [text for _, text in re.findall(pattern, prompt, re.DOTALL)]


def own_tag(prompt: str, name: str) -> str:
    """The tag of that name whose suffix no text holds: of those in the prompt, the longest."""
    return max(re.findall(rf"<({name}(?:-\w+)?)\b", prompt), key=len)  # type: ignore[no-any-return]


def is_about_facts(prompt: str) -> bool:
    return "bring\nthe list up to date" in prompt


def is_about_importance(prompt: str) -> bool:
    return "vital:" in prompt


def answer(prompt: str) -> str:
    """Facts: the list so far, and each sentence of the passages. Vital: with a number in it.

    Full support: all words of a fact are in the passage; partial: some are.
    """
    facts = tagged(prompt, "fact")
    if is_about_facts(prompt):
        sentences = [
            sentence.strip()
            for passage in tagged(prompt, "passage")
            for sentence in passage.split(".")
            if sentence.strip()
        ]
        return json.dumps({"facts": list(dict.fromkeys([*facts, *sentences]))})
    if is_about_importance(prompt):
        labels = ["vital" if re.search(r"\d", fact) else "okay" for fact in facts]
    else:
        (passage,) = tagged(prompt, "passage")
        labels = [_support(fact, passage) for fact in facts]
    return json.dumps({"labels": labels})


def _support(fact: str, passage: str) -> str:
    wanted, there = (set(re.findall(r"\w+", text.lower())) for text in (fact, passage))
    return "full" if wanted <= there else "partial" if wanted & there else "none"
