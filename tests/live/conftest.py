"""Every live store under one parameter; `cells` also with all messages in segments, however few they are."""

import pytest

from nearcast.geo import Space
from nearcast.live.cells.store import CellLiveStore
from nearcast.live.registry import LIVE_STORES
from support.live_model import LiveModel


@pytest.fixture(params=[*LIVE_STORES, "cells-filed"])
def name(request, monkeypatch):
    """Name a store."""
    if request.param == "cells-filed":
        monkeypatch.setattr(CellLiveStore, "unfiled_rows", 0)
    return request.param.removesuffix("-filed")


@pytest.fixture
def earth(name):
    """Return an empty store on the earth."""
    return LiveModel(name, Space.earth())


@pytest.fixture
def plane(name):
    """Return an empty store on a plane."""
    return LiveModel(name, Space.plane())
