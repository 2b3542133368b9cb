"""How alike texts are, by hand."""

from __future__ import annotations

import pytest

from llama_index_rag_metrics.labels.likeness import covered, fold_typography, kept_in_order


def test_a_document_that_is_parsed_anew_has_the_same_text() -> None:
    typeset = "the  \u201cof\ufb01\u00adcial\u201d\n rate \u2013 5 %"
    assert fold_typography(typeset) == 'the "official" rate - 5 %'


def test_what_another_text_has_is_covered() -> None:
    text = "Enceladus has geysers."
    assert covered(text, "Its geysers: Enceladus has geysers!").all()
    assert not covered(text, "Io has volcanoes.").any()


def test_what_is_left_of_a_short_text() -> None:
    # 17 letters, of which "a" and "t" of "at" are gone: 2 of 17
    share = kept_in_order("The key is at the desk.", "The key is in the desk.").mean()
    assert share == pytest.approx(15 / 17)
