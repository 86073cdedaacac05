"""The keeper: what other rooms may ask it for."""

import re
from pathlib import Path

import nearcast

SOURCES = Path(nearcast.__file__).parent


def test_only_its_own_room_reaches_into_its_parts():
    """Other rooms use its verbs, so that its parts may change."""
    parts = re.compile(r"(topk|keeper)\.(holders|holding|sliding|slabs|words)\b")
    others = [path for path in SOURCES.rglob("*.py") if (SOURCES / "topk") not in path.parents]
    assert [] == [str(path) for path in others if parts.search(re.sub(r"^from .*", "", path.read_text(), flags=re.M))]
