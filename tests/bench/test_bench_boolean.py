"""`nearcast bench boolean`: its figures, its table over sizes, and the data they ask for; never how long they take."""

import csv
import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import indexes, parse
from nearcast.bench import limits, sizes, timing
from nearcast.bench.answers import Answers, AnswersDiffer
from nearcast.bench.data.places import PLANE_SIDE
from nearcast.bench.data.workloads import Recipe, drawn_from, generated, save_workload
from nearcast.bench.encoding import encoded
from nearcast.bench.figures import figures_of, plot, race
from nearcast.bench.figures.figure import Series, with_options
from nearcast.bench.figures.measurement import FigureData
from nearcast.bench.limits import Expectation
from nearcast.bench.request import BenchRequest
from nearcast.bench.sizes import run_sizes
from nearcast.cli import _console
from nearcast.errors import InvalidInput
from nearcast.geo import Space
from nearcast.indexes import Matches, available, create, register
from nearcast.indexes.scan import ScanIndex

FIGURES = figures_of("within")
TWO = [Series("one", "trigger"), Series("two", "scan")]
SIZE_FIELDS = [
    "index",
    "subscriptions",
    "messages",
    "build_s",
    "bytes_per_subscription",
    "us_per_message",
    "matches_per_message",
    "candidates_per_message",
    "verified_per_message",
    "skipped",
]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Few repetitions: these tests look at what is measured, not at how long it takes."""
    monkeypatch.setattr(race, "LEAST_S", 0.0)
    monkeypatch.setattr(race, "REMOVED_BATCHES", 1)
    monkeypatch.setattr(race, "FOLLOWING_MESSAGES", 10)
    monkeypatch.setattr(_console, "_EVERY_S", float("inf"))


@pytest.fixture
def enter(monkeypatch):
    """Register an index for one test."""
    available()  # the others first: what is registered later would be forgotten with it
    monkeypatch.setattr(indexes, "_registry", dict(indexes._registry))

    def entered(name, base=ScanIndex, **options):
        def begin(self, space, **_):
            base.__init__(self, space)

        register(name, kinds=("within",), paper="none", options=options)(type(name, (base,), {"__init__": begin}))

    return entered


@pytest.fixture(scope="module")
def venues(tmp_path_factory):
    """A data file with fewer rows than subscriptions are drawn from it."""
    rng = np.random.default_rng(5)
    words = [f"word{at}" for at in range(60)]
    table = pa.table(
        {
            "text": [" ".join(rng.choice(words, 8, replace=False)) for _ in range(3_000)],
            "lon": rng.uniform(-100, -80, 3_000),
            "lat": rng.uniform(30, 40, 3_000),
        }
    )
    path = tmp_path_factory.mktemp("data") / "venues.parquet"
    pq.write_table(table, path)
    return path


@pytest.fixture(params=["generated", "drawn"])
def make(request, venues):
    """Make a workload of a recipe, in either way."""

    def made(recipe, subscriptions=500, messages=20):
        counts = {"subscriptions": subscriptions, "messages": messages, "recipe": recipe}
        return generated(**counts) if request.param == "generated" else drawn_from(venues, **counts)

    return made


class ForgetfulIndex(ScanIndex):
    """Loses the first match of a batch."""

    def match(self, messages, *, threads=1):
        found = super().match(messages, threads=threads)
        if not len(found.slots):
            return found
        start = found.start - (found.start > 0)
        return Matches(start, found.slots[1:], found.score[1:])


def silent(_):
    pass


# --- recipes ------------------------------------------------------------------------------------------------------


def sides(table, names):
    x_min, y_min, x_max, y_max = (table[name].to_numpy() for name in names)
    return np.column_stack([x_max - x_min, y_max - y_min])


def test_regions_have_the_share_of_the_space_that_was_asked_for():
    """Of its area, drawn evenly between the two ends."""
    made = generated(subscriptions=4_000, messages=1, recipe=Recipe(region_area=(0.0001, 0.01)))
    share = sides(made.subscriptions, ("x_min", "y_min", "x_max", "y_max")).prod(axis=1) / PLANE_SIDE**2
    assert share.min() >= 0.0001 * (1 - 1e-9)
    assert share.max() <= 0.01 * (1 + 1e-9)
    assert share.mean() == pytest.approx(0.00505, rel=0.05)


def test_regions_of_a_data_file_have_a_share_of_its_extent(venues):
    """The box around nearly all of its places is the space."""
    made = drawn_from(venues, subscriptions=200, messages=5, recipe=Recipe(region_area=(0.01, 0.01)))
    wide, high = sides(made.subscriptions, ("west", "south", "east", "north")).T
    assert wide * high / (20 * 10) == pytest.approx(0.01, rel=0.02)
    assert wide / high == pytest.approx(2, rel=0.02)


def test_the_size_of_regions_changes_nothing_else(make):
    """A sweep over sizes asks for the same words at the same places."""
    small, large = (make(Recipe(region_area=(area, area))) for area in (1e-8, 0.01))
    assert small.subscriptions["query"] == large.subscriptions["query"]
    assert small.messages == large.messages == make(Recipe()).messages


def test_messages_are_rectangles_of_the_size_asked_for(make):
    """Around the points they would be at else; they are read as rectangles."""
    points, made = make(Recipe()), make(Recipe(message_area=(0.001, 0.001)))
    names = (
        ("lon", "lat", "lon_max", "lat_max") if "lon" in made.messages.column_names else ("x", "y", "x_max", "y_max")
    )
    extent = np.array([20, 10] if names[0] == "lon" else [PLANE_SIDE, PLANE_SIDE])
    found = sides(made.messages, names)
    assert found / extent == pytest.approx(np.sqrt(0.001), rel=0.02)
    centre = np.column_stack([made.messages[name].to_numpy() for name in names[:2]]) + found / 2
    assert centre == pytest.approx(np.column_stack([points.messages[name].to_numpy() for name in names[:2]]))
    box = encoded(made).messages.box
    assert np.all(box[:, 2:] > box[:, :2])
    assert points.messages["terms"] == made.messages["terms"]


def test_rectangles_on_the_earth_end_at_the_dateline():
    """Nothing is refused for reaching beyond the world."""
    recipe = Recipe(message_area=(0.2, 0.2), region_area=(0.2, 0.2))
    columns = encoded(generated(subscriptions=200, messages=200, space="earth", recipe=recipe))
    assert (200, 200) == (len(columns.subscriptions), len(columns.messages))


def test_long_messages_have_hundreds_of_words():
    """As many as the Rt-tree paper gives its long ones."""
    made = generated(subscriptions=1, messages=50, recipe=Recipe(message_words=(100, 1_000)))
    count = [len(set(terms)) for terms in made.messages["terms"].to_pylist()]
    assert (True, True) == (100 <= min(count) < 300, 700 < max(count) <= 1_000)


def test_subscriptions_have_as_many_alternatives_as_asked_for(make):
    """Each is a conjunction, one in ten excludes a word, and all of them can be true."""
    asked = make(Recipe(alternatives=(3, 3))).subscriptions["query"].to_pylist()
    clauses = [query.split(" OR ") for query in asked]
    assert {3} == set(map(len, clauses))
    every = [clause.split(" AND ") for each in clauses for clause in each]
    excluding = [words for words in every if words[-1].startswith("NOT ")]
    assert 0.05 < len(excluding) / len(every) < 0.15
    for words in excluding:
        assert words[-1].removeprefix("NOT ") not in words
        assert parse(" AND ".join(words)).holds(words[:-1])


def test_mixed_queries_have_two_groups_and_all_words(make):
    """AND and OR come in every place; the words are those of the plain query."""
    plain = make(Recipe(subscription_words=(4, 4))).subscriptions["query"].to_pylist()
    asked = make(Recipe(subscription_words=(4, 4), mixed=True)).subscriptions["query"].to_pylist()
    kinds = set()
    for before, query in zip(plain, asked, strict=True):
        words = before.split(" AND ")
        bare = query.replace("(", "").replace(")", "").replace(" OR ", " ").replace(" AND ", " ").split()
        assert words == bare
        assert parse(query).holds(words)
        assert 1 == query.count(") AND (") + query.count(") OR (")
        kinds.add("".join(each for each in query.replace("AND", "&").replace("OR", "|") if each in "()&|"))
    assert 3 * 2 * 2 <= len(kinds)  # where the groups meet, and what is in and between them


def test_what_drifting_subscriptions_ask_for_changes(make):
    """They are the same subscriptions in another order: the first lie in the west, with other words than the last."""
    usual, made = make(Recipe()), make(Recipe(drifting=True))
    rows = made.subscriptions.drop_columns("id").to_pylist()
    assert sorted(map(repr, usual.subscriptions.drop_columns("id").to_pylist())) == sorted(map(repr, rows))
    west = [row["west" if "west" in row else "x_min"] for row in rows]
    assert np.mean(west[:100]) < np.mean(west) < np.mean(west[-100:])
    first, last = ({row["query"].split()[0] for row in part} for part in (rows[:100], rows[-100:]))
    assert len(first & last) <= 0.3 * min(len(first), len(last))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"region_area": (0.0, 0.1)}, "region_area"),
        ({"message_area": (0.2, 0.1)}, "message_area"),
        ({"region_area": (0.5, 1.5)}, "region_area"),
        ({"alternatives": (0, 2)}, "alternatives"),
        ({"alternatives": (1, 2), "mixed": True}, "mixed"),
    ],
)
def test_a_recipe_that_cannot_be_met_is_refused(given, field):
    """At once, by the name of what is wrong."""
    with pytest.raises(InvalidInput, match=field):
        Recipe(**given)


# --- figures ------------------------------------------------------------------------------------------------------


def draw(recipe, subscriptions, messages):
    return generated(subscriptions=subscriptions, messages=messages, recipe=recipe)


def rows_of(name, subscriptions=200, messages=4, series=TWO):
    figure = replace(FIGURES[name].sized(subscriptions, messages, 1.0), series=series, history=8)
    return figure, list(figure.measure(figure, FigureData(draw), silent))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_measures_every_series_at_every_point(name):
    """There is a row for each pair, with every column that is drawn."""
    figure, rows = rows_of(name)
    assert len(figure.points) * 2 == len(rows)
    assert {"one", "two"} == {row["series"] for row in rows}
    for row in rows:
        assert row["skipped"] is None
        assert all(row[panel.column] is not None for panel in figure.panels)
        assert row["us_per_message"] > 0


@pytest.mark.parametrize("name", ["data-sets", "range-size", "changes"])
def test_a_boolean_figure_can_be_drawn(name, tmp_path):
    """Bars below long names, lines over sizes far below 1, more series than colours, gaps and zeros."""
    figure, rows = FIGURES[name], []
    for at, point in enumerate(figure.points):
        for series in figure.series:
            values = {panel.column: [1000.0 * at, None, 0.5][(at + len(rows)) % 3] for panel in figure.panels}
            rows.append({"x": point.source or point.x, "series": series.label, **values})
    (picture, table) = plot.write_figure(figure, rows, "a note", tmp_path, name)
    assert picture.stat().st_size > 10_000
    assert len(rows) + 1 == len(table.read_text().splitlines())


@pytest.mark.parametrize("name", FIGURES)
def test_the_options_in_a_figure_are_those_of_its_indexes(name):
    """Of the indexes that are there: each series can be made, and an option on the axis changes one of them."""
    figure, there = FIGURES[name], {info.name for info in available()}
    made = [series.spec for series in figure.series if series.spec.partition(":")[0] in there]
    for spec in made:
        for point in figure.points:
            assert "within" in create(with_options(spec, point.options), Space.plane()).info.kinds
    if made and any(point.options for point in figure.points):
        assert any(len({with_options(spec, each.options) for each in figure.points}) > 1 for spec in made)


def test_the_figures_of_both_papers_are_there():
    """All that the papers draw of boolean subscriptions that stay where they are."""
    papers = " ".join(figure.paper for figure in FIGURES.values())
    assert all(f"Fig. {number}" in papers for number in range(6, 19) if number != 9)
    assert "8 and 9" in papers


def test_range_messages_match_more_than_points():
    """The four groups of messages differ as the Rt-tree paper has them."""
    _, rows = rows_of("baselines", 5_000, 40, TWO[:1])
    short, long, short_range, long_range = (row["matches_per_message"] for row in rows)
    assert short < short_range < long_range
    assert short < long < long_range


def test_the_x_of_a_scaling_figure_is_its_size():
    """From a twentieth of the subscriptions to all of them."""
    _, rows = rows_of("subscriptions", series=TWO[:1])
    assert [10, 50, 100, 150, 200] == [row["x"] for row in rows] == [row["subscriptions"] for row in rows]


def test_a_slow_index_is_asked_fewer_messages(monkeypatch):
    """So many as there is time for, but ten at least; the row says how many."""
    monkeypatch.setattr(race, "MATCH_S", 0.0)
    _, rows = rows_of("keywords", 200, 40, TWO[:1])
    assert {limits.FEWEST_MESSAGES} == {row["messages"] for row in rows}


def test_fewer_messages_are_spread_over_all():
    """The sample comes first, because what `scan` says about it is known."""
    answers = Answers(np.array([0, 50, 99]), None)
    assert [0, 99] == answers.some_messages(2, 100).tolist()
    assert [0, 33, 50, 66, 99] == answers.some_messages(4, 100).tolist()


@pytest.mark.parametrize("budget", [10.0, 0.0])
def test_wrong_answers_in_a_figure_are_found(monkeypatch, enter, budget):
    """Also where few messages are asked."""
    enter("forgetful", ForgetfulIndex)
    monkeypatch.setattr(race, "MATCH_S", budget)
    with pytest.raises(AnswersDiffer, match="forgetful gives"):
        rows_of("range-size", 2_000, 40, [Series("broken", "forgetful")])


def test_answers_to_few_messages_are_compared_with_all_that_are_known():
    """Not only with the sample of `scan`."""
    columns = encoded(draw(Recipe(region_area=(0.5, 0.5)), 500, 30))
    right, wrong = (create("scan", columns.space) for _ in range(2))
    right.insert(columns.subscriptions)
    wrong.insert(columns.subscriptions)
    sample, rows = np.array([0, 29]), np.arange(0, 30, 2)
    answers = Answers(sample, right.match(columns.messages.take(sample)))
    answers.check("first", right.match(columns.messages))
    answers.check("same", right.match(columns.messages.take(rows)), rows)
    asked_scan = right.match(columns.messages.take(sample)).slots
    wrong.remove(np.setdiff1d(right.match(columns.messages.take(rows)).slots, asked_scan)[:1])
    with pytest.raises(AnswersDiffer, match=r"wrong gives .* first"):
        answers.check("wrong", wrong.match(columns.messages.take(rows)), rows)


def test_what_is_asked_of_few_first_is_compared_with_all_that_come_later():
    """Whoever answers a message first is compared with all others asked of it, whatever else they were asked."""
    columns = encoded(draw(Recipe(region_area=(0.5, 0.5)), 500, 30))
    right = create("scan", columns.space)
    right.insert(columns.subscriptions)
    sample, few, more = np.array([0, 29]), np.arange(0, 30, 10), np.arange(0, 30, 2)
    whole = right.match(columns.messages)

    def wrong_at(message):
        at = whole.start[message]
        assert at < whole.start[message + 1]
        start = whole.start - (np.arange(31) > message)
        return Matches(start, np.delete(whole.slots, at), np.delete(whole.score, at))

    answers = Answers(sample, right.match(columns.messages.take(sample)))
    answers.check("first", right.match(columns.messages.take(few)), few)
    answers.check("second", right.match(columns.messages.take(more)), more)
    for message, other in ((10, "first"), (14, "second")):
        with pytest.raises(AnswersDiffer, match=f"message {message}: wrong gives .* and {other} "):
            answers.check("wrong", wrong_at(message))
    answers.check("third", whole)
    with pytest.raises(AnswersDiffer, match=r"message 15: wrong gives .* and third "):
        answers.check("wrong", wrong_at(15))


def test_an_index_that_takes_too_long_to_build_is_skipped(monkeypatch):
    """A part of the rows tells; the row says why, and the picture has a gap."""
    monkeypatch.setattr(race, "BUILD_S", 1e-9)
    monkeypatch.setattr(limits, "WARM_UP_SUBSCRIPTIONS", 10)
    figure, rows = rows_of("subscriptions", 400, series=TWO[:1])
    assert [False, True, True, True, True] == [row["skipped"] is not None for row in rows]
    assert "build at 10 took" in rows[1]["skipped"]
    assert "the limit of a figure is 1e-09 s" in rows[1]["skipped"]
    assert all(rows[1][panel.column] is None for panel in figure.panels)
    assert list(rows[0]) == list(rows[1])


def test_inserting_that_takes_too_long_is_skipped(monkeypatch):
    """What the first batches take tells."""
    monkeypatch.setattr(race, "BUILD_S", 1e-9)
    _, rows = rows_of("drift", series=TWO[:1])
    assert all("inserting" in row["skipped"] and row["insert_us"] is None for row in rows)


def test_after_changes_an_index_answers_like_one_that_was_built_so():
    """The subscriptions inserted later count; removing comes after matching."""
    columns = encoded(draw(Recipe(region_area=(0.01, 0.01)), 2_000, 50))
    whole = create("scan", columns.space)
    whole.insert(columns.subscriptions)
    data = FigureData(lambda *_: draw(Recipe(region_area=(0.01, 0.01)), 2_000, 50))
    figure = replace(FIGURES["changes"].sized(2_000, 50, 1.0), series=TWO[:1], history=0)
    (row,) = figure.measure(figure, data, silent)
    assert len(whole.match(columns.messages).slots) / 50 == row["matches_per_message"] > 0
    assert (True, True, 2_000) == (row["insert_us"] > 0, row["remove_us"] > 0, row["subscriptions"])


@pytest.mark.parametrize("name", ["divergence", "drift", "changes"])
def test_what_is_inserted_later_is_inserted(name):
    """Batch by batch: the index brings itself up to date after each, and is never built anew in between."""
    calls = []

    class Counting(type(create("keyword-first", Space.plane()))):
        def _build(self, atoms):
            calls.append(("build", len(atoms)))
            super()._build(atoms)

        def _insert_atoms(self, atoms):
            calls.append(("insert", len(atoms)))
            super()._insert_atoms(atoms)

    figure = FIGURES[name]
    columns = encoded(draw(figure.points[0].recipe, 1_000, 7))
    for point in figure.points:
        first = round(point.share * 1_000)
        assert first > 500
        index = Counting(columns.space)
        index.insert(columns.subscriptions.take(np.arange(first)))
        index.match(columns.messages)
        assert [("build", first)] == calls
        calls.clear()
        us, reason = race._insert_rest(index, columns, first)
        assert (True, None) == (us > 0, reason)
        assert [("insert", 100)] * ((1_000 - first) // 100) == calls
        calls.clear()


def test_what_a_message_waits_longer_is_part_of_a_change(monkeypatch):
    """The message itself is not; messages take turns."""
    columns = encoded(draw(Recipe(), 10, 2))
    now, asked = [0.0], []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    class Slow:
        is_behind = False

        def change(self):
            now[0] += 1.0
            self.is_behind = True

        def match(self, messages):
            asked.append(messages.ids.to_pylist())
            now[0] += 100.0 + 10.0 * self.is_behind
            self.is_behind = False

    index = Slow()
    assert 33.0 == timing.changes_s(index, columns.messages, [index.change] * 3)
    assert [["m0"], ["m0"], ["m1"], ["m1"], ["m0"], ["m0"]] == asked


def test_messages_drift_from_west_to_east(enter):
    """An index is built once, for messages in the west, and then asked others, part by part."""
    asked, learned = [], []

    class Watching(ScanIndex):
        def learn(self, messages):
            learned.append(messages.box[:, 0])

        def match(self, messages, *, threads=1):
            asked.append(messages.box[:, 0])
            return super().match(messages, threads=threads)

    enter("watching", Watching)
    _, rows = rows_of("message-drift", 300, 6, [Series("it", "watching:")])
    assert [6] * 5 == [row["messages"] for row in rows]
    whole = list({tuple(part) for part in asked if len(part) == 6})
    parts = sorted(whole)
    assert 5 == len(parts)
    assert all(max(before) <= min(after) for before, after in itertools.pairwise(parts))
    (past,) = {tuple(each) for each in learned}
    others = {x for part in asked for x in part} - {x for part in parts for x in part}
    assert 8 == len(others)
    assert sorted(others)[:2] == list(past)  # none of which is measured


def test_an_index_follows_messages_before_it_is_timed(enter, monkeypatch):
    """By others of the same part, so many that it has followed them for certain."""
    monkeypatch.setattr(race, "FOLLOWING_MESSAGES", 10)
    asked = []

    class Following(ScanIndex):
        def learn(self, messages):
            pass

        def match(self, messages, *, threads=1):
            asked.append(tuple(messages.box[:, 0]))
            return super().match(messages, threads=threads)

    enter("following", Following)
    rows_of("message-drift", 200, 6, [Series("it", "following:")])
    measured = {part for part in asked if len(part) == 6}
    in_a_row = [(part, len(list(calls))) for part, calls in itertools.groupby(asked)]
    untimed = [(len(part), calls) for part, calls in in_a_row if calls >= 50 and part not in measured]
    assert 5 == len(measured)
    assert [(2, 50), (2, 50), (2, 50), (1, 100), (1, 100)] == untimed  # a message for four of 200, twice


def test_a_point_may_name_its_own_data():
    """Its name stands on the axis."""
    drawn = []

    def draw_from(source):
        def from_source(*asked):
            drawn.append(source)
            made = draw(*asked)
            return replace(made, about=made.about | {"source": f"{source}.parquet"})

        return from_source

    figure = replace(FIGURES["data-sets"].sized(100, 4, 1.0), series=TWO[:1], history=5)
    rows = list(figure.measure(figure, FigureData(draw, draw_from=draw_from), silent))
    assert [point.source for point in figure.points] == drawn == [row["x"] for row in rows]


def test_indexes_that_can_learn_know_messages_of_the_past(enter):
    """Before they hold anything; those messages are not measured."""
    learned = []

    class Learning(ScanIndex):
        def learn(self, messages):
            learned.append((len(self), messages.ids.to_pylist()))

    enter("learning", Learning)
    _, rows = rows_of("ap-variants", 200, 30, [Series("it", "learning:"), Series("other", "trigger")])
    assert {30} == {row["messages"] for row in rows}
    assert learned
    assert all((0, [f"m{at}" for at in range(8)]) == each for each in learned)


def test_a_history_is_never_longer_than_at_scale_1():
    """More subscriptions do not need more of it."""
    figure = FIGURES["keywords"]
    assert [50, 5_000, 5_000] == [figure.sized(None, None, scale).history for scale in (0.01, 1.0, 10.0)]


def test_many_series_can_be_told_apart(tmp_path):
    """More than there are colours."""
    figure = replace(FIGURES["keywords"], series=[Series(f"index {at}", "scan") for at in range(13)])
    rows = [
        {"x": x, "series": each.label, **{panel.column: 1.0 + at for panel in figure.panels}}
        for x in (1, 2)
        for at, each in enumerate(figure.series)
    ]
    plot.draw(figure, rows, "a note", tmp_path / "many.png")
    looks = {(at % len(plot._COLOURS), at // len(plot._COLOURS) % len(plot._LINES)) for at in range(13)}
    assert (13, True) == (len(looks), (tmp_path / "many.png").stat().st_size > 10_000)


@pytest.mark.parametrize(
    ("value", "shown"), [(1e-6, "0.000001"), (0.1, "0.1"), (10, "10"), (200_000, "200,000"), (0, "0")]
)
def test_numbers_on_an_axis_have_no_exponent(value, shown):
    """The sizes of regions are read as the paper writes them."""
    assert shown == plot.plain_number(value)


# --- a figure on the command line ---------------------------------------------------------------------------------


def test_bench_draws_a_boolean_figure(nearcast, tmp_path):
    """A picture and a table named after the command; the figure's own indexes, as far as they are there."""
    file = tmp_path / "report.json"
    given = ("--figure", "baselines", "--scale", 0.002, "--messages", 4, "--out", tmp_path, "--json", file)
    status, out, _ = nearcast("bench", "boolean", *given)
    assert 0 == status
    names = sorted(path.name for path in tmp_path.iterdir())
    assert ["boolean-baselines.csv", "boolean-baselines.png", "report.json"] == names
    with (tmp_path / "boolean-baselines.csv").open(newline="") as written:
        rows = list(csv.DictReader(written))
    assert {"trigger", "keyword-first"} <= {row["series"] for row in rows}
    assert {("200", "4", "")} == {(row["subscriptions"], row["messages"], row["skipped"]) for row in rows}
    about = json.loads(file.read_text())["workload"]
    assert ("baselines", "Rt-tree Fig. 8 and 9", "within") == tuple(about[key] for key in ("figure", "paper", "kind"))
    assert "|short, range" in out


