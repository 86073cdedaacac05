"""What words weigh, and what messages amount to: set, set again, counted, missing."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from contract.naive import as_lists, as_pairs
from contract.scored import LEAST, SCORED_FILLER, agree, filled, similar
from contract.worlds import PLANE, point
from nearcast.columns import Messages, ScoreParameters, Subscriptions
from nearcast.errors import InvalidColumns
from nearcast.geo import Box, Regions
from nearcast.query import parse
from nearcast.testing.plain import WHOLE_MESSAGE, totals_of
from nearcast.testing.values import point_box
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import TermWeights, message_totals
from nearcast.text.words import WordTable

pytestmark = [pytest.mark.modes, pytest.mark.small]

HERE, UNIT = point(0, 0), Box(0, 0, 1, 1)
TEXT_ALONE = {"text_weight": 1.0, "threshold": LEAST}


def test_words_weigh_one_until_told_otherwise(new_scored):
    """A term whose weight was never set weighs 1, in subscriptions from before and after."""
    index = new_scored(PLANE)
    columns = Subscriptions.of([0, 1], [0, 3], [5, 6, 7], Regions.from_shapes([point_box(0, 0)], PLANE), kind=[1])
    columns = replace(columns, scoring=ScoreParameters(np.ones(1), np.full(1, 0.1), np.ones(1), np.zeros(1, np.uint8)))
    messages = Messages.of([0, 1, 3], [6, 5, 7], [HERE, HERE])
    index.index.insert(columns)
    assert [[(0, 1 / 3)], [(0, 2 / 3)]] == as_pairs(index.index.match(messages))
    index.index.set_weights(np.array([2.0]), 6)
    index.index.insert(columns)
    index.settle()
    assert [[(0, 0.5), (1, 0.5)]] * 2 == as_pairs(index.index.match(messages))
    index.index.set_weights(np.array([4.0, 4.0]), 7)
    assert [[(0, 2 / 7), (1, 2 / 7)], [(0, 5 / 7), (1, 5 / 7)]] == as_pairs(index.index.match(messages))


def test_weights_may_be_set_again_and_again(new_scored):
    """All that is held is scored with the latest weights; setting the same ones again changes nothing."""
    index = new_scored(PLANE)
    wanted = [similar("a b c", similarity=each, threshold=0.7) for each in ("tsim", "overlap", *WHOLE_MESSAGE)]
    naive = filled(index, [*wanted, similar("a b c", **TEXT_ALONE), similar("c", threshold=1.0)])
    said = [(["a"], HERE), (["b", "c"], HERE), (["a", "b", "c", "x"], point(3, 0)), (["x"], HERE)]
    heavy_a, nothing = {"a": 8.0, "x": 3.0}, dict.fromkeys("abcx", 0.0)
    answers = []
    for weights in ({}, heavy_a, heavy_a, nothing, {"b": 0.3, "c": 0.1}, {"b": 0.3, "c": 0.1, "x": 9.0}, {}):
        for each in (index, naive):
            each.reweigh(weights)
        answers.append(agree(index, naive, said))
    assert answers[1] == answers[2]
    assert answers[0] == answers[-1]
    assert answers[0] != answers[1] != answers[3]


def test_weights_change_the_answer_of_what_was_merged_long_ago(new_scored):
    """A threshold out of reach comes into reach when a word gains weight, and is lost again."""
    index = new_scored(PLANE)
    naive = filled(index, [similar("a b", text_weight=1.0, threshold=0.9)])
    index.settle()
    said = [(["a"], HERE), (["b"], HERE), (["a", "b"], HERE)]
    for weights, expected in (
        ({}, [[], [], [0]]),
        ({"a": 9.0}, [[0], [], [0]]),
        ({"b": 9.0}, [[], [0], [0]]),
        ({"a": 0.0}, [[], [0], [0]]),
        ({"a": 0.0, "b": 0.0}, [[], [], []]),
        ({"a": 5.0, "b": 5.0}, [[], [], [0]]),
    ):
        for each in (index, naive):
            each.reweigh(weights)
        assert expected == agree(index, naive, said)


def test_an_index_of_boolean_subscriptions_may_be_told_weights(new_index):
    """They are of no use to it, and harm nothing."""
    index = new_index(PLANE)
    index.insert([(parse("a"), UNIT)] * 3)
    before = index.match([(["a"], HERE)])
    index.reweigh({"a": 0.0})
    index.index.set_weights(np.zeros(50))
    assert before == index.match([(["a"], HERE)])


# Messages


@pytest.mark.parametrize("function", WHOLE_MESSAGE)
def test_messages_without_the_totals_they_need(new_scored, function):
    """Functions that read the whole message say so of messages that were not counted; an empty batch has nothing to."""
    index = new_scored(PLANE)
    index.insert(SCORED_FILLER)
    index.match([(["a"], HERE)])
    index.insert([similar(similarity=function)])
    messages = replace(index.messages([(["a"], HERE)]), totals=None)
    with pytest.raises(InvalidColumns, match="totals"):
        index.index.match(messages)
    assert 0 == len(index.index.match(messages.take(np.arange(0))))
    assert [[len(SCORED_FILLER)]] == as_lists(index.match([(["a"], HERE)]))


def test_totals_that_nobody_needs(new_scored):
    """Messages may come with them to functions that read common words only."""
    index = new_scored(PLANE)
    naive = filled(index, [similar("a b", threshold=0.5), similar("a b", threshold=0.5, similarity="overlap")])
    index.totals = True
    assert index.messages([(["a"], HERE)]).totals is not None
    agree(index, naive, [(["a"], HERE), (["b", "x"], point(1, 1))])


def test_messages_of_a_batch_keep_their_own_totals(new_scored):
    """Long and short messages in any order: each is scored by what it says itself."""
    index = new_scored(PLANE)
    wanted = [similar("a b c", **TEXT_ALONE, similarity=each) for each in WHOLE_MESSAGE]
    naive = filled(index, wanted)
    rng = random.Random(3)
    said = [([*rng.sample("abcxyz", rng.randint(0, 6)), *"x" * rng.randint(0, 3)], HERE) for _ in range(60)]
    agree(index, naive, said)
    messages = index.messages(said)
    order = np.array(rng.sample(range(60), 60))
    whole = as_pairs(index.index.match(messages))
    assert [whole[row] for row in order] == as_pairs(index.index.match(messages.take(order)))


def test_totals_are_those_of_the_vocabulary():
    """`message_totals` gives what plain Python gives, to the last bit, also for words the vocabulary does not know."""
    rng = random.Random(1)
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([rng.choices("abcdefg", weights=range(1, 8), k=4) for _ in range(30)])
    weights = TermWeights(WordTable(), vocabulary)
    texts = [rng.choices("abcdefgxyz", k=rng.randint(0, 12)) for _ in range(50)]
    by_word = dict(zip("abcdefgxyz", weights.of_column(pa.array(list("abcdefgxyz"))).tolist(), strict=True))
    table, start = WordTable(), np.zeros(51, np.int64)
    np.cumsum([len(text) for text in texts], out=start[1:])
    ids = table.ids_of([word for text in texts for word in text], add=True)
    expected = [totals_of(text, by_word) for text in texts]
    assert expected == [tuple(row) for row in message_totals(start, ids, table, weights).tolist()]
    assert expected == [weights.total(text) for text in texts]
