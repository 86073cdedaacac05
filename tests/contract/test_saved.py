"""Saved indexes: the same answers in any process, mapped and not copied, and clear words for damage."""

import functools
import json
import mmap
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from contract.conftest import EVERY, for_cases, kinds_of
from contract.naive import as_lists, as_pairs
from contract.worlds import EARTH, PLANE, SMALL, point, world
from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.geo import Space
from nearcast.indexes import create, open_index
from nearcast.indexes.trigger.components import arrays_of
from nearcast.model import TopK
from nearcast.saved_files.contents import read_signed, signed
from nearcast.testing import IndexActor, check_index
from nearcast.testing.values import point_box
from support.waiting import run

#: What a second process does with a saved index: match, change, match again, and tell.
ELSEWHERE = """
import json, sys
from contract.test_saved import WEIGHTS, change, world_of
from contract.naive import as_pairs
from nearcast.text.words import WordTable
from nearcast.geo import Space
from nearcast.indexes import open_index
from nearcast.testing import IndexActor, check_index

def answers(folder, spec, kind):
    words = WordTable.open(folder + "/words")
    index = IndexActor(open_index(folder + "/index"), words=words, weights=WEIGHTS, n_weighed=len(words), totals=True)
    wanted, said = world_of(spec, Space(kind))
    yield as_pairs(index.match(said))
    change(index, wanted)
    yield as_pairs(index.match(said))
    index.settle()
    check_index(index.index)
    yield as_pairs(index.match(said))

print(json.dumps([list(answers(*each)) for each in json.loads(sys.argv[1])]))
"""

#: Ours, and one of each way to store: the papers' indexes save their tables alike.
IN_A_FRESH_PROCESS = ("scan", "trigger", SMALL, "stamp", "skype", "ap-tree")

#: Words that weigh what they weigh are saved with the rows; those not named here weigh 1.
WEIGHTS = {"w0": 0.5, "w1": 3.0, "w2": 0.0, "w5": 0.1, "unknown": 2.0}


#: Subscriptions of some kinds, and messages: the same for all indexes that match these.
world_of_kinds = functools.cache(lambda kinds, space: world(13, space, 120, 40, kinds))


def world_of(spec, space):
    """Return subscriptions of all kinds that the index matches, and messages."""
    return world_of_kinds(kinds_of(spec), space)


def filled(spec, space):
    """Return an index with a past: removed, replaced and moved slots, several pieces."""
    wanted, said = world_of(spec, space)
    index = IndexActor(create(spec, space), weights=WEIGHTS)
    for first in range(0, 120, 30):
        index.insert(wanted[first : first + 30])
    index.remove([0, 17, 119])
    index.replace([1, 118], [wanted[5], wanted[6]])
    best = [slot for slot in range(20, 110) if isinstance(wanted[slot], TopK)]
    if best:
        index.set_thresholds(best, [0.1 * (slot % 8) for slot in best])
    index.move([40], [point_box(2, 3)])
    return index, said, wanted


def change(index, wanted):
    """Change an index that was filled, as this process and another do."""
    assert list(range(120, 150)) == index.insert(wanted[:30])
    index.remove([2, 50, 124])
    index.replace([3, 125], wanted[40:42])
    index.move([6], [point_box(1, 1)])


@pytest.fixture(params=for_cases(EVERY))
def spec(request):
    """Name an index, whatever it matches."""
    return request.param


def opened(index, folder):
    index.index.save(folder)
    return replace(index, index=open_index(folder))


@pytest.mark.modes
@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_an_opened_index_answers_as_before(spec, space, tmp_path):
    """Saving and opening changes no answer, and the original goes on unharmed."""
    index, said, _ = filled(spec, space)
    before = index.match(said)
    again = opened(index, tmp_path / "index")
    assert before == again.match(said)
    assert before == index.match(said)
    assert len(index.index) == len(again.index)
    assert space == again.index.space
    assert index.index.info == again.index.info
    check_index(again.index)


@pytest.mark.modes
def test_an_opened_index_can_be_changed(spec, tmp_path):
    """Changing and saving go on where they stopped, and the saved folder stays as it was."""
    index, said, wanted = filled(spec, EARTH)
    again = opened(index, tmp_path / "index")
    for each in (index, again):
        change(each, wanted)
        each.settle()
    assert index.match(said) == again.match(said)
    check_index(again.index)
    third = opened(again, tmp_path / "third")
    assert index.match(said) == third.match(said)
    assert filled(spec, EARTH)[0].match(said) == replace(index, index=open_index(tmp_path / "index")).match(said)


def test_a_fresh_process_opens_and_changes_them(tmp_path):
    """Another process gives the same answers of every index, before and after changes of its own."""
    expected, saved = [], []
    for number, spec in enumerate(IN_A_FRESH_PROCESS):
        kind = ("earth", "plane")[number % 2]
        index, said, wanted = filled(spec, Space(kind))
        folder = tmp_path / str(len(saved))
        index.index.save(folder / "index")
        index.words.save(folder / "words")
        saved.append((str(folder), spec, kind))
        before = as_pairs(index.match(said))
        change(index, wanted)
        after = as_pairs(index.match(said))
        expected.append([before, after, after])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = run([sys.executable, "-W", "error", "-c", ELSEWHERE, json.dumps(saved)], env=environment)
    assert "" == done.stderr
    found = [
        [[[tuple(pair) for pair in each] for each in answer] for answer in life] for life in json.loads(done.stdout)
    ]
    for which, life, told in zip(saved, expected, found, strict=True):
        assert life == told, which[1:]


