"""Ray itself, and the environment of its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index_rag_metrics.runtime.errors import MissingExtra


def import_ray(purpose: str) -> Any:
    """The package `ray`, or an error that names its extra."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtra(purpose, "ray") from error
    return ray


def worker_options(num_cpus: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """Ray's options of a worker, whose Polars uses no more threads than the worker has CPUs.

    Polars reads its number of threads from the environment when it is imported.
    """
    environment = dict(options.get("runtime_env") or {})
    environment["env_vars"] = {
        "POLARS_MAX_THREADS": str(max(1, int(num_cpus))),
        **environment.get("env_vars", {}),
    }
    return {"num_cpus": num_cpus, **options, "runtime_env": environment}
