"""What the READMEs and the documentation promise, taken from the pages themselves.

    python .ci/readme.py command tests|demo   prints the command under that marker, the same in all
    python .ci/readme.py blocks [PAGE ...]    runs every Python block, each in a process of its own
    python .ci/readme.py examples [EXTRA]     runs the scripts in examples/ that need that extra, or
                                              none: one that does has a line `# ci: EXTRA`

The scripts run without a key of Cohere's; the one that wants one runs again with a server on
loopback in its place.

A block that follows `<!-- ci: NAME -->` is a command; one that follows `<!-- ci: skip, REASON -->`
isn't run; one that follows `<!-- ci: continued -->` runs after the code above it, in its process;
one that follows `<!-- ci: printed -->` is what the code above it prints, where `…` stands for
anything. A test runs the `pycon` blocks.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "README.zh-TW.md")
sys.path.append(str(ROOT / "tests"))
from support.processes import Forked  # noqa: E402

COHERE = ("CO_API_KEY", "COHERE_API_KEY", "CO_API_URL")
BLOCK = re.compile(
    r"(?:<!-- ci: (?P<marker>[^>]*?) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.S
)
BLANK = re.compile(r"[\s─]+")
NEEDS = re.compile(r"^# ci: (\w+)$", re.M)


def blocks(page: str) -> list[re.Match[str]]:
    """The code blocks of a page, with their markers."""
    return list(BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")))


def command(name: str) -> str:
    """The command under a marker, which is the same in every README."""
    commands = set()
    for page in PAGES:
        found = [block["code"].strip() for block in blocks(page) if block["marker"] == name]
        if len(found) != 1:
            raise SystemExit(f"{page}: expected one block under '<!-- ci: {name} -->'")
        commands.update(found)
    if len(commands) != 1:
        raise SystemExit(f"the READMEs differ under '<!-- ci: {name} -->': {sorted(commands)}")
    return commands.pop()


def run(what: str, arguments: list[str], **variables: str) -> str:
    """What a program prints in an empty folder; its failure is ours."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            arguments,
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
    return succeeded(what, done.returncode, done.stdout, done.stderr)


def run_block(what: str, code: str) -> str:
    """The same of a block, in a process forked from one that has imported the package."""
    with tempfile.TemporaryDirectory() as folder:
        process = Forked(code, folder=folder)
        printed, errors = process.communicate()
    return succeeded(what, process.wait(), printed, errors)


def succeeded(what: str, exit_code: int, printed: str, errors: str) -> str:
    if exit_code:
        raise SystemExit(f"{what} failed:\n{printed}{errors}")
    print(f"{what}: ran\n", end="", flush=True)
    return printed


def check_shown(what: str, shown: str, printed: str) -> str:
    """What follows the parts between the `…`, which were printed in order; blanks don't count."""
    for part in filter(None, (BLANK.sub(" ", part).strip() for part in shown.split("…"))):
        _, found, rest = printed.partition(part)
        if not found:
            raise SystemExit(f"{what}: the code above doesn't print {part!r}, but\n{printed}")
        printed = rest
    print(f"{what}: as printed\n", end="", flush=True)
    return printed


def all_pages() -> list[str]:
    """The READMEs, and every page of the documentation."""
    return [*PAGES, *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]


def run_page(page: str) -> None:
    codes: list[str] = []
    shown: list[list[tuple[int, str]]] = []
    for number, block in enumerate(blocks(page), 1):
        marker = block["marker"] or ""
        if marker == "printed":
            shown[-1].append((number, block["code"]))
        elif marker == "continued":
            codes[-1] += block["code"]
        elif block["language"] == "python" and not marker.startswith("skip"):
            codes.append(block["code"])
            shown.append([])
    for number, (code, texts) in enumerate(zip(codes, shown, strict=True), 1):
        printed = BLANK.sub(" ", run_block(f"{page}, code {number}", code))
        for position, text in texts:
            printed = check_shown(f"{page}, block {position}", text, printed)


def run_example(script: Path) -> None:
    run(f"examples/{script.name}", [sys.executable, str(script)])


def run_together(run_one: Callable[[Any], None], tasks: Iterable[Any]) -> None:
    """One process a core; the first that fails ends it."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            list(pool.map(run_one, tasks))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def examples(extras: list[str]) -> list[Path]:
    scripts = sorted((ROOT / "examples").glob("*.py"))
    return [one for one in scripts if NEEDS.findall(one.read_text(encoding="utf-8")) == extras]


def run_cohere_example() -> None:
    from support.cohere_server import cohere_server

    with cohere_server() as server:
        run(
            "examples/cohere_relevancy.py with a server on loopback",
            [sys.executable, str(ROOT / "examples" / "cohere_relevancy.py")],
            CO_API_KEY="loopback",
            CO_API_URL=server.base_url,
        )
    if len(server.requests) != 10:
        raise SystemExit(f"cohere_relevancy.py sent {len(server.requests)} requests, not 10")


def main(task: str, *names: str) -> None:
    os.environ["PYTHONWARNINGS"] = "default"
    for name in COHERE:
        os.environ.pop(name, None)
    if task == "command":
        print(command(*names))
    elif task == "blocks":
        run_together(run_page, list(names) or all_pages())
    elif task == "examples":
        run_together(run_example, examples(list(names)))
        if not names:
            run_cohere_example()
    else:
        raise SystemExit(f"unknown task {task!r}: command, blocks or examples")


if __name__ == "__main__":
    main(*sys.argv[1:])