@pytest.mark.modes
def test_an_empty_index_is_saved_too(spec, tmp_path):
    """Nothing in, nothing out, and it can be filled afterwards."""
    again = opened(IndexActor(create(spec, PLANE)), tmp_path / "new" / "index")
    assert [[]] == as_lists(again.match([(["a"], point(0, 0))]))
    wanted, said = world(1, PLANE, 30, 20, kinds_of(spec))
    other = IndexActor(create("scan", PLANE), words=again.words)
    assert other.insert(wanted) == again.insert(wanted)
    assert other.match(said) == again.match(said)


def test_an_emptied_index_is_saved_too(spec, tmp_path):
    """Removed slots stay removed and are not handed out again."""
    index = IndexActor(create(spec, PLANE))
    wanted, said = world(1, PLANE, 30, 20, kinds_of(spec))
    index.remove(index.insert(wanted))
    again = opened(index, tmp_path)
    assert [[]] * 20 == as_lists(again.match(said))
    assert [30] == again.insert(wanted[:1])


def test_the_bounds_of_a_plane_are_kept(spec, tmp_path):
    """A saved index knows the space it was made for."""
    space = Space.plane((0.0, 0.0, 10.0, 5.0))
    create(spec, space).save(tmp_path)
    assert space == open_index(tmp_path).space


def test_options_are_kept(tmp_path):
    """An opened trigger index goes on with the options it was made with."""
    index, _, _ = filled(SMALL, PLANE)
    assert index.index._options == opened(index, tmp_path).index._options


def test_arrays_are_mapped_and_not_copied(tmp_path):
    """Every array of an opened segment lives in its file; only empty ones, which cannot be mapped, do not."""
    index, _, _ = filled("trigger:delta_rows=64,leaf_rows=16", EARTH)
    again = opened(index, tmp_path).index
    arrays = {name: array for c in again._components for name, array in arrays_of(c.segment).items()}
    arrays |= {"owner": again._owner, "popularity": again._popularity}
    copied = [name for name, array in arrays.items() if array.size and not isinstance(array.base, mmap.mmap)]
    assert [] == copied
    assert len(arrays) > 15
    assert all(array.flags.c_contiguous and array.flags.writeable for array in arrays.values())


def test_a_folder_in_use_is_refused(spec, tmp_path):
    """Saving over anything is an error that names the folder, and leaves it alone."""
    (tmp_path / "precious.txt").write_text("mine")
    index = IndexActor(create(spec, PLANE))
    index.insert(world_of(spec, PLANE)[0][:3])
    with pytest.raises(FileExistsError, match="not empty"):
        index.index.save(tmp_path)
    assert ["precious.txt"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "null", "{}", '{"format": 99, "name": "scan"}', '{"format": 1}', b"\xff\xfe\x00"]
)
def test_a_folder_that_is_no_index(text, tmp_path):
    """A missing or damaged index.json is told in one line."""
    if text is not None:
        (tmp_path / "index.json").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(IncompatibleStore) as error:
        open_index(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_not_there(tmp_path):
    """So is a folder that does not exist."""
    with pytest.raises(IncompatibleStore, match="no saved index"):
        open_index(tmp_path / "nowhere")


def test_an_index_of_a_later_version(tmp_path):
    """A name this version does not have is told in one line."""
    create("trigger", PLANE).save(tmp_path)
    manifest = read_signed((tmp_path / "index.json").read_bytes(), "index.json")
    (tmp_path / "index.json").write_bytes(signed(manifest | {"name": "quantum"}))
    with pytest.raises(NearcastError, match="quantum"):
        open_index(tmp_path)


HARM = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "only a header": lambda path: path.write_bytes(path.read_bytes()[:128]),
    "cut in its header": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "no array": lambda path: path.write_bytes(b"hello" * 100),
}


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("spec", ["scan", SMALL])
def test_a_damaged_file(spec, harm, tmp_path):
    """Each file of a saved index, missing or damaged, gives IncompatibleStore in one line that names it.

    Every other file is harmed in one way, the others in the next.
    """
    index, _, _ = filled(spec, EARTH)
    index.settle()
    index.index.save(tmp_path)
    names = sorted(path.name for path in tmp_path.rglob("*.npy"))
    paths = {path.name: path for path in tmp_path.rglob("*.npy")}
    wrong = {}
    for name in list(dict.fromkeys(names))[list(HARM).index(harm) % 2 :: 2]:
        path = paths[name]
        if np.load(path).size == 0:
            continue
        whole = path.read_bytes()
        HARM[harm](path)
        try:
            open_index(tmp_path)
            wrong[name] = "opened"
        except IncompatibleStore as error:
            if "\n" in str(error) or name not in str(error):
                wrong[name] = str(error)
        except Exception as error:  # noqa: BLE001  whatever else it raises is what this test is after
            wrong[name] = repr(error)
        path.write_bytes(whole)
    assert {} == wrong
    open_index(tmp_path)


assert {"scan", "trigger"} <= set(EVERY)
