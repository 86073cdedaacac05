"""The baselines for similar subscriptions: each answers as `scan` does, and its bounds are bounds."""

import dataclasses
import random

import numba
import numpy as np
import pytest

from nearcast.columns import SIMILAR, Messages, ScoreParameters, Subscriptions
from nearcast.errors import InvalidColumns, NotSupported, UnknownIndex
from nearcast.geo import BOX, Regions, Space
from nearcast.indexes import available, create, open_index
from nearcast.indexes.papers.ir_similar.bounds import node_near, node_score, node_text
from nearcast.indexes.shared.forest import build_forest, skip_to
from nearcast.indexes.shared.packed_rtree import box_gap
from nearcast.indexes.shared.rebuilt_index import bytes_of
from nearcast.similarity import COSINE, DICE, JACCARD, MARGIN, OVERLAP, TSIM, near_needed

pytestmark = [pytest.mark.modes, pytest.mark.papers]

EARTH, PLANE = Space.earth(), Space.plane()
SPACES = pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
NAMES = ["inverted", "ir-tree-1", "ir-tree-100", "rt++-similar"]
#: Small nodes, so that a few dozen subscriptions make trees of several levels.
SPECS = [*NAMES, "ir-tree-1:fan_out=3", "ir-tree-100:fan_out=2", "rt++-similar:fan_out=2", "rt++-similar:fan_out=9"]
FUNCTIONS = (TSIM, OVERLAP, JACCARD, DICE, COSINE)

WORDS = [f"w{i:02}" for i in range(14)]
#: Some weigh alike, one weighs nothing, one next to nothing.
WEIGHTS = np.array([0.0, 1e-9, 0.5, 0.5, 0.5, 1.0, 1.0, 2.0, 3.5, 0.1, 0.2, 7.0, 1.0, 0.3])
OTHER_WEIGHTS = np.array([2.0, 0.4, 0.5, 0.0, 1.5, 0.1, 1.0, 0.2, 3.5, 0.9, 2.2, 0.7, 1.0, 5.0])
N_DRAWN = 40 if numba.config.DISABLE_JIT else 120


def random_point(rng, space):
    """Half of them on a lattice, so that places and distances repeat; on the earth also at the dateline and poles."""
    if space.is_earth and rng.random() < 0.4:
        return rng.choice([-180.0, 180.0, 179.0, -179.5, 0.0, 90.0]), rng.choice([-90.0, 90.0, 89.0, -1.0, 0.0, 1.0])
    if rng.random() < 0.5:
        return float(rng.randint(-4, 4)), float(rng.randint(-4, 4))
    return rng.uniform(-6, 6), rng.uniform(-6, 6)


def random_place(rng, space):
    x, y = random_point(rng, space)
    if rng.random() < 0.6:
        return x, y, x, y
    x_max, y_max = x + rng.choice([0.0, 1.0, rng.uniform(0, 9)]), y + rng.choice([0.0, 1.0, rng.uniform(0, 9)])
    if space.is_earth:
        x_max, y_max = x_max - 360.0 if x_max > 180.0 else x_max, min(y_max, 90.0)
    return x, y, x_max, y_max


def random_scoring(rng, space, n):
    unit = 111_195.0 if space.is_earth else 1.0
    weight = [rng.choice([0.0, 1.0, 0.5, rng.random(), rng.random()]) for _ in range(n)]
    threshold = [rng.choice([1.0, 0.5, 0.25, 1.0 - rng.random(), 1.0 - rng.random()]) for _ in range(n)]
    distance = [rng.choice([1e-3, 1.0, 5.0, 10.0, rng.uniform(1, 20), 300.0]) * unit for _ in range(n)]
    function = [rng.choice(FUNCTIONS) for _ in range(n)]
    return ScoreParameters(np.array(weight), np.array(threshold), np.array(distance), np.array(function, np.uint8))


