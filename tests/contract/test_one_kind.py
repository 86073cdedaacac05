"""An index that matches similar subscriptions alone, registered here: the suite must suit it, and the hooks be true."""

import contextlib
import random
from dataclasses import replace

import pytest
from hypothesis import given

from contract.scored import similar
from contract.worlds import EARTH, random_weights, world
from nearcast import indexes
from nearcast.errors import NotSupported
from nearcast.indexes import create, open_index, register
from nearcast.indexes.scan import ScanIndex
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index, replay, scripts
from nearcast.testing.values import point_box

pytestmark = [pytest.mark.modes, pytest.mark.small]


@contextlib.contextmanager
def registered_stub():
    """Register, for a while, an index of similar subscriptions alone that notes what its rows are told to be."""

    class Stub(ScanIndex):
        def __init__(self, space):
            super().__init__(space)
            self.known = {}

        def _rows_added(self, first, last):
            assert not set(range(first, last)) & set(self.known), "rows were added twice"
            self.known |= zip(range(first, last), self._slot_of[first:last].tolist(), strict=True)

        def _rows_dropped(self, rows):
            for row in rows.tolist():
                del self.known[row]

        def _rows_renumbered(self):
            self.known = {row: slot for row, slot in enumerate(self._slot_of.tolist()) if slot >= 0}

        def match(self, messages, *, threads=1):
            live = {row: slot for row, slot in enumerate(self._slot_of.tolist()) if slot >= 0}
            assert set(live) == set(self.known), "the hooks told of other rows than there are"
            return super().match(messages, threads=threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "_registry", dict(indexes._registry))
        yield register("stub", kinds=("similar",), paper="none", options={})(Stub)


@given(script=scripts(kinds=("similar",)))
def test_scripts_of_one_kind_suit_an_index_of_that_kind(script):
    """An index that matches similar subscriptions alone gets no others, and plays every script."""
    with registered_stub():
        index = create("stub", script.space)
        assert replay(create("scan", script.space), script) == replay(index, script)
        check_index(index)


@pytest.fixture
def stub():
    """Register the stub for one test."""
    with registered_stub() as stub:
        yield stub


def test_an_index_of_similar_subscriptions_alone(stub, tmp_path):
    """It refuses boolean ones, keeps its promises through a long life, and is saved and opened by its name."""
    index, scan = IndexActor(create("stub", EARTH)), IndexActor(create("scan", EARTH))
    with pytest.raises(NotSupported, match="row 1 is of kind 'within'"):
        index.insert([similar(), (parse("a"), None)])
    assert 0 == len(index.index)
    wanted, said = world(3, EARTH, 300, 40, ("similar",))
    for first in range(0, 300, 100):
        for each in (index, scan):
            slots = each.insert(wanted[first : first + 100])
            each.replace(slots[:30], wanted[first + 50 : first + 80])
            each.move(slots[20:50], [point_box(i, i) for i in range(30)])
            each.remove(slots[40:])
            each.reweigh(random_weights(random.Random(first)))
        assert scan.match(said) == index.match(said)
    index.index.save(tmp_path / "index")
    again = replace(index, index=open_index(tmp_path / "index"))
    assert isinstance(again.index, stub)
    assert scan.match(said) == again.match(said)
