"""What the README promises, taken from the README itself.

    python .ci/readme.py command tests|demo   prints the command under that marker
    python .ci/readme.py blocks               runs every Python block, each in a process of its own
    python .ci/readme.py examples [EXTRA]     runs the scripts in examples/ that need that extra, or
                                              none: one that does has a line `# ci: EXTRA`

A block that follows `<!-- ci: NAME -->` is a command; one that follows `<!-- ci: skip, REASON -->`
isn't run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?:<!-- ci: (?P<marker>[^>]*?) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.S
)
NEEDS = re.compile(r"^# ci: (\w+)$", re.M)


def blocks() -> list[re.Match[str]]:
    """The README's code blocks, with their markers."""
    return list(BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8")))


def command(name: str) -> str:
    """The command under a marker."""
    found = [block["code"].strip() for block in blocks() if block["marker"] == name]
    if len(found) != 1:
        raise SystemExit(f"README.md: expected one block under '<!-- ci: {name} -->'")
    return found[0]


def run(what: str, arguments: list[str]) -> None:
    """Run a program in an empty folder; its failure is ours."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            arguments,
            cwd=folder,
            env={**os.environ, "PYTHONWARNINGS": "default"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{what} failed:\n{done.stdout}{done.stderr}")
    print(f"{what}: ran")


def main(task: str, *names: str) -> None:
    if task == "command":
        print(command(*names))
    elif task == "blocks":
        for number, block in enumerate(blocks(), 1):
            if block["language"] == "python" and not (block["marker"] or "").startswith("skip"):
                run(f"README.md, block {number}", [sys.executable, "-c", block["code"]])
    elif task == "examples":
        for script in sorted((ROOT / "examples").glob("*.py")):
            if NEEDS.findall(script.read_text(encoding="utf-8")) == list(names):
                run(f"examples/{script.name}", [sys.executable, str(script)])
    else:
        raise SystemExit(f"unknown task {task!r}: command, blocks or examples")


if __name__ == "__main__":
    main(*sys.argv[1:])