def subscriptions_of(wanted, scoring, space):
    """Return columns of (terms, point) pairs; terms are numbers of `WORDS`."""
    start = np.append(0, np.cumsum([len(terms) for terms, _ in wanted])).astype(np.int64)
    code = np.array([term for terms, _ in wanted for term in sorted(terms)], np.int32)
    box = np.array([(*point, *point) for _, point in wanted]).reshape(-1, 4)
    regions, faults = Regions.from_arrays(space, np.full(len(wanted), BOX, np.uint8), box, {})
    assert not faults
    kind = np.full(len(wanted), SIMILAR, np.uint8)
    return Subscriptions.of(np.arange(len(wanted) + 1), start, code, regions, kind=kind, scoring=scoring)


def random_subscriptions(rng, space, n):
    """Up to five words, the first ones in most of them; some without any."""
    pool = [*range(5), *range(5), *range(len(WORDS))]
    wanted = [(set(rng.choices(pool, k=rng.randint(0, 5))), random_point(rng, space)) for _ in range(n)]
    return subscriptions_of(wanted, random_scoring(rng, space, n), space)


def messages_of(said, weights):
    """Return columns of (tokens, place) pairs, totals among them; a token that is no word of ours weighs 1.5."""
    terms = [[WORDS.index(token) if token in WORDS else -1 for token in tokens] for tokens, _ in said]
    start = np.append(0, np.cumsum([len(row) for row in terms])).astype(np.int64)
    box = np.array([place for _, place in said]).reshape(-1, 4)
    totals = [(len(set(tokens)), sum(_weight(token, weights) for token in sorted(set(tokens)))) for tokens, _ in said]
    flat = np.array([term for row in terms for term in row], np.int32)
    return Messages.of(start, flat, box, totals=np.insert(np.array(totals, float).reshape(-1, 2), 2, 0.0, axis=1))


def _weight(token, weights):
    return float(weights[WORDS.index(token)]) if token in WORDS else 1.5


def random_said(rng, space, n):
    """Texts of none to all words, repeated and unknown ones among them."""
    pool = [*WORDS[:5], *WORDS, "unknown", "zebra"]
    return [(rng.choices(pool, k=rng.choice([0, 1, 2, 4, 8, 40])), random_place(rng, space)) for _ in range(n)]


def new_index(spec, space, subscriptions, weights=WEIGHTS):
    index = create(spec, space)
    index.set_weights(weights)
    index.insert(subscriptions)
    return index


def world(seed, space, n_subscriptions=None, n_messages=None):
    rng = random.Random(seed)
    subscriptions = random_subscriptions(rng, space, n_subscriptions or 4 * N_DRAWN)
    return subscriptions, messages_of(random_said(rng, space, n_messages or N_DRAWN), WEIGHTS)


def test_the_baselines_are_registered():
    """All four hold similar subscriptions and nothing else."""
    kinds = {info.name: info.kinds for info in available()}
    assert [("similar",)] * 4 == [kinds[name] for name in NAMES]


@pytest.mark.parametrize("spec", SPECS)
@SPACES
def test_agrees_with_scan(spec, space):
    """Same slots, same order, same scores to the last bit, whatever the functions, weights and thresholds."""
    for seed in range(3):
        subscriptions, messages = world(seed, space)
        expected = new_index("scan", space, subscriptions).match(messages)
        found = new_index(spec, space, subscriptions).match(messages)
        assert expected == found
        assert len(expected.slots) > 2 * N_DRAWN
        assert found.verified >= len(found.slots)


@pytest.mark.parametrize("spec", SPECS)
@SPACES
def test_scores_exactly_at_the_threshold_match(spec, space):
    """A threshold that is the score matches; one that is a last bit above does not."""
    rng = random.Random(5)
    subscriptions, messages = world(5, space, N_DRAWN, N_DRAWN)
    scoring = subscriptions.scoring
    scan = new_index("scan", space, dataclasses.replace(subscriptions, scoring=_with_threshold(scoring, 1e-12)))
    found = scan.match(messages)
    message, slot, score = found.rows(), found.slots, found.score
    picked = np.array(sorted(rng.sample(range(len(slot)), min(len(slot), 4 * N_DRAWN))))
    picked = picked[(score[picked] > 0) & (score[picked] < 1)]
    at, above = score[picked], np.nextafter(score[picked], 2.0)
    rows = subscriptions.take(np.tile(slot[picked], 2))
    threshold = np.append(at, above)
    rows = dataclasses.replace(rows, scoring=_with_threshold(rows.scoring, threshold))
    matches = new_index(spec, space, rows).match(messages)
    assert new_index("scan", space, rows).match(messages) == matches
    pairs = set(zip(matches.rows().tolist(), matches.slots.tolist(), strict=True))
    assert all((m, i) in pairs for i, m in enumerate(message[picked]))
    assert not any((m, i + len(picked)) in pairs for i, m in enumerate(message[picked]))


