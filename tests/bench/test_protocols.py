"""Protocols of safe regions: what clients are told is what is relevant where they are, and how much that takes."""

from dataclasses import replace

import numpy as np
import pytest

from nearcast import Circle
from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.moving.protocols import PROTOCOLS, server_of
from nearcast.bench.moving.protocols.audit import TellingAudit, digest, relevant_pairs
from nearcast.bench.moving.protocols.index_servers import IndexServer
from nearcast.bench.moving.protocols.server import ToldChanges
from nearcast.bench.moving.protocols.simulation import SentCounts, simulate
from nearcast.errors import InvalidInput, NotSupported, UnknownIndex
from nearcast.testing.values import subscriptions_of
from support.protocol_scenes import EARTH, random_scene, scene_of

#: Those that work on the earth as well.
ON_EARTH = ("always", "ap+-tree-safe")
WITH_REGIONS = tuple(name for name in PROTOCOLS if name != "always")

pytestmark = [pytest.mark.modes, pytest.mark.papers]  # kernels of a protocol that is there for comparison


def run_all(protocol, scene, index="trigger"):
    """Return the timestamps of a protocol, each compared with brute force for all clients."""
    return list(_audited(server_of(protocol, scene, index)))


def _audited(server):
    audit = TellingAudit(server.scene, np.arange(server.scene.n_clients))
    for moment in simulate(server):
        audit.check(server.name, moment)
        yield moment


def sent(moments):
    """Return what was sent after registration."""
    return sum((moment.traffic for moment in moments[1:]), SentCounts())


def told(moment):
    """Return the (client, message, sign) of a timestamp."""
    return sorted(zip(*(column.tolist() for column in moment.told), strict=True))


# --- told is relevant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "options"),
    [(1, {}), (2, {"radius": 25.0, "speed": 8.0}), (3, {"radius": 0.0}), (4, {"radius": 3.0, "speed": 0.3})],
    ids=["usual", "wide and fast", "zero radius", "calm"],
)
def test_clients_are_told_what_is_relevant_at_every_timestamp(seed, options):
    """Whatever the protocol, all results together are the relevant messages, and each timestamp tells the same."""
    scene = random_scene(seed, **options)
    digests = {name: [digest(moment.told) for moment in run_all(name, scene)] for name in PROTOCOLS}

    assert [digests["always"]] * len(PROTOCOLS) == list(digests.values())


@pytest.mark.parametrize("protocol", ON_EARTH)
def test_clients_are_told_over_the_dateline(protocol):
    """Circles of metres around places on both sides of 180 degrees."""
    scene = random_scene(5, space=EARTH, radius=150_000.0, speed=1.0)

    assert sum(len(moment.told.client) for moment in run_all(protocol, scene)[1:]) > 0


@pytest.mark.parametrize("protocol", ON_EARTH)
def test_a_pole_is_a_place(protocol):
    """A client crosses the pole, where longitudes mean nothing."""
    walk = [(10, 89.9), (10, 89.99), (-170, 89.99), (-170, 89.9)]
    said = [[((100, 90), "tea", 9), ((-170, 89.85), "tea", 9)], [], [((0, 89.99), "tea", 9)], []]
    moments = run_all(protocol, scene_of([walk], said, radius=6_000.0, space=EARTH))

    assert [[], [(0, 0, 1)], [(0, 2, 1)], [(0, 0, 0), (0, 1, 1), (0, 2, 0)]] == [told(each) for each in moments]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_circle_without_a_radius_holds_its_centre(protocol):
    """A client on the very place of a message has it, and loses it by the smallest step."""
    walk = [(5, 5), (50, 50), (np.nextafter(50, 51), 50), (50, 50)]
    said = [[((50, 50), "tea", 9), ((0, 0), "tea", 9), ((100, 100), "tea", 9)], [], [], []]
    moments = run_all(protocol, scene_of([walk], said, radius=0.0))

    assert [[], [(0, 0, 1)], [(0, 0, 0)], [(0, 0, 1)]] == [told(each) for each in moments]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_border_is_inside(protocol):
    """A message at exactly the radius counts; one a bit farther does not."""
    walk = [(0, 0), (30, 40), (30 - 1e-12, 40), (30 + 1e-12, 40)]
    said = [[((60, 80), "tea", 9), ((200, 200), "tea", 9)], [], [], []]
    moments = run_all(protocol, scene_of([walk], said, radius=50.0))

    assert [[], [(0, 0, 1)], [(0, 0, 0)], [(0, 0, 1)]] == [told(each) for each in moments]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_message_at_the_centre_goes_out_at_the_radius(protocol):
    """Nearest minus radius would be negative here, and would forget that the message goes out."""
    walk = [(50, 50), (57, 50), (61, 50), (50, 50)]
    said = [[((50, 50), "tea", 9), ((0, 0), "milk", 9), ((100, 100), "milk", 9)], [], [], []]
    moments = run_all(protocol, scene_of([walk], said, radius=10.0))

    assert [[(0, 0, 1)], [], [(0, 0, 0)], [(0, 0, 1)]] == [told(each) for each in moments]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_expiry_within_a_safe_region_is_silent(protocol):
    """A message ends while its client keeps quiet; what came and went out later says nothing of it."""
    walk = [(50, 50), (51, 50), (51, 51), (90, 90)]
    said = [[((52, 50), "tea", 2), ((0, 0), "tea", 9), ((100, 100), "milk", 9)], [], [((54, 50), "tea", 1)], []]
    moments = run_all(protocol, scene_of([walk], said, radius=20.0))

    assert [[(0, 0, 1)], [], [(0, 3, 1)], []] == [told(each) for each in moments]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_standing_still_and_jumping_are_movement(protocol):
    """One client never moves, one goes from end to end each time."""
    walks = [[(50, 50)] * 4, [(0, 0), (100, 100), (0, 0), (100, 100)]]
    said = [[((52, 50), "tea", 9), ((1, 1), "tea", 9)], [((50, 49), "tea", 9)], [((99, 99), "tea", 1)], []]
    moments = run_all(protocol, scene_of(walks, said))

    expected = [[(0, 0, 1), (1, 1, 1)], [(0, 2, 1), (1, 1, 0)], [(1, 1, 1)], [(1, 1, 0)]]
    assert expected == [told(each) for each in moments]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.small
