"""Long phrases are searched in linear time, and found where they stand."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.indexes.shared.phrases import long_phrase_occurs

pytestmark = [pytest.mark.modes, pytest.mark.small]


def stands_in(phrase, terms):
    """Return the definition: the words side by side, at some place."""
    return any(terms[at : at + len(phrase)] == phrase for at in range(len(terms) - len(phrase) + 1))


def occurs(phrase, terms):
    """Search as an index does: the phrase inside of a code, the message inside of a batch."""
    code = np.array([7, *phrase, 7], np.int32)
    batch = np.array([*phrase, *terms, *phrase], np.int32)
    first = len(phrase)
    return bool(long_phrase_occurs(code, 1, len(phrase), batch, first, first + len(terms)))


@st.composite
def repeats(draw):
    """A phrase of repeated words, and a message of the same repeats with a few slips, or with the phrase inside."""
    base = draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
    size = draw(st.integers(1, 40))
    phrase = (base * size)[:size]
    terms = (base * 100)[: draw(st.integers(0, 100))]
    for words in (phrase, terms):
        for at in draw(st.lists(st.integers(0, max(len(words) - 1, 0)), max_size=3)):
            words[at : at + 1] = [draw(st.integers(-1, 2)) if words is terms else draw(st.integers(0, 2))]
    if draw(st.booleans()):
        at = draw(st.integers(0, len(terms)))
        terms[at:at] = phrase
    return phrase, terms


@settings(max_examples=120, deadline=None)
@example(([0, 0, 1, 0], [0, 0, 0, 1, 0]))
@example(([0] * 9, [0] * 8))
@example(([0] * 9, []))
@given(repeats())
def test_agrees_with_the_definition(case):
    """Whatever repeats, a phrase is found where it stands and nowhere else."""
    phrase, terms = case
    assert stands_in(phrase, terms) == occurs(phrase, terms)


class _Counted:
    """Terms that count how often they are read."""

    def __init__(self, terms):
        self.terms, self.reads = terms, 0

    def __getitem__(self, at):
        self.reads += 1
        return self.terms[at]


@pytest.mark.parametrize("slip", [0, 50, 99])
@pytest.mark.parametrize("base", [[0], [0, 1], [0, 0, 1]])
def test_reads_each_word_of_a_message_twice_at_most(base, slip):
    """Words that repeat do not make the search start over at every place."""
    phrase = (base * 100)[:100]
    phrase[slip] = 5
    message = _Counted((base * 2000)[:2000])
    search = getattr(long_phrase_occurs, "py_func", long_phrase_occurs)
    assert not search(np.array(phrase, np.int32), 0, 100, message, 0, 2000)
    assert message.reads <= 2 * 2000
