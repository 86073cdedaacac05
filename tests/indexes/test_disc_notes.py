"""What the search for scored rows reads beside the discs: signatures of the other words, cosines of latitudes."""

import random
from dataclasses import replace

import pytest

from contract.worlds import EARTH, PLANE, SMALL, random_place
from nearcast.indexes import create, open_index
from nearcast.indexes.shared.filters import term_bit
from nearcast.model import SIMILARITIES, Similar
from nearcast.testing import IndexActor, check_index

#: So many words that several share each of the 64 bits of a signature.
WORDS = [f"word{i}" for i in range(300)]
SPACES = pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])

pytestmark = [pytest.mark.modes, pytest.mark.small]


def world(space):
    """Return `trigger` and `scan` with the same subscriptions of words that share bits, and messages of such words."""
    rng = random.Random(5)
    wanted = [
        Similar(
            0,
            place=random_place(rng, space)[:2],
            terms=tuple(rng.sample(WORDS, rng.randint(1, 9))),
            text_weight=rng.choice([0.0, 0.3, 0.7, 1.0]),
            threshold=rng.uniform(0.05, 0.5),
            max_distance=rng.choice([5.0, 20.0]) * (111_195.0 if space.is_earth else 1.0),
            similarity=rng.choice(SIMILARITIES),
        )
        for _ in range(150)
    ]
    said = [(rng.sample(WORDS, rng.randint(0, 40)), random_place(rng, space)) for _ in range(40)]
    actors = [IndexActor(create(spec, space)) for spec in (SMALL, "scan")]
    for actor in actors:
        actor.insert(wanted)
        actor.settle()
    return *actors, said


@SPACES
def test_words_that_share_a_bit_are_told_apart(space):
    """A signature only rules words out: where it cannot, the words themselves are compared."""
    assert len({int(term_bit(term)) for term in range(len(WORDS))}) == 64
    trigger, scan, said = world(space)
    check_index(trigger.index)
    matches = trigger.match(said)
    assert len(matches.slots) > len(said)
    assert scan.match(said) == matches


@SPACES
def test_an_opened_index_has_the_notes_of_the_saved_one(space, tmp_path):
    """They are in no file: whoever opens a segment works them out from its rows."""
    trigger, scan, said = world(space)
    trigger.index.save(tmp_path / "index")
    again = replace(trigger, index=open_index(tmp_path / "index"))
    check_index(again.index)
    assert scan.match(said) == again.match(said)
    assert not [path.name for path in tmp_path.rglob("*.npy") if "others" in path.name or "cosine" in path.name]