def test_no_messages_at_all_and_none_at_a_timestamp(protocol):
    """Timestamps may pass without anything."""
    moments = run_all(protocol, scene_of([[(0, 0), (5, 5), (9, 0)]], [[], [], []]))

    assert [[], [], []] == [told(each) for each in moments]


@pytest.mark.parametrize("protocol", ON_EARTH)
def test_queries_may_be_any(protocol):
    """OR, NOT and phrases, over messages with words that nobody wants; Elaps alone wants plain words."""
    scene = random_scene(8, n=4)
    queries = ["w0 OR w1", "w0 AND NOT w1", '"w1 w2"', "NOT w0"]
    wanted = [(query, Circle(0, 0, 1)) for query in queries]
    scene = replace(scene, clients=subscriptions_of(wanted, scene.space, scene.words))

    assert sent(run_all(protocol, scene)).results > 0


def test_other_indexes_serve_as_well():
    """Neither the index of the impact regions nor the store of live messages changes what is told."""
    scene = random_scene(6)

    for name in PROTOCOLS:
        one, other = (run_all(name, scene, index) for index in ("ap-tree:live=scan", "scan"))
        assert [told(moment) for moment in one] == [told(moment) for moment in other]


# --- safe regions -------------------------------------------------------------------------------------------------


def _answers(scene, t, x, y):
    """Return what is relevant at a timestamp to clients at other places."""
    there = replace(scene, x=np.tile(x, (len(scene.times), 1)), y=np.tile(y, (len(scene.times), 1)))
    return relevant_pairs(there, np.arange(scene.n_clients), t).tolist()


@pytest.mark.parametrize("protocol", WITH_REGIONS)
@pytest.mark.parametrize("seed", [11, 12])
def test_no_place_in_a_safe_region_has_another_answer(protocol, seed):
    """Places all over the regions that clients hold, at every timestamp, give what was told."""
    scene, rng = random_scene(seed, initial=25, radius=[8.0, 20.0][seed % 2]), np.random.default_rng(seed)
    server, n_tried = server_of(protocol, scene), 0
    for moment in simulate(server):
        expected = _answers(scene, moment.number, server.known_x, server.known_y)
        for reach in (0.5, 2.0, 6.0, 15.0, 40.0):
            angle, far = rng.uniform(0, 2 * np.pi, scene.n_clients), reach * rng.uniform(0.5, 1, scene.n_clients)
            x, y = server.known_x + far * np.cos(angle), server.known_y + far * np.sin(angle)
            out = server.outside(x, y)
            x[out], y[out] = server.known_x[out], server.known_y[out]
            n_tried += scene.n_clients - len(out)
            assert expected == _answers(scene, moment.number, x, y)

    assert n_tried > 20


@pytest.mark.parametrize("protocol", WITH_REGIONS)
def test_a_message_in_the_impact_region_revokes_the_safe_one(protocol):
    """The client is asked and told; one that no impact region holds says nothing, however near to others it is."""
    walks = [[(50, 50)] * 3, [(50, 50)] * 3]
    far = ((0, 0), "tea milk", 9), ((100, 100), "tea milk", 9), ((50, 85), "tea", 9)
    said = [[*far], [((53, 50), "tea", 9)], [((50, 53), "coffee", 9)]]
    scene = scene_of(walks, said, wants=[["tea"], ["milk"]])
    moments = run_all(protocol, scene)

    assert [(0, 3, 1)] == told(moments[1])
    assert (1, 1, 1) == (moments[1].traffic.reports, moments[1].traffic.revocations, moments[1].traffic.results)
    assert SentCounts() == moments[2].traffic


