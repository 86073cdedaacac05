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
    # A length and the telling of expiry once with each store, and with a tree and a grid in either space.
    has_length = is_earth == (name in ("iq+-tree", "ss-index"))
    life(
        8,
        store=name,
        index=f"{name}:{SMALL[name]}",
        is_earth=is_earth,
        kinds=("within",),
        length=4 if has_length else None,
        tell_expiry=has_length,
    )
