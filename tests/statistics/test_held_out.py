"""Held-out figures of a threshold: whoever is judged, the others have questions of both kinds."""

import numpy as np
import pytest

from llama_index_rag_metrics.statistics.abstention import Steps


@pytest.mark.parametrize("with_answer", range(6, 40))
@pytest.mark.parametrize("without", [2, 3])
def test_few_conversations_without_an_answer_are_in_different_parts(
    with_answer: int, without: int
) -> None:
    """Any threshold between 0.2 and 0.9 spares all and loses nothing, whoever chooses it."""
    values = np.tile([1.0, 0.0], (with_answer, 1))
    steps = Steps(np.full((with_answer, 1), 0.9), values, np.full(without, 0.2))
    conversations = np.split(np.arange(with_answer + without), [with_answer])
    lost, spared = steps.held_out(0.02, conversations)
    assert not lost.any()
    assert spared.tolist() == [1.0] * without
    # the other way round, and one conversation of both kinds
    steps = Steps(steps.levels[:without], values[:without], np.full(with_answer, 0.2))
    lost, spared = steps.held_out(0.02, [np.arange(without), np.arange(with_answer) + without - 1])
    assert not lost.any()
    assert spared.tolist() == [1.0] * with_answer