@pytest.mark.parametrize("protocol", WITH_REGIONS)
def test_a_revocation_need_not_tell_anything(protocol):
    """A message beside the circle, where the client might have gone unseen, is asked about and not told."""
    said = [[((0, 0), "tea", 9), ((100, 100), "tea", 9)], [((62, 50), "tea", 9)]]
    moments = run_all(protocol, scene_of([[(50, 50), (50, 50)]], said))

    assert [] == told(moments[1])
    assert SentCounts(reports=1, revocations=1, regions=1, results=0) == moments[1].traffic


@pytest.mark.parametrize("protocol", WITH_REGIONS)
def test_who_reports_is_not_asked_in_the_same_timestamp(protocol):
    """A client that left its region and was hit sends one report and gets one region."""
    said = [[((0, 0), "tea", 9), ((100, 100), "tea", 9)], [((91, 50), "tea", 9)]]
    moments = run_all(protocol, scene_of([[(10, 50), (90, 50)]], said))

    assert [(0, 2, 1)] == told(moments[1])
    assert (1, 0) == (moments[1].traffic.reports, moments[1].traffic.revocations)
    assert moments[1].traffic.regions <= 1


@pytest.mark.parametrize("protocol", WITH_REGIONS)
def test_a_calm_town_takes_fewer_reports(protocol):
    """Where little happens, safe regions say less than a report at every timestamp."""
    scene = random_scene(7, initial=15, arrivals=1, speed=0.5, steps=10)
    always, safe = (sent(run_all(name, scene)) for name in ("always", protocol))

    assert always.reports == scene.n_clients * 9
    assert always.results == safe.results
    assert safe.reports < always.reports / 2
    assert safe.total < always.total


# --- what cannot be -----------------------------------------------------------------------------------------------


@pytest.mark.small
def test_elaps_says_what_it_is_not_made_for():
    """It wants a plane, points, and words that are all required."""
    plain = scene_of([[(0, 0)]], [[((1, 1), "tea", 9)]])
    wide = replace(plain.messages, box=np.array([[0.0, 0.0, 1.0, 1.0]]))
    code = replace(plain.clients, code=np.array([-1], np.int32))

    with pytest.raises(NotSupported, match="project the places"):
        server_of("elaps", scene_of([[(0, 0)]], [[]], space=EARTH))
    with pytest.raises(NotSupported, match="points"):
        server_of("elaps", replace(plain, messages=wide))
    with pytest.raises(NotSupported, match="all of some words"):
        server_of("elaps", replace(plain, clients=code))


@pytest.mark.small
def test_bad_names_and_bad_shapes_are_refused():
    """An error says what was given and what was expected."""
    scene = scene_of([[(0, 0), (1, 1)]], [[], []])

    with pytest.raises(UnknownIndex, match="no protocol 'never'; choose one of always"):
        server_of("never", scene)
    with pytest.raises(InvalidInput, match=r"places are \(2, 1\) and \(1, 1\); expected \(2, 1\)"):
        replace(scene, y=scene.y[:1])
    with pytest.raises(InvalidInput, match="radii"):
        replace(scene, radius=np.zeros(2))
    with pytest.raises(InvalidInput, match="batch_start has 1"):
        replace(scene, batch_start=np.zeros(1, np.int64))


class ForgetfulServer(IndexServer):
    """Tells nothing of what a move changes."""

    def move(self, rows, x, y, now):
        super().move(rows, x, y, now)
        return ToldChanges.none()


class RepeatingServer(IndexServer):
    """Tells everything twice."""

    def move(self, rows, x, y, now):
        changes = super().move(rows, x, y, now)
        return ToldChanges.concat([changes, changes])


@pytest.mark.parametrize(("server", "reason"), [(ForgetfulServer, "misses 1 relevant"), (RepeatingServer, "twice")])
@pytest.mark.small
def test_the_audit_finds_what_is_not_told_and_what_is_told_twice(server, reason):
    """Brute force is no formality."""
    scene = scene_of([[(0, 0), (50, 50)]], [[((50, 50), "tea", 9)], []])

    with pytest.raises(AnswersDiffer, match=reason):
        list(_audited(server(scene)))


@pytest.mark.small
def test_a_digest_knows_results_in_any_order():
    """The same results in another order have the same hash, others have another."""
    some = ToldChanges(np.array([1, 2, 2]), np.array([5, 5, 6]), np.array([1, 0, 1]))
    shuffled = ToldChanges(*(column[[2, 0, 1]] for column in some))

    assert digest(some) == digest(shuffled)
    for at, column in enumerate(some):
        assert digest(some) != digest(some._replace(**{some._fields[at]: column ^ 1}))
    assert digest(some) != digest(ToldChanges.concat([some, some]))
    assert 0 == digest(ToldChanges.none())