def test_boolean_figures_are_listed(nearcast):
    """A line each."""
    status, out, _ = nearcast("bench", "boolean", "--figure", "list")
    assert (0, list(FIGURES)) == (status, [line.split()[0] for line in out.splitlines()])


def test_a_series_whose_option_is_lacking_is_left_out(nearcast, tmp_path, enter):
    """With a line that names it, as for an index that is lacking."""
    enter("ap-tree", priority="adaptive")
    given = ("--figure", "ap-variants", "--scale", 0.001, "--messages", 2, "--out", tmp_path)
    status, _, err = nearcast("bench", "boolean", *given)
    assert 0 == status
    (line,) = err.splitlines()
    assert "ap-tree:keyword_partition=heuristic, ap-tree:keyword_partition=dp" in line
    with (tmp_path / "boolean-ap-variants.csv").open(newline="") as written:
        assert {"keyword priority", "space priority"} <= {row["series"] for row in csv.DictReader(written)}


def test_data_sets_that_are_lacking_are_left_out(nearcast, tmp_path, venues):
    """A source that is given takes the place of all of them."""
    usual = ("--figure", "data-sets", "--scale", 0.001, "--messages", 2, "--indexes", "scan", "--out", tmp_path)
    (tmp_path / "data").mkdir()
    Path(tmp_path / "data" / "poi_us_venues.parquet").write_bytes(venues.read_bytes())
    for given, expected, told in (
        (("--data", tmp_path / "data"), ["generated", "poi_us_venues"], "poi_geonames_cities, msg_boston311"),
        (("--source", venues), ["venues"], ""),
    ):
        status, out, err = nearcast("bench", "boolean", *usual, *given)
        assert (0, True) == (status, told in err)
        with (tmp_path / "boolean-data-sets.csv").open(newline="") as written:
            assert expected == [row["x"] for row in csv.DictReader(written)]
    assert "100 subscriptions, 2 messages, venues.parquet" in out


