"""Many questions to an LLM at once: what fails is named, and the rest goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from llama_index_rag_metrics.evaluation.asking.failed_queries import FailedQueries
from llama_index_rag_metrics.evaluation.asking.options import check_count
from llama_index_rag_metrics.masking import describe_error
from llama_index_rag_metrics.running.progress import progress
from llama_index_rag_metrics.running.refusals import http_status
from llama_index_rag_metrics.running.sync import each

Job = TypeVar("Job")

_LLM = "the LLM"


async def conduct(
    jobs: Sequence[Job],
    do: Callable[[Job], Awaitable[None]],
    *,
    workers: int,
    description: str,
    show_progress: bool,
) -> dict[Job, str]:
    """Do all jobs, some at once.

    A service that refuses the key isn't asked any more.

    Args:
        jobs: what is to be done.
        do: does one of them.
        workers: how many are done at once.
        description: what the progress bar says.
        show_progress: whether to show one.

    Returns:
        Of the jobs that failed, how; secrets are masked.

    Raises:
        InvalidInput: there is no such number of workers.
    """
    check_count("workers", workers, "workers")
    errors: dict[Job, str] = {}
    limit = FailedQueries(None, len(jobs))
    with progress(description, len(jobs), 0, show_progress) as advance:

        async def attempt(job: Job) -> None:
            if (reason := limit.unasked(_LLM)) is not None:
                errors[job] = reason
            else:
                try:
                    await do(job)
                    limit.succeeded(_LLM)
                except Exception as error:  # noqa: BLE001 - recorded by job
                    errors[job] = describe_error(error)
                    limit.record(_LLM, errors[job], http_status(error))
            advance(failed=job in errors)

        await each(jobs, attempt, min(workers, len(jobs)))
    return errors