def _with_threshold(scoring, threshold):
    return dataclasses.replace(scoring, threshold=np.broadcast_to(threshold, len(scoring.threshold)).astype(float))


@pytest.mark.parametrize("spec", SPECS)
@SPACES
def test_agrees_with_scan_through_a_life(spec, space, tmp_path):
    """Inserts, removals, replacements, moves, other weights, new numbers, saving and opening change no answer."""
    rng = random.Random(7)
    both = [create(spec, space), create("scan", space)]
    weights = WEIGHTS
    for index in both:
        index.set_weights(weights)

    def check():
        messages = messages_of(random_said(rng, space, N_DRAWN // 3), weights)
        assert both[1].match(messages) == both[0].match(messages)

    check()
    for turn, size in enumerate((1, 40, 2, 3, 40, 1, 5)):
        rows = random_subscriptions(rng, space, size)
        for index in both:
            index.insert(rows)
        check()
        live = np.flatnonzero(both[1]._row_of >= 0).tolist()
        gone, changed, moved = (np.array(rng.sample(live, len(live) // 9 + 1)[:4], np.int32) for _ in range(3))
        others = random_subscriptions(rng, space, len(changed))
        places = random_subscriptions(rng, space, len(moved)).regions
        for index in both:
            index.replace(changed, others)
            index.move(moved, places)
            index.remove(gone)
        check()
        if turn % 3 == 2:
            weights = OTHER_WEIGHTS if weights is WEIGHTS else WEIGHTS
            for index in both:
                index.set_weights(weights)
            check()
        if turn % 3 == 1:
            assert np.array_equal(both[1].renumber(), both[0].renumber())
            both[0].save(tmp_path / f"{turn}")
            both[0] = open_index(tmp_path / f"{turn}")
            check()
        assert len(both[1]) == len(both[0]) == both[0].stats()["subscriptions"]


@pytest.mark.parametrize("name", NAMES)
def test_is_built_again_when_a_quarter_has_changed(name):
    """A few changes leave the structure as it is; once they are more than a quarter it is another one."""
    rng = random.Random(3)
    index = new_index(name, PLANE, random_subscriptions(rng, PLANE, 40))
    messages = messages_of(random_said(rng, PLANE, 3), WEIGHTS)
    index.match(messages)
    built = index._built
    index.insert(random_subscriptions(rng, PLANE, 6))
    index.remove(np.array([1, 2, 41], np.int32))
    index.match(messages)
    assert index._built is built
    index.remove(np.array([3, 4], np.int32))
    index.match(messages)
    assert index._built is not built


@pytest.mark.parametrize("name", NAMES)
def test_words_that_came_after_the_structure(name):
    """A message may have words that only later subscriptions use, or none at all."""
    early = subscriptions_of([({0, 2}, (0.0, 0.0))] * 8, _alike(8), PLANE)
    late = subscriptions_of([({12}, (0.0, 0.0))], _alike(1), PLANE)
    index = create(name, PLANE)
    index.insert(early)
    messages = messages_of([(["w12", "w13"], (0.0, 0.0, 0.0, 0.0)), ([], (0.0, 0.0, 0.0, 0.0))], WEIGHTS)
    assert [] == index.match(messages).slots.tolist()
    index.insert(late)
    assert [0, 1, 1] == index.match(messages).start.tolist()


def _alike(n, text_weight=0.5, threshold=0.9, max_distance=1.0, function=TSIM):
    return ScoreParameters(
        np.full(n, text_weight), np.full(n, threshold), np.full(n, max_distance), np.full(n, function, np.uint8)
    )


@pytest.mark.parametrize("name", NAMES)
def test_nothing_held_and_nothing_asked(name):
    """An empty index finds nothing, no messages give no matches, and removing all leaves an empty index."""
    index = create(name, PLANE)
    messages = messages_of([(["w01"], (0.0, 0.0, 0.0, 0.0))], WEIGHTS)
    assert [0, 0] == index.match(messages).start.tolist()
    slots = index.insert(subscriptions_of([({1}, (0.0, 0.0))], _alike(1), PLANE))
    assert [0, 1] == index.match(messages).start.tolist()
    assert [0] == index.match(messages.take(np.arange(0))).start.tolist()
    index.remove(slots)
    assert [0, 0] == index.match(messages).start.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_refuses_what_it_cannot_do(name):
    """Boolean subscriptions, messages without totals where they are needed, trees without branches."""
    index = create(name, PLANE)
    boolean = dataclasses.replace(random_subscriptions(random.Random(1), PLANE, 1), kind=np.zeros(1, np.uint8))
    with pytest.raises(NotSupported, match="similar"):
        index.insert(boolean)
    index.insert(subscriptions_of([({1}, (0.0, 0.0))], _alike(1, function=DICE), PLANE))
    messages = messages_of([(["w01"], (0.0, 0.0, 0.0, 0.0))], WEIGHTS)
    with pytest.raises(InvalidColumns, match="totals"):
        index.match(dataclasses.replace(messages, totals=None))
    if name != "inverted":
        with pytest.raises(UnknownIndex, match="at least 2"):
            create(f"{name}:fan_out=1", PLANE)


@pytest.mark.parametrize("name", NAMES)
def test_size_counts_every_array(name):
    """`bytes` is the table and all of the structure, whether a message has come or not."""
    subscriptions, messages = world(1, PLANE)
    index, scan = new_index(name, PLANE, subscriptions), new_index("scan", PLANE, subscriptions)
    size = index.stats()["bytes"]
    index.match(messages)
    assert size == index.stats()["bytes"] >= scan.stats()["bytes"] + bytes_of(index._built)


#: Figure 1 of the STAMP paper: words, δ, τ, and how near each subscription is to both messages.
FIGURE_1 = [
    ({4, 2}, 0.7, 0.8, 0.6),
    ({4, 3, 2}, 0.5, 0.8, 0.7),
    ({4, 3, 1}, 0.5, 0.7, 0.6),
    ({5, 4, 1}, 0.6, 0.75, 0.6),
    ({5, 2, 1}, 0.5, 0.6, 0.55),
    ({3, 2, 1}, 0.5, 0.6, 0.55),
    ({3, 2, 1}, 0.2, 0.7, 0.4),
    ({5, 4, 1}, 0.6, 0.7, 0.3),
    ({5, 4, 2}, 0.7, 0.7, 0.4),
    ({4, 2, 1}, 0.5, 0.8, 0.3),
    ({5, 3}, 0.5, 0.8, 0.4),
]


@pytest.mark.parametrize("spec", SPECS)
def test_the_running_example_of_the_paper(spec):
    """m1 goes to s0, m2 to s2 and s5."""
    weights = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    columns = np.array([row[1:] for row in FIGURE_1])
    scoring = ScoreParameters(columns[:, 0].copy(), columns[:, 1].copy(), np.ones(11), np.zeros(11, np.uint8))
    rows = subscriptions_of([(words, (1.0 - near, 0.0)) for words, _, _, near in FIGURE_1], scoring, PLANE)
    here = (0.0, 0.0, 0.0, 0.0)
    said = [([WORDS[4], WORDS[2]], here), ([WORDS[4], WORDS[3], WORDS[1]], here)]
    index = new_index(spec, PLANE, rows, weights)
    found = index.match(messages_of(said, np.append(weights, np.ones(len(WORDS)))))
    assert ([0], [2, 5]) == (found.slots_of(0).tolist(), found.slots_of(1).tolist())


# What the indexes rest on


@SPACES
@pytest.mark.parametrize("fan_out", [2, 3, 50])
def test_forest_is_numbered_from_the_roots_down(space, fan_out):
    """Every point is in one leaf of the tree of its group, inside all boxes above; children ascend with parents."""
    rng = np.random.default_rng(1)
    point, group = rng.integers(-9, 9, (70, 2)).astype(float), rng.integers(0, 4, 70)
    forest, order = build_forest(point, group, fan_out)
    assert list(range(70)) == sorted(order.tolist())
    tree_of = np.searchsorted(forest.root, np.arange(len(forest.box)), side="right")
    for leaf in np.flatnonzero(forest.is_leaf):
        held = order[forest.first[leaf] : forest.last[leaf]]
        assert 1 == len(set(group[held]))
        node = leaf
        while node >= 0:
            assert (point[held] >= forest.box[node, :2]).all()
            assert (point[held] <= forest.box[node, 2:]).all()
            assert tree_of[node] == tree_of[leaf]
            node = forest.parent[node]
    for is_leaf in (0, 1):
        nodes = np.flatnonzero(forest.is_leaf == is_leaf)
        assert (forest.first[nodes][1:] >= forest.last[nodes][:-1]).all()
        for node in nodes if not is_leaf else ():
            assert (forest.parent[forest.first[node] : forest.last[node]] == node).all()


def test_skip_to_finds_the_first_that_is_not_below():
    """In any stretch of a list, for any value, as a binary search of the stretch would."""
    rng = np.random.default_rng(2)
    for _ in range(N_DRAWN):
        values = np.sort(rng.integers(0, 40, rng.integers(0, 30))).astype(np.int32)
        at = int(rng.integers(0, len(values) + 1))
        end, least = int(rng.integers(at, len(values) + 1)), int(rng.integers(-1, 42))
        assert at + np.searchsorted(values[at:end], least) == skip_to(values, at, end, least)


def below(forest, node):
    """Return the positions below a node."""
    if forest.is_leaf[node]:
        return list(range(forest.first[node], forest.last[node]))
    return [each for child in range(forest.first[node], forest.last[node]) for each in below(forest, child)]


def every_score(space, subscriptions, messages):
    """Return the score of every message and subscription, by `scan`; 0 where it is next to nothing."""
    scoring = _with_threshold(subscriptions.scoring, 1e-300)
    found = new_index("scan", space, dataclasses.replace(subscriptions, scoring=scoring)).match(messages)
    scores = np.zeros((len(messages), len(subscriptions)))
    scores[found.rows(), found.slots] = found.score
    return scores


@pytest.mark.parametrize("name", ["ir-tree-1", "ir-tree-100"])
@SPACES
def test_bound_of_a_node_is_never_below_a_score(name, space):
    """For every node, message and subscription below: words present, box and extremes bound the score."""
    subscriptions, messages = world(11, space, 3 * N_DRAWN // 2, 12)
    scores = every_score(space, subscriptions, messages)
    tree = new_index(f"{name}:fan_out=3", space, subscriptions)._up_to_date().tree
    tight = 0
    for node in range(len(tree.forest.box)):
        rows = tree.row[below(tree.forest, node)]
        box = tree.forest.box[node]
        words = np.unique(np.concatenate([_words_that_count(subscriptions, row) for row in rows]))
        if tree.forest.parent[node] >= 0:
            assert words.tolist() == _words_held(tree.term_nodes, node)
        for message in range(len(messages)):
            common = np.intersect1d(words, messages.terms_of(message))
            text = node_text(tree.bounds, node, WEIGHTS[common].sum(), float(len(common)))
            near = node_near(tree.bounds, node, _gap(space, messages.box[message], box))
            bound = node_score(tree.bounds, node, text, near)
            assert bound >= scores[message, rows].max() - MARGIN / 2
            tight += bound < tree.bounds.threshold[node] - MARGIN
    assert tight > 0


def _words(subscriptions, row):
    return subscriptions.code[subscriptions.code_start[row] : subscriptions.code_start[row + 1]]


def _words_that_count(subscriptions, row):
    words = _words(subscriptions, row)
    return words if subscriptions.scoring.similarity[row] in (OVERLAP, DICE, COSINE) else words[WEIGHTS[words] > 0]


def _words_held(term_nodes, node):
    return [t for t in range(len(WEIGHTS)) if node in term_nodes.node[term_nodes.start[t] : term_nodes.start[t + 1]]]


def _gap(space, place, box):
    west, south, east, north = place
    if space.is_earth and west > east:
        return min(
            _gap(space, (west, south, 180.0, north), box),
            _gap(space, (-180.0, south, east, north), box),
        )
    return box_gap(space.is_earth, west, south, east, north, *box)


@SPACES
def test_words_of_rt_are_spread_over_the_levels(space):
    """A subscription is once in a list for each word, the i-th heaviest on level i, the leaf taking the rest."""
    subscriptions, _ = world(13, space, 2 * N_DRAWN, 1)
    tree = new_index("rt++-similar:fan_out=3", space, subscriptions)._up_to_date().tree
    placed = {}
    for term, node, position, near in _entries(tree):
        placed.setdefault(position, []).append((term, node))
        while node >= 0:
            assert tree.near[node] <= near + 1e-6
            node = tree.forest.parent[node]
    for position, row in enumerate(tree.row):
        leaf = next(i for i in np.flatnonzero(tree.forest.is_leaf) if tree.forest.last[i] > position)
        path = []
        while tree.forest.parent[leaf] >= 0:
            path.insert(0, leaf)
            leaf = tree.forest.parent[leaf]
        words = sorted(_words(subscriptions, row), key=lambda term: (-WEIGHTS[term], term))
        scoring = subscriptions.scoring
        if near_needed(scoring.text_weight[row], scoring.threshold[row], 0.0) <= 1.0:
            words.append(len(WEIGHTS))
        expected = [(term, path[min(i, len(path) - 1)]) for i, term in enumerate(words)]
        assert sorted(expected) == sorted(placed.get(position, []))


def _entries(tree):
    lists = tree.lists
    for term in range(len(lists.start) - 1):
        for run in range(lists.start[term], lists.start[term + 1]):
            for i in range(lists.first[run], lists.first[run + 1]):
                yield term, int(lists.node[run]), int(lists.position[i]), float(lists.near[i])


@SPACES
def test_first_word_in_common_tells_how_near_a_match_must_be(space):
    """Whoever matches is as near as the entry of its heaviest common word asks, or that of the dummy if it has none."""
    subscriptions, messages = world(17, space)
    index = new_index("rt++-similar:fan_out=3", space, subscriptions)
    tree, found = index._up_to_date().tree, index.match(messages)
    needed = {(term, int(tree.row[position])): near for term, _, position, near in _entries(tree)}
    assert len(found.slots) > N_DRAWN
    for message, row in zip(found.rows(), found.slots, strict=True):
        words = sorted(_words(subscriptions, row), key=lambda term: (-WEIGHTS[term], term))
        common = [term for term in words if term in messages.terms_of(message)]
        x, y = subscriptions.regions.part[row, :2]
        distance = space.distance_to_box(x, y, messages.box[message])
        near = max(0.0, 1.0 - distance / subscriptions.scoring.max_distance[row])
        assert near >= needed[(common or [len(WEIGHTS)])[0], int(row)]


@pytest.mark.parametrize("name", ["ir-tree-1", "ir-tree-100", "rt++-similar"])
def test_far_messages_are_cheap_where_place_decides(name):
    """Subscriptions that need nearness are not looked at one by one for a message far away."""
    rng = random.Random(19)
    wanted = [({1, 2}, (rng.uniform(0, 50), rng.uniform(0, 50))) for _ in range(200)]
    index = new_index(f"{name}:fan_out=8", PLANE, subscriptions_of(wanted, _alike(200, threshold=0.75), PLANE))
    said = [(["w01", "w02"], (90.0, 90.0, 90.0, 90.0)), (["w01", "w02"], (25.0, 25.0, 25.0, 25.0))]
    far, near = (index.match(messages_of([each], WEIGHTS)) for each in said)
    assert far.candidates < 10
    assert 0 == far.verified
    assert near.candidates < 150