def test_what_was_cut_short_is_told(nearcast, tmp_path, monkeypatch):
    """A line for each series and point with fewer messages, and for each that was skipped."""
    monkeypatch.setattr(race, "MATCH_S", 0.0)
    given = ("--figure", "rt-scaling", "--subscriptions", 400, "--messages", 20, "--out", tmp_path)
    _, out, _ = nearcast("bench", "boolean", *given, "--indexes", "trigger")
    assert "Fewer messages, for want of time: trigger at 80, 10 of 20." in out.splitlines()
    monkeypatch.setattr(race, "BUILD_S", 1e-9)
    monkeypatch.setattr(limits, "WARM_UP_SUBSCRIPTIONS", 10)
    _, out, _ = nearcast("bench", "boolean", *given, "--indexes", "trigger")
    assert any(line.startswith("Skipped: trigger at 400: build at 40 took") for line in out.splitlines())


# --- one table over sizes -----------------------------------------------------------------------------------------


def test_one_table_has_every_index_at_every_size():
    """Smaller sizes are the first rows; fields are those of a plain run, and how many were asked."""
    workload = draw(Recipe(region_area=(0.01, 0.01)), 900, 30)
    report = run_sizes(
        workload, BenchRequest(["trigger", "scan"], sizes=[900, 300], limit_s=60.0, command="the command"), silent
    )
    assert ["workload", "machine", "results"] == list(report)
    rows = report["results"]
    expected = [("trigger", 300), ("scan", 300), ("trigger", 900), ("scan", 900)]
    assert expected == [(row["index"], row["subscriptions"]) for row in rows]
    assert all(SIZE_FIELDS == list(row) and row["skipped"] is None and row["messages"] == 30 for row in rows)
    columns = encoded(replace(workload, subscriptions=workload.subscriptions.slice(0, 300)))
    few = create("scan", columns.space)
    few.insert(columns.subscriptions)
    assert len(few.match(columns.messages).slots) / 30 == pytest.approx(rows[0]["matches_per_message"], abs=1e-3)
    assert 300 == rows[1]["candidates_per_message"]
    assert [300, 900] == report["workload"]["sizes"]
    json.dumps(report)


