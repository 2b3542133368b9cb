"""Every metric of the table gives what the slow reference gives, alone and in a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reference import REFERENCE
from support.strategies import NAMES, chosen, queries

from llama_index_rag_metrics import score_rankings
from llama_index_rag_metrics.runtime.errors import InvalidInput

each_metric = pytest.mark.parametrize("name", NAMES)


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-10, abs=1e-12)


def test_oracle_knows_every_metric() -> None:
    assert set(NAMES) == set(REFERENCE)


@each_metric
@given(data=st.data())
@examples(80)
def test_compute(name: str, data: st.DataObject) -> None:
    drawn, query = data.draw(chosen(name)), data.draw(queries())
    if not query.relevance and drawn.metric.needs_relevance:
        with pytest.raises(InvalidInput):
            drawn.metric.compute("", query.relevance, query.ranking)
    else:
        result = drawn.metric.compute("", query.relevance, query.ranking)
        assert result.score == close(drawn.oracle(query))


@each_metric
@given(data=st.data())
@examples(30)
def test_batch(name: str, data: st.DataObject) -> None:
    drawn = data.draw(chosen(name))
    batch = data.draw(st.lists(queries(), max_size=8))
    scores = score_rankings(
        [query.relevance for query in batch],
        [query.ranking for query in batch],
        drawn.metric,
        no_relevant="zero",
    )
    expected = [drawn.oracle(query) for query in batch]
    assert scores[drawn.metric.metric_name].tolist() == [close(value) for value in expected]
