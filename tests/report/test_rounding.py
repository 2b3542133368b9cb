"""Numbers for people are rounded in `report/numbers.py`, and digits are chosen nowhere else."""

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import llama_index_rag_metrics
from llama_index_rag_metrics.report import numbers
from llama_index_rag_metrics.report.model import Cell
from llama_index_rag_metrics.report.numbers import score
from llama_index_rag_metrics.report.terminal import _folded
from llama_index_rag_metrics.report.text import element, escape_markdown, one_line

HOME = Path(llama_index_rag_metrics.__file__).parent
NUMBERS = "report/numbers.py"

NOT_FOR_PEOPLE = {
    "decisions/gate/rules.py": "a rule, which is read again from its text",
    "report/svg.py": "a mixed colour, and places in a drawing",
    "metrics/base.py": "a metric's name, which is read again",
    "metrics/sets.py": "a metric's parameter",
    "statistics/intervals.py": "what 1 - confidence is",
    "statistics/resampling.py": "equal differences, told from noise",
    "labels/agreeing.py": "equal grades, told from noise",
}
"""File to what it rounds, if that isn't a number for people."""

ROUNDING = re.compile(r"\.\d|[eEfF%]$")
"""A format that chooses digits; `,` and a bare `g` don't."""


def format_of(spec: ast.expr) -> str:
    """A format, whose parts that are worked out count as digits."""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "0"
        for part in (spec.values if isinstance(spec, ast.JoinedStr) else [spec])
    )


def formats(node: ast.AST) -> Iterator[str]:
    """The formats that an expression holds; "round" for what rounds a number itself."""
    if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
        yield format_of(node.format_spec)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            yield from re.findall(r"%[-+ 0#]*\d*(\.\d+[a-zA-Z]|[eEfF])", node.left.value)
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "round":
            yield "round"
        elif name == "format" and isinstance(node.func, ast.Name) and len(node.args) == 2:
            yield format_of(node.args[1])
        elif name == "format" and isinstance(node.func, ast.Attribute):
            template = node.func.value
            if isinstance(template, ast.Constant) and isinstance(template.value, str):
                yield from re.findall(r"\{[^{}:]*:([^{}]*)\}", template.value)


def roundings(source: str) -> list[str]:
    """The lines of a source that round, with how they do."""
    return [
        f"{node.lineno}: {found}"  # type: ignore[attr-defined]
        for node in ast.walk(ast.parse(source))
        for found in formats(node)
        if found == "round" or ROUNDING.search(found)
    ]


def test_rounding_is_seen() -> None:
    rounding = ["f'{mean:.4f}'", "f'{mean:.{digits}f}'", "f'{share:.0%}'", "round(mean, 4)"]
    rounding += ["np.round(means, 4)", "'%.4f' % mean", "'{:.2f}'.format(mean)"]
    assert [len(roundings(source)) for source in rounding] == [1] * len(rounding)
    assert not roundings("f'{n:,}', f'{name:>8}', f'{limit:g}', '%s' % name")


def test_numbers_for_people_are_rounded_in_one_file() -> None:
    found = {
        path.relative_to(HOME).as_posix(): lines
        for path in sorted(HOME.rglob("*.py"))
        if (lines := roundings(path.read_text(encoding="utf-8")))
    }
    assert {path: lines for path, lines in found.items() if path not in NOT_FOR_PEOPLE} == {
        NUMBERS: found[NUMBERS]
    }
    assert set(found) == {NUMBERS, *NOT_FOR_PEOPLE}  # no exception that nothing needs


def test_scripts_round_nothing() -> None:
    rounding = re.compile(r"toFixed|toPrecision|Math\.round|toLocaleString")
    for path in HOME.rglob("*.js"):
        assert not rounding.search(path.read_text(encoding="utf-8")), path


def test_value_that_is_the_limit_has_its_digits() -> None:
    assert score(0.625, limit=0.625, digits=2) == "0.625"
    assert score(0.6, limit=0.6, digits=2) == "0.60"


def test_numbers_have_the_digits_that_say_something() -> None:
    mean = Cell(0.52523, "score", low=0.43101, high=0.6194)
    ours = numbers.estimate("x", 0.525, 0.43, 0.62, 58)
    assert numbers.shown(mean) == "0.5252 (0.4310 to 0.6194)"
    assert ours == "x is 0.53 (0.43 to 0.62 with 95 % confidence)"
    texts = {
        f"{score(0.5)} {score(0.50001, 0.5)} {score(math.nan)}": "0.5000 0.50001 –",
        f"{numbers.signed(0.00006)} {numbers.signed(-0.00004)}": "+0.0001 0.0000",
        numbers.between(-0.1, 0.00003): "−0.1000 to +0.00003",
        numbers.between(1e-12, 0.2): "above 0 to +0.2000",
        numbers.ends(-0.0711, -0.0003): "−0.07 to −0.0003",
        f"{numbers.decimals_of(-0.022, 0.022)} {numbers.decimals_of(-40, 60)}": "3 0",
        f"{numbers.percent(1 - 0.05 / 3)} {numbers.percent(0.999999)}": "98.33 % 99.9999 %",
    }
    assert list(texts) == list(texts.values())


def test_texts_keep_to_their_line_and_their_markup() -> None:
    assert one_line("one\x1b[31m\n two") == "one [31m two"
    assert escape_markdown("<b> @someone | 0.5") == "&#60;b&#62; &#64;someone &#124; 0.5"
    assert element("p", element("b", "x"), title='"') == '<p title="&quot;"><b>x</b></p>'
    name = _folded("openai-3-large-chunk960-rerank7", 16)
    assert name.plain.splitlines() == ["openai-3-large-", "chunk960-rerank7"]
