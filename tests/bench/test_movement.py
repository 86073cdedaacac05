"""`nearcast generate --moving`: road networks, trips over them, recorded trajectories, and workloads around them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import Hub
from nearcast.bench.data.movement.fastest_paths import CLASS_KM_PER_H, Junctions, road_classes
from nearcast.bench.data.movement.replay import replayed
from nearcast.bench.data.movement.roads import RoadNet, names_of_roads, read_roads
from nearcast.bench.data.movement.town import grid_town
from nearcast.bench.data.movement.trips import OBJECT_CLASSES, TripPlan, trips_over
from nearcast.bench.data.moving import MovingRecipe, moving_workload
from nearcast.bench.data.sources import read_source
from nearcast.errors import InvalidColumns, InvalidInput
from nearcast.geo import Space

BEGIN = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def town():
    return grid_town("plane", seed=1, streets=8)


@pytest.fixture(scope="module")
def plan(town):
    return TripPlan(town, seed=1)


def write_roads(folder, *, extra_edge=()):
    """Two networks in the form of the shared data: a square with a node apart, and a street on the earth."""
    nodes = [("square", 7, 0.0, 0.0), ("square", 8, 10.0, 0.0), ("square", 9, 10.0, 10.0), ("square", 3, 0.0, 10.0)]
    nodes += [("square", 5, 99.0, 99.0)]
    edges = [
        ("square", 7, 8, 10.0),
        ("square", 8, 9, 10.0),
        ("square", 9, 3, 10.0),
        ("square", 3, 7, 10.0),
        *extra_edge,
    ]
    columns = zip(("net", "node", "x", "y"), zip(*nodes, strict=True), strict=True)
    pq.write_table(pa.table(dict(columns)), folder / "road_test_nodes.parquet")
    columns = zip(("net", "a", "b", "length"), zip(*edges, strict=True), strict=True)
    pq.write_table(pa.table(dict(columns)), folder / "road_test_edges.parquet")
    earth = {"net": ["street"] * 2, "node": [0, 1], "lon": [8.0, 8.01], "lat": [53.0, 53.0]}
    pq.write_table(pa.table(earth), folder / "road_earth_nodes.parquet")
    edge = {"net": ["street"], "a": [0], "b": [1], "length_m": pa.array([669.0], pa.float32())}
    pq.write_table(pa.table(edge), folder / "road_earth_edges.parquet")
    return [folder]


# --- roads --------------------------------------------------------------------------------------------------------


def test_roads_are_read_from_the_files_that_have_them(tmp_path):
    """Nodes get the numbers of their rows, a node that no road reaches is left out, and columns tell the space."""
    folders = write_roads(tmp_path, extra_edge=[("square", 9, 9, 1.0), ("square", 9, 3, float("nan"))])
    assert ["street", "square"] == list(names_of_roads(folders))
    square = read_roads("square", folders)
    assert Space.plane() == square.space
    assert (0.0, 0.0, 10.0, 10.0) == square.bounds
    assert [(0, 1), (1, 2), (2, 3), (3, 0)] == list(zip(square.a.tolist(), square.b.tolist(), strict=True))
    street = read_roads("street", folders)
    assert (Space.earth(), [669.0]) == (street.space, street.length.tolist())


def test_unknown_roads_are_answered_with_all_names(tmp_path):
    """Who mistypes a name sees what there is."""
    with pytest.raises(InvalidInput, match="no roads 'circle'; there are: street, square"):
        read_roads("circle", write_roads(tmp_path))
    with pytest.raises(InvalidInput, match="there are: none in"):
        read_roads("circle", [tmp_path / "elsewhere"])


def test_roads_without_a_column_are_refused_by_its_name(tmp_path):
    """A file in another form is no network."""
    folders = write_roads(tmp_path)
    path = tmp_path / "road_test_edges.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["length"]), path)
    with pytest.raises(InvalidColumns, match="length is lacking"):
        read_roads("square", folders)


@pytest.mark.parametrize("space", ["plane", "earth"])
def test_a_town_is_connected_and_its_lengths_are_distances(space):
    """A street is as long as its ends are apart."""
    town = grid_town(space, seed=3, streets=12)
    assert 1 == len({*reached(town)} ^ {*range(len(town.nodes))} ^ {-1})
    (x1, y1), (x2, y2) = town.nodes[town.a].T, town.nodes[town.b].T
    apart = [town.space.distance(*each) for each in zip(x1, y1, x2, y2, strict=True)]
    assert np.allclose(apart, town.length, rtol=0.01)


def reached(roads):
    """Return the nodes that paths to node 0 begin at."""
    return Junctions(roads).tree_to(0, roads.length.tolist()).order.tolist()


def test_paths_are_the_shortest(town):
    """A tree's paths cost what Bellman and Ford find."""
    best = np.full(len(town.nodes), np.inf)
    best[5] = 0.0
    for _ in range(len(best)):
        np.minimum.at(best, town.a, best[town.b] + town.length)
        np.minimum.at(best, town.b, best[town.a] + town.length)
    edge = Junctions(town).tree_to(5, town.length.tolist()).edge
    for node in range(len(best)):
        at, cost = node, 0.0
        while at != 5:
            cost, at = cost + town.length[edge[at]], town.a[edge[at]] + town.b[edge[at]] - at
        assert best[node] == pytest.approx(cost)


