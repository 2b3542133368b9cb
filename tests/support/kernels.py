"""A real Jupyter kernel of this Python, which runs cells as a notebook does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import pytest

KERNEL = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]


def run_cells(*cells: str) -> list[list[Mapping[str, Any]]]:
    """The outputs of each cell; an error in a cell is raised."""
    pytest.importorskip("ipykernel", reason="a kernel to run the cells")
    nbformat = pytest.importorskip("nbformat", reason="what runs the cells")
    nbclient = pytest.importorskip("nbclient", reason="what runs the cells")
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells]
    )

    async def run() -> None:
        manager = AsyncKernelManager()
        manager._kernel_spec = KernelSpec(argv=KERNEL, display_name="Python", language="python")
        await nbclient.NotebookClient(notebook, km=manager, timeout=120).async_execute()

    asyncio.run(run())
    return [cell["outputs"] for cell in notebook.cells]


def printed(outputs: list[Mapping[str, Any]], stream: str = "stdout") -> str:
    """What a cell wrote to a standard stream."""
    return "".join(
        output["text"]
        for output in outputs
        if output["output_type"] == "stream" and output["name"] == stream
    )
