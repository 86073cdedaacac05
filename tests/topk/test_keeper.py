"""The keeper: what other rooms may ask it for, and what it hands to its kernels."""

import re
from pathlib import Path

import numba
import pytest

import nearcast
from nearcast import Hub, Message, TopK, Within
from nearcast.topk.buffers.walk import walk

SOURCES = Path(nearcast.__file__).parent


def test_only_its_own_room_reaches_into_its_parts():
    """Other rooms use its verbs, so that its parts may change."""
    parts = re.compile(r"(topk|keeper)\.(holders|holding|sliding|slabs|words)\b")
    others = [path for path in SOURCES.rglob("*.py") if (SOURCES / "topk") not in path.parents]
    assert [] == [str(path) for path in others if parts.search(re.sub(r"^from .*", "", path.read_text(), flags=re.M))]


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_the_walk_is_compiled_once_whoever_matches():
    """Scores are new where scored ones are searched, else shared, read-only and short, or one number long.

    A second compilation would be twelve seconds of the first batch.
    """
    hub = Hub("plane", window=10, max_distance=5.0)
    hub.subscribe_many([Within(number, "tea") for number in range(5000)])

    for words, n_told in (("tea", 5000), ("salt", 0)):
        assert n_told == len(hub.publish_many([Message(words, words, (0.0, 0.0))]))
    hub.subscribe(TopK("t", "ramen", (0.0, 0.0), k=2))
    for words, n_told in (("tea", 5000), ("salt", 0), ("ramen", 1), ("tea ramen", 5001)):
        assert n_told == len(hub.publish_many([Message(words, words, (0.0, 0.0))]))
    hub.unsubscribe_many(["t", *range(10, 5000)])
    assert 10 == len(hub.publish_many([Message("few", "tea", (0.0, 0.0))]))

    assert 1 == len(walk.signatures)