def test_main_roads_are_few_and_those_that_most_paths_use():
    """Two towns that one bridge joins: the bridge is a main road."""
    one = grid_town("plane", seed=1, streets=6)
    n = len(one.nodes)
    both = np.concatenate([one.nodes, one.nodes + np.array([20_000, 0])])
    a, b = (np.concatenate([ends, ends + n, [last]]).astype(np.int32) for ends, last in ((one.a, 0), (one.b, n)))
    roads = RoadNet("two", Space.plane(), both, a, b, np.concatenate([one.length, one.length, [20_000.0]]))
    classes = road_classes(roads, Junctions(roads), np.random.default_rng(0))
    assert 0 == classes[-1]
    assert np.count_nonzero(classes == 0) <= 0.05 * len(a) + 1
    assert {0, 1, 2} == set(classes.tolist())


# --- trips --------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_movement(town):
    """Movement can be made again, and differs from that of another seed."""
    first, again, other = (trips_over(town, 50, timestamps=4, seed=seed) for seed in (2, 2, 3))
    for one, two in zip(first.reports, again.reports, strict=True):
        assert np.array_equal(one, two)
    assert not np.array_equal(first.reports.places, other.reports.places)


def test_everybody_is_on_a_road(plan):
    """A reported place lies on a street, and in the bounds."""
    moved = trips_over(plan, 40, timestamps=6, mobility=0.5)
    roads = plan.roads
    begin, along = roads.nodes[roads.a], roads.nodes[roads.b] - roads.nodes[roads.a]
    for place in moved.reports.places:
        share = np.clip(((place - begin) * along).sum(axis=1) / (along**2).sum(axis=1), 0, 1)
        assert np.hypot(*(begin + along * share[:, None] - place).T).min() < 1e-6


def test_a_share_reports_at_each_timestamp_and_the_others_stand_still(plan):
    """Who reports is drawn anew; nobody twice in a timestamp, all at its end."""
    moved = trips_over(plan, 40, timestamps=30, mobility=0.25, interval_s=60)
    assert [10] * 30 == np.diff(moved.start).tolist()
    places, reported = moved.dense()
    assert (reported.sum(axis=1) == 10).all()
    assert reported.any(axis=0).all()
    before = np.concatenate([moved.first[None], places[:-1]])
    assert np.array_equal((before != places).any(axis=2), reported)
    assert {60_000_000} == set(np.diff(moved.times, prepend=moved.begin).tolist())
    assert np.array_equal(moved.reports.times, np.repeat(moved.times, 10))


