"""The index `fast`: rare and frequent keywords, the way down, shared lists, what is not asked, and deletion.

`checked` walks a whole pyramid and asserts every promise that its search rests on.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
import pytest

from contract.naive import as_lists
from contract.worlds import random_place, random_query, random_region, random_word
from nearcast.errors import UnknownIndex
from nearcast.geo import Box, Space
from nearcast.indexes import create
from nearcast.indexes.papers.fast import layout
from nearcast.indexes.papers.fast.index import FastIndex, frame_of
from nearcast.indexes.papers.fast.layout import STEP_BITS, WORDLESS, cell_prefix, key_of, step_of
from nearcast.indexes.papers.fast.search import room_for, search_pyramid
from nearcast.indexes.shared.boolean_index import FoundAtoms
from nearcast.query import parse
from nearcast.testing import IndexActor

pytestmark = [pytest.mark.modes, pytest.mark.papers]

EARTH, PLANE = Space.earth(), Space.plane()
ROOT = (0, 0, 0)
#: Spans the frame: 64 by 64, so that with grid=8 a cell of level 1 is 32 wide, of level 2 16, of level 3 8.
FRAME = ("frame", Box(0.0, 0.0, 64.0, 64.0))


@dataclass
class Walked:
    """A pyramid as plain Python: what cells and nodes hold by term, a list being its rows."""

    index: FastIndex
    held: dict = field(default_factory=lambda: defaultdict(dict))
    nodes: dict = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self):
        pyramid = self.index._pyramid
        self.node, self.entry, self.state = pyramid.node, pyramid.entry, pyramid.state
        cells = {}
        for level in range(int(self.state[layout.DEEPEST]) + 1):
            for y in range(1 << level):
                cells |= {cell_prefix(level, x, y): (level, x, y) for x in range(1 << level)}
        n_cells = int(self.state[layout.N_CELLS])
        for key, holds in pyramid.slot.tolist():
            if key != layout.VACANT:
                prefix, term = key >> 32, (key & layout.ROW_MASK) - 1
                assert key == key_of(prefix, term)
                (self.held[cells[prefix]] if prefix < n_cells else self.nodes[prefix - n_cells])[term] = holds

    def rows(self, holds):
        first = layout.first_of(holds)
        return range(first, first + layout.length_of(holds))

    def atoms(self, holds):
        return [int(layout.atom_at(self.entry, row)) for row in self.rows(holds)]

    def own(self, node):
        own = int(self.node[node, layout.OWN])
        return [] if own == layout.NO_LIST else self.atoms(own)

    def words(self, atom):
        columns, rank = self.index._atoms, self.index._pyramid.rank
        first = columns.code_start[atom]
        code = columns.code[first : first + columns.n_words[atom]].tolist()
        return sorted(code, key=lambda term: (rank[term], term)) or [WORDLESS]

    def steps(self, atom):
        frame, box = self.index._pyramid.frame, self.index._atoms.box[atom]
        return [step_of(frame, k % 2, box[k]) for k in range(4)]

    def touches(self, atom, cell):
        _, x, y = cell
        shift = STEP_BITS - cell[0]
        x_min, y_min, x_max, y_max = (step >> shift for step in self.steps(atom))
        return x_min <= x <= x_max and y_min <= y <= y_max

    def places(self, atom, cell):
        """Every place of an atom in a cell: ("list", word), ("trie", node) or ("below",)."""
        words, held = self.words(atom), self.held.get(cell, {})
        found = [("list", w) for w in words if held.get(w, -1) >= 0 and atom in self.atoms(held[w])]
        node = ~held[words[0]] if held.get(words[0], 0) < 0 else None
        for word in [*words[1:], None]:
            if node is None:
                break
            holds = self.nodes[node].get(word) if word is not None else None
            if word is None:
                found += [("trie", node)] * self.own(node).count(atom)
            elif holds is not None and holds >= 0:
                found += [("trie", node)] * self.atoms(holds).count(atom)
            node = ~holds if holds is not None and holds < 0 else None
        is_frequent = all(held.get(w, 0) < 0 and self.node[~held[w], layout.BELOW] > 0 for w in words)
        if is_frequent and any(self.places(atom, child) for child in self.children(atom, cell)):
            found.append(("below",))
        return found

    def children(self, atom, cell):
        level, x, y = cell
        if level == self.state[layout.DEEPEST]:
            return []
        below = [(level + 1, 2 * x + i, 2 * y + j) for j in range(2) for i in range(2)]
        return [child for child in below if self.touches(atom, child)]


def checked(index):
    """Walk the pyramid of an index and assert its promises; return what was walked."""
    walked = Walked(index)
    live = set(np.flatnonzero(index._slot_of[index._atoms.row[: index._n_seen]] >= 0).tolist())
    uses, below, seen = Counter(), Counter(), set()
    for atom in live:
        _check_atom(walked, atom, ROOT, uses, below)
    for cell, held in walked.held.items():
        for term, holds in held.items():
            if holds >= 0:
                _check_list(walked, cell, term, holds, live)
            else:
                assert walked.node[~holds, layout.USES] == uses[cell, term] > 0
                assert walked.node[~holds, layout.BELOW] == below[cell, term]
                _check_node(walked, ~holds, live, seen)
    assert set(walked.nodes) <= seen
    n_slots = sum(map(len, walked.held.values())) + sum(map(len, walked.nodes.values()))
    assert walked.state[layout.SLOTS] == n_slots
    assert walked.state[layout.TASKS] == 0
    return walked


def _check_atom(walked, atom, cell, uses, below):
    """An atom has one place in a cell; where that is a trie or below, its words are frequent and counted."""
    places = walked.places(atom, cell)
    assert len(places) == 1, (atom, cell, places)
    if places[0][0] != "list":
        uses.update((cell, word) for word in walked.words(atom))
    if places[0][0] == "below":
        below.update((cell, word) for word in walked.words(atom))
        for child in walked.children(atom, cell):
            _check_atom(walked, atom, child, uses, below)


def _check_list(walked, cell, term, holds, live):
    """A rare word has a short list of live atoms with it, of use to every cell that shares it."""
    level, x, y = cell
    atoms = walked.atoms(holds)
    assert 1 <= len(atoms) <= walked.state[layout.THRESHOLD]
    assert set(atoms) <= live
    assert all(term in walked.words(atom) for atom in atoms)
    assert any(walked.touches(atom, cell) for atom in atoms)
    sharing = [
        other
        for other, held in walked.held.items()
        if held.get(term, -1) >= 0 and layout.first_of(held[term]) == layout.first_of(holds)
    ]
    assert {(each[0], each[1] >> 1, each[2] >> 1) for each in sharing} == {(level, x >> 1, y >> 1)}
    assert all(any(walked.touches(atom, other) for other in sharing) for atom in atoms)
    assert all(walked.held[other][term] == holds for other in sharing)
    assert len(sharing) == 1 or holds & layout.SHARED


def _check_node(walked, node, live, seen):
    """A node knows its children, and has no more small atoms than may be."""
    assert node not in seen
    seen.add(node)
    own, children = walked.own(node), walked.nodes.get(node, {})
    assert set(own) <= live
    assert 0 <= walked.node[node, layout.N_FINAL] <= len(own)
    assert len(own) - walked.node[node, layout.N_FINAL] <= walked.state[layout.THRESHOLD]
    assert walked.node[node, layout.N_CHILDREN] == len(children)
    assert bool(children) == bool(walked.node[node, layout.MASK])
    for term, holds in children.items():
        assert walked.node[node, layout.MASK] & layout.term_bit(term)
        if holds >= 0:
            assert 1 <= len(walked.atoms(holds)) <= walked.state[layout.TRIE_LIST]
            assert set(walked.atoms(holds)) <= live
        else:
            _check_node(walked, ~holds, live, seen)


def actor_of(wanted, *, threshold=2, grid=8, space=PLANE):
    actor = IndexActor(FastIndex(space, threshold=threshold, grid=grid))
    actor.insert([(parse(query), region) for query, region in wanted])
    actor.match([])
    return actor


def changed(actor):
    """Let the index know what has changed, and return it walked."""
    actor.match([])
    return checked(actor.index)


def term_of(actor, word):
    return actor.words.words().to_pylist().index(word)


def slots_for(actor, words, place):
    return as_lists(actor.match([(words.split(), place)]))[0]


def point(x, y):
    return (x, y, x, y)


def spot(x, y, size=1.0):
    return Box(x, y, x + size, y + size)


# --- rare and frequent --------------------------------------------------------------------------------------------


def test_a_word_is_rare_while_its_list_has_room():
    actor = actor_of([FRAME, ("a", spot(1, 1)), ("a", spot(50, 50))])
    a = term_of(actor, "a")
    assert checked(actor.index).atoms(checked(actor.index).held[ROOT][a]) == [1, 2]
    actor.insert([(parse("a"), spot(9, 9))])
    walked = changed(actor)
    assert walked.held[ROOT][a] < 0
    assert slots_for(actor, "a", point(9.5, 9.5)) == [3]


def test_an_atom_goes_under_its_rarest_word_first():
    """By the number of atoms with it, whatever its list is like."""
    actor = actor_of([FRAME, ("a", spot(1, 1)), ("a b", spot(1, 1)), ("b c", spot(1, 1)), ("b", spot(1, 1))])
    walked = checked(actor.index)
    a, b, c = (term_of(actor, word) for word in "abc")
    assert [walked.places(atom, ROOT) for atom in (2, 3)] == [[("list", a)], [("list", c)]]
    assert walked.atoms(walked.held[ROOT][b]) == [4]


def test_an_atom_goes_under_another_word_when_the_rarest_has_no_room():
    actor = actor_of([FRAME, *[("b", spot(1, 1))], ("b c", spot(1, 1)), ("b c", spot(2, 2)), ("b c", spot(3, 3))])
    walked = checked(actor.index)
    b, c = term_of(actor, "b"), term_of(actor, "c")
    assert walked.atoms(walked.held[ROOT][c]) == [2, 3]
    assert walked.atoms(walked.held[ROOT][b]) == [1, 4]
    assert slots_for(actor, "b c", point(3.5, 3.5)) == [4]


def test_words_without_room_become_frequent_together_and_their_atoms_find_new_places():
    """Of a full list under b, the atom that has d too goes there; the others are in tries."""
    wanted = [FRAME, ("b", spot(1, 1)), ("b d e", spot(1, 1)), ("c", spot(1, 1)), ("c", spot(1, 1))]
    actor = actor_of([*wanted, *[("d", spot(40, 40)), ("e", spot(40, 40))]])
    actor.insert([(parse("b c"), spot(1, 1)), (parse("b c"), spot(1, 1)), (parse("b"), spot(1, 1))])
    walked = changed(actor)
    b, c = term_of(actor, "b"), term_of(actor, "c")
    assert walked.held[ROOT][b] < 0
    assert walked.held[ROOT][c] < 0
    assert walked.places(2, ROOT)[0][0] == "list"
    assert slots_for(actor, "b c", point(1.5, 1.5)) == [1, 3, 4, 7, 8, 9]


def test_a_list_of_a_trie_without_room_becomes_a_node():
    words = "a b c"
    full = [(word, spot(i, 1)) for word in words.split() for i in range(3)]
    actor = actor_of([FRAME, *full, *[(words, spot(4 * i, 10)) for i in range(12)]], grid=1)
    walked = checked(actor.index)
    places = {walked.places(atom, ROOT)[0] for atom in range(10, 22)}
    assert len(places) == 1
    ((kind, node),) = places
    assert kind == "trie"
    assert sorted(walked.own(node)) == list(range(10, 22))
    assert slots_for(actor, words, point(20.5, 10.5)) == [15]


def test_atoms_without_a_word_stand_under_what_every_message_has():
    actor = actor_of([FRAME, *[("NOT spam", spot(i, i)) for i in range(5)]])
    assert checked(actor.index).held[ROOT][WORDLESS] < 0
    assert slots_for(actor, "ham", point(2.5, 2.5)) == [3]
    assert slots_for(actor, "spam", point(2.5, 2.5)) == []
    assert slots_for(actor, "", point(2.5, 2.5)) == [3]


# --- the way down -------------------------------------------------------------------------------------------------


def test_the_half_with_the_smallest_overlap_goes_one_level_down():
    actor = actor_of([FRAME, ("a", spot(1, 1, 4.0)), ("a", spot(1, 1, 1.0)), ("a", spot(1, 1, 3.0))])
    walked, a = checked(actor.index), term_of(actor, "a")
    root = ~walked.held[ROOT][a]
    assert sorted(walked.own(root)) == [1, 3]
    assert walked.node[root, layout.BELOW] == 1
    assert walked.atoms(walked.held[1, 0, 0][a]) == [2]


def test_an_atom_wider_than_half_a_cell_stays():
    actor = actor_of([FRAME, *[("a", Box(1.0, 1.0, 40.0, 2.0))] * 5, *[("a", spot(3, 3))] * 4, ("a", None)])
    walked, a = checked(actor.index), term_of(actor, "a")
    root = ~walked.held[ROOT][a]
    assert walked.node[root, layout.N_FINAL] == 6
    assert {1, 2, 3, 4, 5, 10} <= set(walked.own(root))
    assert slots_for(actor, "a", point(3.5, 3.5)) == [6, 7, 8, 9, 10]


def test_the_finest_level_keeps_what_does_not_fit():
    actor = actor_of([FRAME, *[("a", spot(1, 1))] * 40])
    walked, a = checked(actor.index), term_of(actor, "a")
    assert len(walked.own(~walked.held[3, 0, 0][a])) > 30
    assert slots_for(actor, "a", point(1.5, 1.5)) == list(range(1, 41))


@pytest.mark.parametrize("grid", [1, 8, 512])
def test_a_frame_without_area_is_one_cell_a_level(grid):
    actor = actor_of([("a b", Box(5.0, 5.0, 5.0, 5.0))] * 40, grid=grid)
    changed(actor) if grid < 512 else actor.match([])
    assert slots_for(actor, "a b", point(5.0, 5.0)) == list(range(40))
    assert slots_for(actor, "a b", point(5.0, 5.1)) == []
    assert slots_for(actor, "a b", (-1e300, -1e300, 1e300, 1e300)) == list(range(40))


# --- shared lists -------------------------------------------------------------------------------------------------


def across_two_cells():
    """Two atoms in a corner keep the root busy; the third, atom 3, lies on the border of two cells of level 1."""
    return actor_of([FRAME, *[("a", spot(1, 1, 9.0))] * 2, ("a", Box(31.0, 1.0, 33.0, 2.0))])


def test_cells_of_a_parent_share_the_list_of_an_atom_in_both():
    actor = across_two_cells()
    walked, a = checked(actor.index), term_of(actor, "a")
    left, right = walked.held[1, 0, 0][a], walked.held[1, 1, 0][a]
    assert left == right
    assert left & layout.SHARED
    assert walked.atoms(left) == [3]
    assert slots_for(actor, "a", (30.0, 1.5, 34.0, 1.5)) == [3]


def test_who_leaves_a_shared_list_takes_its_own_atoms_along():
    actor = across_two_cells()
    actor.insert([(parse("a"), spot(3 + i, 3, 0.5)) for i in range(4)])
    walked, a = changed(actor), term_of(actor, "a")
    assert walked.held[1, 0, 0][a] < 0
    assert walked.atoms(walked.held[1, 1, 0][a]) == [3]
    assert slots_for(actor, "a", point(32.5, 1.5)) == [3]
    assert slots_for(actor, "a", point(31.5, 1.5)) == [3]


def test_the_last_atom_in_both_cells_takes_the_shared_list_from_the_one_nobody_touches():
    actor = across_two_cells()
    walked, a = checked(actor.index), term_of(actor, "a")
    actor.insert([(parse("a"), spot(3, 3, 0.5))])
    walked = changed(actor)
    assert walked.atoms(walked.held[1, 1, 0][a]) == [3, 4]
    actor.remove([3])
    walked = changed(actor)
    assert walked.atoms(walked.held[1, 0, 0][a]) == [4]
    assert a not in walked.held[1, 1, 0]


# --- what is not asked --------------------------------------------------------------------------------------------


def alive_below(actor, words, place):
    """Return the words that a message asks for at each level, as long as there are any."""
    index = actor.index
    batch = index._batch(actor.messages([(words.split(), place)]).for_kernels(), np.zeros(1, np.int32))
    room = room_for(index._deepest + 1, len(batch.word), index._most_words)
    found = FoundAtoms(np.empty(100, np.int32), np.zeros(1, np.int64), np.zeros(2, np.int64))
    assert search_pyramid(index._pyramid, index._atoms, batch, room, 0, found) == 1
    names = [*actor.words.words().to_pylist(), "*"]
    return [{names[term] for term in row[:n]} for row, n in zip(room.alive, room.n_alive, strict=True)]


def test_only_words_frequent_in_a_cell_with_atoms_below_are_asked_further_down():
    """a is frequent and has atoms below, c is frequent in tries only, r is rare, the root knows no x."""
    wanted = [FRAME, *[("a", spot(1, 1))] * 4, ("r", spot(1, 1)), ("x y", spot(1, 1)), *[("c", spot(1, 1, 40.0))] * 3]
    actor = actor_of(wanted)
    walked = checked(actor.index)
    assert walked.held[ROOT][term_of(actor, "c")] < 0
    alive = alive_below(actor, "a c r x", point(1.5, 1.5))
    assert alive[0] == {"*", "a", "c", "r", "x"}
    assert alive[1] == {"a"}


def test_a_word_is_asked_below_as_long_as_an_atom_there_needs_it():
    """Whoever has a and b below keeps both frequent above, though nobody in the root itself needs them."""
    full = [(word, spot(i, 1, 40.0)) for word in "ab" for i in range(3)]
    actor = actor_of([FRAME, *full, *[("a b", spot(1, 1, 1.0 + i / 4)) for i in range(12)]])
    walked = checked(actor.index)
    below = [atom for atom in range(7, 19) if walked.places(atom, ROOT) == [("below",)]]
    assert below
    actor.remove([slot for slot in range(1, 19) if slot not in below])
    actor.index._n_built = 0  # it would be built anew, with no atom below
    changed(actor)
    assert {"a", "b"} <= alive_below(actor, "a b", point(1.5, 1.5))[1]
    assert slots_for(actor, "a b", point(1.5, 1.5)) == below


def test_a_word_is_asked_below_no_more_when_the_last_atom_there_is_gone():
    actor = actor_of([FRAME, *[("a", spot(1, 1, 4.0 - i)) for i in range(3)]])
    walked, a = checked(actor.index), term_of(actor, "a")
    (below,) = walked.atoms(walked.held[1, 0, 0][a])
    actor.remove([below])
    walked = changed(actor)
    assert a not in walked.held[1, 0, 0]
    assert walked.node[~walked.held[ROOT][a], layout.BELOW] == 0
    assert alive_below(actor, "a", point(1.5, 1.5))[1] == set()
    assert len(slots_for(actor, "a", point(1.5, 1.5))) == 2


def test_the_last_atom_that_needs_a_frequent_word_makes_it_unknown():
    actor = actor_of([FRAME, *[("f", spot(i, i)) for i in range(9)], *[("a", spot(1, 1))] * 5])
    a = term_of(actor, "a")
    actor.remove(list(range(10, 15)))
    assert a not in changed(actor).held[ROOT]
    actor.insert([(parse("a"), spot(1, 1))])
    walked = changed(actor)
    assert walked.atoms(walked.held[ROOT][a]) == [15]


def test_a_node_that_becomes_small_is_a_list_again():
    full = [(word, spot(i, 1)) for word in "ab" for i in range(3)]
    actor = actor_of([FRAME, *full, *[("a b", spot(i, 10, 40.0)) for i in range(12)]], grid=1)
    walked = checked(actor.index)
    node = walked.places(7, ROOT)[0][1]
    assert sorted(walked.own(node)) == list(range(7, 19))
    actor.remove(list(range(7, 18)))
    actor.index._n_built = 0  # it would be built anew, with no trie
    walked = changed(actor)
    root = walked.places(18, ROOT)[0][1]
    assert [walked.atoms(holds) for holds in walked.nodes[root].values()] == [[18]]


def test_an_index_that_lost_half_of_its_atoms_is_built_anew():
    actor = actor_of([FRAME, *[("a", spot(1, 1))] * 40])
    actor.remove(list(range(1, 39)))
    walked = changed(actor)
    assert walked.held[ROOT][term_of(actor, "a")] >= 0
    assert slots_for(actor, "a", point(1.5, 1.5)) == [39, 40]


# --- all together -------------------------------------------------------------------------------------------------


def random_wanted(rng, space, n):
    return [(random_query(rng), random_region(rng, space)) for _ in range(n)]


def random_messages(rng, space, n):
    return [([random_word(rng) for _ in range(rng.randint(0, 6))], random_place(rng, space)) for _ in range(n)]


@pytest.mark.parametrize("space", [PLANE, EARTH], ids=["plane", "earth"])
@pytest.mark.parametrize("options", [(1, 8), (2, 4), (3, 16)], ids=str)
def test_random_changes_keep_all_promises(space, options):
    rng = random.Random(f"{options} {space.kind}")
    threshold, grid = options
    actors = [IndexActor(FastIndex(space, threshold=threshold, grid=grid)), IndexActor(create("scan", space))]
    live = set()
    for round_number in range(9):
        n = 60 if round_number == 0 else rng.randint(0, 30)
        wanted, gone = random_wanted(rng, space, n), rng.sample(sorted(live), min(len(live), rng.randint(0, 20)))
        moved = rng.sample(sorted(live - set(gone)), min(len(live) - len(gone), 5))
        other, said = random_wanted(rng, space, len(moved)), random_messages(rng, space, 12)
        for actor in actors:
            new = actor.insert(wanted)
            actor.remove(gone)
            actor.replace(moved, other)
        live = (live | set(new)) - set(gone)
        answers = [as_lists(actor.match(said)) for actor in actors]
        assert answers[0] == answers[1]
        checked(actors[0].index)


def test_arrays_that_are_too_small_grow_between_two_tasks(monkeypatch):
    """Every array begins without room, and long clauses need more at once than short ones."""
    empty = FastIndex._empty

    def without_room(index, n_atoms):
        return empty(index, 0)._replace(
            slot=np.full((8, 2), layout.VACANT, np.int64),
            node=np.empty((1, 8), np.int64),
            entry=np.empty((0, 8), np.int32),
        )

    monkeypatch.setattr(FastIndex, "_empty", without_room)
    rng = random.Random(6)
    long = " ".join(f"long{i}" for i in range(40))
    wanted = [(parse(long), random_region(rng, PLANE)) for _ in range(9)] + random_wanted(rng, PLANE, 80)
    actors = [IndexActor(FastIndex(PLANE, threshold=1, grid=8)), IndexActor(create("scan", PLANE))]
    said = [(long.split(), (-20.0, -20.0, 20.0, 20.0)), *random_messages(rng, PLANE, 30)]
    answers = []
    for actor in actors:
        actor.insert(wanted)
        answers.append(as_lists(actor.match(said)))
    assert answers[0] == answers[1]
    checked(actors[0].index)


# --- space and options --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "box",
    [(0.0, 0.0, 64.0, 1.0), (-1e300, -1e-300, 1e300, 1e-300), (-1e308, 0.0, 1e308, 5e-324), (3.0, 3.0, 3.0, 3.0)],
    ids=["usual", "huge and tiny", "largest", "point"],
)
def test_steps_never_decrease(box):
    frame = frame_of(np.array([box, (-np.inf, -np.inf, np.inf, np.inf)]))
    for axis in range(2):
        low, high = box[axis], box[axis + 2]
        values = sorted([-np.inf, -1e308, -1.0, 0.0, 5e-324, 1e-300, 1.0, 1e308, np.inf, low, high, low / 2 + high / 2])
        steps = [step_of(frame, axis, value) for value in values]
        assert steps == sorted(steps)
        assert steps[0] == 0
        assert steps[-1] == layout.LAST_STEP


def test_what_lies_outside_the_frame_is_in_the_cells_at_its_border():
    actors = [actor_of([FRAME, *[("a", spot(i, 60 - i)) for i in range(60)]]), IndexActor(create("scan", PLANE))]
    actors[1].insert(
        [(parse(query), region) for query, region in [FRAME, *[("a", spot(i, 60 - i)) for i in range(60)]]]
    )
    away = [
        Box(x, y, x + w, y + w) for x in (-1e300, -70.0, 65.0, 1e300) for y in (-1e9, 5.0, 1e300) for w in (0.0, 9.0)
    ]
    places = [point(x, y) for x in (-1e300, -66.0, 70.0, 1e300) for y in (-1e9, 6.0, 1e300)]
    places += [(-1e300, 5.0, -60.0, 9.0), (64.0, -1e300, 1e300, 1e300), (-1e300, -1e300, 1e300, 1e300)]
    answers = []
    for actor in actors:
        actor.insert([(parse("a"), box) for box in away])
        answers.append(as_lists(actor.match([(["a"], place) for place in places])))
    assert answers[0] == answers[1]
    assert len(answers[0][-1]) == 84
    checked(actors[0].index)


@pytest.mark.parametrize("options", ["threshold=0", "threshold=-3", "grid=0", "grid=6", "grid=32768"])
def test_options_of_no_pyramid_are_refused(options):
    with pytest.raises(UnknownIndex, match=options.partition("=")[0]):
        create(f"fast:{options}", PLANE)
