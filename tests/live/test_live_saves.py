"""Live stores in files: any store opens what another saved, and damage is refused or harmless."""

import random
import shutil

import numpy as np
import pytest

from contract.worlds import EARTH, random_said, random_wanted
from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.live.registry import LIVE_STORES, open_live_store
from support.live_model import LiveModel
from support.saved_damage import HARM, harmed

pytestmark = pytest.mark.modes


def saved(name, folder):
    """Return a model whose store was saved, some of its messages being over."""
    rng = random.Random(4)
    model = LiveModel(name, EARTH)
    model.append([(tuple(tokens), place) for tokens, place in random_said(rng, EARTH, 40)], [5, 10] * 20)
    model.drop(5)
    model.store.save(folder)
    return model, random_wanted(rng, EARTH, 20, ("within", "similar"))


@pytest.mark.parametrize("other", LIVE_STORES)
@pytest.mark.parametrize("name", LIVE_STORES)
def test_any_store_opens_what_another_saved(name, other, tmp_path):
    model, wanted = saved(name, tmp_path / "live")
    expected = model.relevant(wanted)
    model.store = open_live_store(other, tmp_path / "live", EARTH, model.terms)
    assert expected == model.relevant(wanted)
    assert 20 == len(model.store)
    assert 10 >= model.store.next_expiry
    model.append([(("later",), (0.0, 0.0, 0.0, 0.0))], [11])
    model.drop(10)
    assert 1 == len(model.store)


def test_folder_with_files_is_refused(tmp_path):
    model, _ = saved("scan", tmp_path / "live")
    with pytest.raises(FileExistsError):
        model.store.save(tmp_path / "live")


def test_another_format_is_refused(tmp_path):
    model, _ = saved("scan", tmp_path / "live")
    np.save(tmp_path / "live" / "about.npy", np.array([9, 0]))
    with pytest.raises(IncompatibleStore, match="format 1"):
        open_live_store("scan", tmp_path / "live", EARTH, model.terms)


def test_damage_is_refused_or_harmless(tmp_path):
    """Whatever a file holds, opening it raises our own error, or a search stays within its arrays."""
    model, wanted = saved("cells", tmp_path / "live")
    columns = model.columns(wanted)
    weights, now = model._weights().from_term(0), np.zeros(len(columns), np.int64)
    rng, refused = random.Random(1), 0
    for path in sorted((tmp_path / "live").rglob("*.npy")):
        for how in HARM:
            copy = tmp_path / "copy"
            shutil.copytree(tmp_path / "live", copy)
            data = path.read_bytes()
            (copy / path.relative_to(tmp_path / "live")).write_bytes(harmed(data, how, rng.randrange(len(data))))
            try:
                open_live_store("cells", copy, EARTH, model.terms).relevant(columns, weights, now)
            except NearcastError:
                refused += 1
            shutil.rmtree(copy)
    assert refused > 10