def test_nobody_is_faster_than_the_fastest_class_on_a_main_road(plan):
    """Speeds are bounded, and `speed` multiplies them."""
    metres_per_unit = 10_000 / plan.roads.bounds[2]
    far = {}
    for speed in (1.0, 4.0):
        moved = trips_over(plan, 200, timestamps=1, mobility=1.0, speed=speed, interval_s=10)
        metres = np.hypot(*(moved.reports.places - moved.first).T) * metres_per_unit
        assert metres.max() <= speed * max(OBJECT_CLASSES) * max(CLASS_KM_PER_H) / 3.6 * 10 * 1.001
        far[speed] = np.median(metres)
    assert 2 * far[1.0] < far[4.0]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"timestamps": 0}, "timestamps is 0; expected 1 or more"),
        ({"mobility": 0.0}, "mobility is 0.0; expected a share above 0 and up to 1"),
        ({"mobility": 1.5}, "mobility is 1.5"),
        ({"speed": float("inf")}, "speed is inf; expected a number above 0"),
        ({"interval_s": 0.0}, "interval is 0.0; expected a number above 0"),
    ],
)
def test_wrong_movement_is_refused(plan, wrong, reason):
    """What cannot be is said at once."""
    with pytest.raises(InvalidInput, match=reason):
        trips_over(plan, 5, **{"timestamps": 1} | wrong)


# --- replay -------------------------------------------------------------------------------------------------------


def write_trajectories(path):
    """Three taxis, one of which reports twice in the second half minute."""
    rows = [(4, 0, 1.0), (9, 10, 2.0), (4, 30, 1.1), (9, 40, 2.1), (9, 50, 2.2), (5, 70, 3.0), (4, 200, 1.9)]
    taxi, seconds, lon = zip(*rows, strict=True)
    table = {
        "obj": pa.array(taxi, pa.int32()),
        "ts": pa.array([BEGIN + timedelta(seconds=each) for each in seconds], pa.timestamp("ms", "UTC")),
        "lon_e5": pa.array([round(each * 1e5) for each in lon], pa.int32()),
        "lat_e5": pa.array([5_000_000] * len(rows), pa.int32()),
    }
    pq.write_table(pa.table(table).take([3, 0, 2, 1, 4, 6, 5]), path)
    return path


def test_a_replay_is_what_the_file_says_in_order_of_time(tmp_path):
    """Reports keep their times; those of a timestamp end with it; objects begin at their first place."""
    moved = replayed(write_trajectories(tmp_path / "cabs.parquet"), 3, timestamps=3)
    assert ("cabs", Space.earth()) == (moved.name, moved.space)
    assert [[1.0, 50.0], [3.0, 50.0], [2.0, 50.0]] == moved.first.tolist()
    assert [0, 2, 4, 5] == moved.start.tolist()
    assert [2, 0, 2, 2, 1] == moved.reports.objects.tolist()
    assert [10, 30, 40, 50, 70] == ((moved.reports.times - moved.begin) // 1_000_000).tolist()
    assert [2.1, 2.2] == [round(lon, 5) for lon, _ in moved.at(1).places.tolist()]
    assert [2.2, 50.0] == moved.dense()[0][1, 2].tolist()


def test_more_objects_than_a_file_has_go_the_same_ways(tmp_path):
    """Number i follows recorded number i mod 3; fewer are the first."""
    path = write_trajectories(tmp_path / "cabs.parquet")
    many, few = replayed(path, 5, timestamps=3), replayed(path, 1, timestamps=3)
    assert many.first[:2].tolist() == many.first[3:].tolist()
    assert [2, 0, 3, 2, 2, 1, 4] == many.reports.objects.tolist()
    assert [0] == few.reports.objects.tolist()


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"obj": [1], "lon": [1.0], "lat": [1.0]}, r"a replay needs obj, ts \(or time\)"),
        ({"obj": [1], "ts": [1.5], "lon": [1.0], "lat": [1.0]}, "column ts is of type double; expected timestamps"),
        (
            {"obj": pa.array([], pa.int64()), "ts": pa.array([], pa.timestamp("us")), "x": [], "y": []},
            "has no row with obj",
        ),
    ],
)
def test_files_that_are_no_trajectories_are_refused(tmp_path, columns, reason):
    """The columns are named, and what they should be."""
    pq.write_table(pa.table(columns), tmp_path / "cabs.parquet")
    with pytest.raises(InvalidColumns, match=reason):
        replayed(tmp_path / "cabs.parquet", 1, timestamps=1)


# --- workloads ----------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path):
    """Twelve rows on the earth, one of them far off."""
    places = [(10.0 + at / 10, 50.0 + at / 10) for at in range(11)] + [(150.0, -40.0)]
    lon, lat = zip(*places, strict=True)
    table = pa.table({"text": [f"cafe row{at} tea" for at in range(12)], "lon": lon, "lat": lat})
    pq.write_table(table, tmp_path / "rows.parquet")
    return read_source(tmp_path / "rows.parquet")