def test_what_would_take_too_long_is_skipped_with_the_reason(nearcast, tmp_path):
    """In the table and in the JSON; what is expected comes from the size before."""
    file = tmp_path / "report.json"
    given = ("--sizes", "3000,300", "--messages", 20, "--indexes", "trigger,scan", "--limit-s", "0.0000001")
    status, out, err = nearcast("bench", "boolean", *given, "--json", file)
    assert (0, "") == (status, err)
    told = json.loads(file.read_text())
    first, _, skipped, _ = told["results"]
    assert (None, 10) == (first["skipped"], first["messages"])  # no time for more than the fewest messages
    assert SIZE_FIELDS == list(skipped)
    assert skipped["us_per_message"] is skipped["build_s"] is None
    assert skipped["skipped"].startswith("build at 300 took ")
    assert skipped["skipped"].endswith(" s are expected here; the limit is --limit-s 1e-07")
    lines = [line for line in out.splitlines() if line.startswith("|trigger")]
    assert 2 == len(lines)
    assert skipped["skipped"] in lines[1]
    assert "--sizes 3000,300 --limit-s 1e-07" in told["workload"]["command"]


def test_what_would_not_fit_into_memory_is_skipped(monkeypatch):
    """The size before tells how large it would be."""
    monkeypatch.setattr(sizes, "free_memory", lambda: 200_000)
    rows = run_sizes(draw(Recipe(), 3_000, 10), BenchRequest(["scan"], sizes=[300, 3_000], limit_s=60.0), silent)[
        "results"
    ]
    assert rows[0]["skipped"] is None
    assert "GB at 300, up to" in rows[1]["skipped"]
    assert "0.0002 GB are free" in rows[1]["skipped"]


