"""Lives of messages at random, with the baselines for moving subscriptions and their own stores."""

import pytest
from test_life import life

pytestmark = [pytest.mark.modes, pytest.mark.papers]

#: Options with which few subscriptions and messages are in many cells.
_LEAVES = "leaf=1,depth=6,update=0.0001"
SMALL = {"iq+-tree": _LEAVES, "kk-index": "cells=3", "rq+-tree": _LEAVES, "ss-index": "cells=3"}


@pytest.mark.parametrize("is_earth", [False, True], ids=["plane", "earth"])
@pytest.mark.parametrize("name", SMALL)
def test_a_hub_tells_the_difference(name, is_earth):
    """Each step delivers what recomputation says: messages, moves, replacements, expiry, save and open."""
    for length, tell_expiry in ((None, False), (4, True)):
        life(
            8,
            store=name,
            index=f"{name}:{SMALL[name]}",
            is_earth=is_earth,
            kinds=("within",),
            length=length,
            tell_expiry=tell_expiry,
        )