def test_the_same_number_of_messages_lives_at_any_time(plan):
    """A message lives for `life` timestamps, and a share of all comes in each."""
    moved = trips_over(plan, 10, timestamps=8)
    made = moving_workload(moved, MovingRecipe(20, life=4))
    time, expires = (made.messages[name].cast(pa.int64()).to_numpy() for name in ("time", "expires"))
    assert {4 * 30_000_000} == set((expires - time).tolist())
    assert (np.diff(time) >= 0).all()
    for moment in (moved.begin, *moved.times.tolist()):
        assert 20 == np.count_nonzero((time <= moment) & (moment < expires))
    assert 20 == made.messages_before().num_rows
    assert {int(moved.times[3])} == set(made.messages_at(3)["time"].cast(pa.int64()).to_pylist())
    assert 60 == 20 + sum(made.messages_at(at).num_rows for at in range(8)) == made.messages.num_rows


def test_regions_are_shares_of_the_map_around_their_objects(plan):
    """One hundredth of the map is a tenth of its width and height."""
    moved = trips_over(plan, 10, timestamps=1)
    table = moving_workload(moved, MovingRecipe(5, region_area=0.01)).subscriptions
    west, south, east, north = (table[name].to_numpy() for name in ("x_min", "y_min", "x_max", "y_max"))
    assert np.allclose(np.column_stack([east - west, north - south]), moved.extent / 10)
    assert np.allclose(np.column_stack([east + west, north + south]) / 2, moved.first)


def test_words_come_from_a_data_file_and_places_are_scaled_onto_the_map(plan, source):
    """Where rows are too few, messages come again a little way off; a place far off lies at the border."""
    moved = trips_over(plan, 30, timestamps=2)
    made = moving_workload(moved, MovingRecipe(40, source=source))
    assert {"cafe", "tea"} <= {word for words in made.messages["terms"].to_pylist() for word in words}
    x, y = (made.messages[name].to_numpy() for name in ("x", "y"))
    x_min, y_min, x_max, y_max = moved.bounds
    assert ((x_min <= x) & (x <= x_max) & (y_min <= y) & (y <= y_max)).all()
    assert 48 == len(set(made.messages["id"].to_pylist()))
    again = np.hypot(*(np.column_stack([x, y])[6:12] - np.column_stack([x, y])[:6]).T)
    assert (again < 0.1 * moved.extent.max()).all()
    assert (again > 0).any()


@pytest.mark.parametrize("kind", ["similar", "topk"])
def test_scored_subscriptions_are_where_their_objects_are(plan, kind):
    """They have a point for a place, in the columns of the map's space."""
    moved = trips_over(plan, 10, timestamps=1)
    table = moving_workload(moved, MovingRecipe(5, kind=kind)).subscriptions
    assert moved.first.tolist() == np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()]).tolist()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [({"messages": 0}, "messages is 0"), ({"life": 0}, "life is 0"), ({"region_area": 2.0}, "region_area is 2.0")],
)
def test_wrong_recipes_are_refused(wrong, reason):
    """What cannot be is said at once."""
    with pytest.raises(InvalidInput, match=reason):
        MovingRecipe(**{"messages": 5} | wrong)


# --- the command --------------------------------------------------------------------------------------------------

SIZES = ("--subscriptions", 60, "--messages", 80, "--timestamps", 4, "--region-area", 0.05)


def generate(nearcast, out, *options):
    return nearcast("generate", out, "--moving", *SIZES, *options)


def match(nearcast, folder, *options):
    files = [(f"--{name}", folder / f"{name}.parquet") for name in ("subscriptions", "messages", "changes")]
    inputs = [each for pair in files for each in pair]
    return nearcast("match", *inputs, "--lifetime", "expires", "--out", folder / "told.parquet", *options)