def test_the_first_size_is_tried_with_a_part_of_its_rows(monkeypatch):
    """Nothing is begun that would not end."""
    monkeypatch.setattr(limits, "WARM_UP_SUBSCRIPTIONS", 20)
    (row,) = run_sizes(draw(Recipe(), 300, 10), BenchRequest(["trigger"], sizes=[300], limit_s=1e-9), silent)["results"]
    assert row["skipped"].startswith("build at 30 took")


def test_what_is_expected_grows_as_it_grew_before():
    """In proportion at least, with the square where it was the square; nothing is known at first."""
    expected = Expectation(10.0, "the limit is 10")
    assert expected.why_not(10**9, 0) is None
    expected.note(100, 1.0, 5_000)
    assert 4.0 == expected.seconds(400)
    expected.note(200, 4.0, 10_000)
    assert 16.0 == pytest.approx(expected.seconds(400))
    assert "build at 200 took 4 s, 16 s are expected here; the limit is 10" == expected.why_not(400, None)
    assert "up to 4.5e-05 GB are expected while it is built; 4e-05 GB are free" in expected.why_not(300, 40_000)
    assert expected.why_not(300, 50_000) is None
    expected.note(400, 4.1, 20_000)
    assert 8.2 == pytest.approx(expected.seconds(800))
    assert expected.why_not(400, 10**9) is None