def test_what_moves_can_be_matched_at_once(nearcast, tmp_path):
    """The files fit together, no row is rejected, and deliveries are those of a hub fed timestamp by timestamp."""
    made = generate(nearcast, tmp_path / "w", "--messages", 800, "--speed", 5)
    assert (0, "60 subscriptions, 1,120 messages and 48 moves in") == (
        made.status,
        made.out.partition(f" {tmp_path}")[0],
    )
    assert 0 == match(nearcast, tmp_path / "w").status
    told = pq.read_table(tmp_path / "w" / "told.parquet")
    assert {"+", "-"} == set(told["change"].to_pylist())
    moved = trips_over(grid_town("plane", 1), 60, timestamps=4, speed=5)
    world = moving_workload(moved, MovingRecipe(800, region_area=0.05))
    with Hub("plane", lifetime="expires") as hub:
        hub.subscribe_many(world.subscriptions)
        tables = [hub.publish_many(world.messages_before()).to_table()]
        for timestamp in range(4):
            tables.append(hub.move_many(world.moves_at(timestamp)).to_table())
            tables.append(hub.publish_many(world.messages_at(timestamp)).to_table())
    names = ["subscription_id", "message_id", "change", "cause_id"]
    assert pa.concat_tables(tables).select(names).to_pylist() == told.select(names).to_pylist()


@pytest.mark.parametrize(
    ("kind", "options"),
    [("similar", ("--max-distance", 500)), ("topk", ("--max-distance", 500, "--window", 100))],
)
def test_scored_subscriptions_move_too(nearcast, tmp_path, kind, options):
    """All kinds can be matched, on the earth as well."""
    assert 0 == generate(nearcast, tmp_path / "w", "--kind", kind, "--space", "earth").status
    result = match(nearcast, tmp_path / "w", *options)
    assert 0 == result.status, result.err
    assert pq.read_table(tmp_path / "w" / "told.parquet").num_rows


def test_roads_and_trajectories_are_looked_up_in_a_folder_of_data(nearcast, tmp_path):
    """Names of networks and of files without a folder mean those of --data."""
    write_roads(tmp_path)
    write_trajectories(tmp_path / "cabs.parquet")
    for name, options, places in (
        ("roads", ("--roads", "street"), ["lon", "lat"]),
        ("replay", ("--replay", "cabs"), ["lon", "lat"]),
        ("square", ("--roads", "square", "--speed", 2, "--mobility", 1), ["x", "y"]),
    ):
        result = generate(nearcast, tmp_path / name, *options, "--data", tmp_path, "--interval", "1m", "--life", 5)
        assert 0 == result.status, result.err
        changes = pq.read_table(tmp_path / name / "changes.parquet")
        assert ["op", "id", *places, "time"] == changes.column_names
        assert 0 == match(nearcast, tmp_path / name).status


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ("--roads", "nowhere"),
            "--roads nowhere: there are no roads 'nowhere'; there are: street, square; --data says",
        ),
        (("--replay", "nowhere"), "--replay nowhere: there is no such file, nor nowhere.parquet in"),
        (("--replay", "cabs", "--speed", "2"), "--replay goes where a file says, when it says; leave out --speed"),
        (("--roads", "street", "--space", "plane"), "--space plane: --roads street lies on the earth; leave it out"),
        (("--interval", "soon"), "--interval soon: interval is 'soon'; expected a time like 30s"),
        (("--mobility", "2"), "--mobility 2.0: expected a number above 0 and up to 1"),
        (("--speed", "0"), "--speed 0.0: expected a number above 0 and up to 1000"),
        (("--source", "nowhere"), "--source nowhere: there is no such file"),
    ],
)
def test_wrong_options_are_refused_in_one_line(nearcast, tmp_path, options, reason):
    """The line says what was given and what to do; nothing is written."""
    write_roads(tmp_path)
    write_trajectories(tmp_path / "cabs.parquet")
    result = generate(nearcast, tmp_path / "w", *options, "--data", tmp_path)
    assert result.status in (1, 2)
    assert reason in result.complaint
    assert not Path(tmp_path / "w").exists()


def test_options_of_movement_are_for_moving(nearcast, tmp_path):
    """Who forgets --moving is told so."""
    result = nearcast("generate", tmp_path / "w", "--region-area", 0.5)
    assert (2, "--region-area is for --moving; add that or leave this out") == (
        result.status,
        result.complaint.removeprefix("nearcast: "),
    )