def test_free_memory_is_told_or_unknown():
    """Enough for this test, where the system tells."""
    free = limits.free_memory()
    assert free is None or free > 1_000_000


def test_sizes_of_a_folder_are_its_first_rows(nearcast, tmp_path):
    """It must have as many."""
    save_workload(draw(Recipe(), 300, 10), tmp_path / "w")
    given = ("bench", "boolean", "--workload", tmp_path / "w", "--indexes", "scan", "--sizes")
    status, out, err = nearcast(*given, "100,300")
    assert (0, "", 2) == (status, err, sum(line.startswith("|scan") for line in out.splitlines()))
    status, out, err = nearcast(*given, "100,301")
    assert (2, "") == (status, out)
    assert "has 300 subscriptions; ask for no more" in err


def test_sizes_take_all_boolean_indexes_unless_told(nearcast, tmp_path):
    """`trigger` first and `scan` last."""
    file = tmp_path / "report.json"
    status, _, _ = nearcast("bench", "boolean", "--sizes", "200", "--messages", 5, "--json", file)
    names = [row["index"] for row in json.loads(file.read_text())["results"]]
    assert {info.name for info in available() if "within" in info.kinds} == set(names)
    assert (0, "trigger", "scan") == (status, names[0], names[-1])


def test_regions_of_a_plain_run_may_be_chosen(nearcast, tmp_path):
    """Larger ones match more."""
    file, found = tmp_path / "report.json", []
    for area in ("0.0001", "0.05,0.1"):
        given = ("--subscriptions", 500, "--messages", 50, "--indexes", "scan", "--region-area", area)
        status, _, _ = nearcast("bench", "boolean", *given, "--json", file)
        told = json.loads(file.read_text())
        found.append(told["results"][0]["matches_per_message"])
        assert (0, True) == (status, f"--region-area {area}" in told["workload"]["command"])
    assert found[0] < found[1]


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["--sizes", "100,x"], "--sizes 100,x: give different numbers"),
        (["--sizes", "100,100"], "give different numbers"),
        (["--sizes", "0"], "give different numbers"),
        (["--sizes", "100", "--subscriptions", "5"], "leave out --subscriptions and --churn"),
        (["--sizes", "100", "--churn"], "leave out --subscriptions and --churn"),
        (["--sizes", "100", "--limit-s", "0"], "--limit-s 0.0: give a number above 0"),
        (["--sizes", "100", "--limit-s", "nan"], "--limit-s nan"),
        (["--limit-s", "5"], "--limit-s is for --sizes"),
        (["--json", "."], "--json .: that is a folder; name a file"),
        (["--sizes", "5,99999999999999999999"], "--sizes 99999999999999999999: more than 100,000,000 do not fit"),
        (["--subscriptions", "99999999999999999999"], "more than 100,000,000 do not fit"),
        (["--messages", "100000001"], "--messages 100000001: more than 100,000,000 do not fit"),
        (["--figure", "keywords", "--scale", "1e300"], "--scale 1e+300: that makes more than 100,000,000 of 100,000"),
        (["--figure", "keywords", "--scale", "1e308"], "that makes more than 100,000,000 of 100,000"),
        (["--region-area", "0"], "--region-area 0: give one share"),
        (["--region-area", "0.1,0.2,0.3"], "give one share"),
        (["--region-area", "0.1", "--workload", "w"], "leave out --region-area"),
        (["--scale", "2"], "--figure list"),
        (["--out", "."], "--figure list"),
        (["--figure", "no-such"], "choose one of token-orders, tokens, baselines"),
        (["--figure", "keywords", "--scale", "0"], "--scale 0.0"),
        (["--figure", "keywords", "--workload", "w"], "leave out --workload and --churn"),
        (["--figure", "keywords", "--churn"], "leave out --workload and --churn"),
        (["--figure", "keywords", "--sizes", "5"], "leave out --sizes and --region-area"),
        (["--figure", "keywords", "--out", "no/such/folder"], "make it first"),
        (["--figure", "leaf"], "is over the option leaf, which scan lacks"),
    ],
)
def test_mistakes_with_boolean_are_one_line(nearcast, tmp_path, monkeypatch, arguments, fragment):
    """What cannot be run is said at once."""
    monkeypatch.chdir(tmp_path)
    status, out, err = nearcast("bench", "boolean", *arguments, "--indexes", "scan")
    (line,) = err.splitlines()
    assert (2, "") == (status, out)
    assert fragment in line


def test_a_boolean_figure_without_matplotlib_says_what_to_install(nearcast, tmp_path, monkeypatch):
    """Before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    given = ("--figure", "keywords", "--indexes", "scan", "--out", tmp_path)
    status, _, err = nearcast("bench", "boolean", *given)
    assert (1, "nearcast: figures are drawn with matplotlib: pip install 'nearcast[bench]'\n") == (status, err)
