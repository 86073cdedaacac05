"""About how many messages a day: what an estimate counts, how it carries over to a day, and what it refuses."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast import Hub, Message, Similar, TopK, Within
from nearcast.errors import InvalidInput, InvalidSubscription, NotSupported
from nearcast.estimate import Estimate, _about, _wilson
from nearcast.estimate.recent_messages import MOST, RecentMessages
from nearcast.geo import Circle
from nearcast.text import Vocabulary

START = datetime(2026, 5, 1, tzinfo=UTC)
WORDS = ("ramen", "noodles", "pizza", "coffee")


def posts(n, every=timedelta(minutes=10), timed=True):
    """Messages a walk along a street: every third says ramen, every fifth noodles."""
    for i in range(n):
        said = [word for word, step in zip(WORDS, (3, 5, 2, 7), strict=True) if i % step == 0]
        yield Message(i, " ".join(said), (i * 10.0, 0.0), time=START + i * every if timed else None)


def ramen(**more):
    return Similar("s", "ramen noodles", (0.0, 0.0), **{"threshold": 0.6, "max_distance": 500.0, **more})


@pytest.mark.parametrize("similarity", ["tsim", "overlap", "jaccard", "dice", "cosine"])
@pytest.mark.parametrize("text_weight", [0.0, 0.3, 1.0])
def test_it_counts_what_a_hub_would_deliver(similarity, text_weight):
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["ramen"], ["ramen", "pizza"], ["coffee"]])
    hub = Hub("plane", vocabulary=vocabulary)
    asked = ramen(similarity=similarity, text_weight=text_weight, threshold=0.4)
    found = hub.estimate(asked, posts(200))
    hub.subscribe(asked)
    assert found.matches == len(hub.publish_many(posts(200)))
    assert found.messages == 200


def test_every_cell_of_the_table_is_what_that_setting_delivers():
    found = Hub("plane").estimate(ramen(text_weight=0.4, threshold=0.65), posts(150))
    assert found.sliders.text_weights == (0.0, 0.25, 0.4, 0.5, 0.75, 1.0)
    assert found.sliders.thresholds == (0.5, 0.6, 0.65, 0.7, 0.8, 0.9, 1.0)
    for weight, row in zip(found.sliders.text_weights, found.sliders.matches, strict=True):
        for threshold, count in zip(found.sliders.thresholds, row, strict=True):
            hub = Hub("plane")
            hub.subscribe(ramen(text_weight=weight, threshold=threshold))
            assert count == len(hub.publish_many(posts(150))), (weight, threshold)
    assert found.sliders.matches[2][2] == found.matches


def test_a_boolean_subscription_has_no_table():
    found = Hub("plane").estimate(Within("w", "ramen", Circle(0.0, 0.0, 300.0)), posts(60))
    assert (found.matches, found.sliders) == (11, None)
    assert "sliders" not in found.to_dict()


def test_times_make_a_day_of_it():
    """Gaps fill the span, not messages: 145 messages ten minutes apart are a day, and 144 a day."""
    found = Hub("plane").estimate(ramen(), posts(145))
    assert found.messages_per_day == pytest.approx(144)
    assert found.per_day == pytest.approx(found.matches * 144 / 145)


def test_messages_per_day_is_taken_where_it_is_given():
    found = Hub("plane").estimate(ramen(), posts(100), messages_per_day=5_000)
    assert found.per_day == found.matches / 100 * 5_000


@pytest.mark.parametrize("sample", [list(posts(50, timed=False)), list(posts(1)), list(posts(9, every=timedelta(0)))])
def test_without_times_there_is_no_day(sample):
    found = Hub("plane").estimate(ramen(), sample)
    assert (found.messages_per_day, found.per_day) == (None, None)
    assert "no telling" in str(found)
    assert found.to_dict()["per_day_high"] is None


def test_an_empty_sample_tells_nothing():
    found = Hub("plane").estimate(ramen(), [])
    assert (found.messages, found.matches, found.share_low, found.share_high) == (0, 0, 0.0, 1.0)
    assert "tells nothing" in str(found)


def test_the_recent_stream_serves_without_a_sample():
    hub = Hub("plane")
    with pytest.raises(InvalidInput, match="nothing was published yet"):
        hub.estimate(ramen())
    everything = list(posts(120))
    hub.publish_many(everything[:50])
    for message in everything[50:100]:
        hub.publish(message)
    hub.publish_many(everything[100:])
    assert hub.estimate(ramen()) == hub.estimate(ramen(), everything)


def test_a_word_that_nobody_asked_for_before_is_found_in_the_recent_stream():
    hub = Hub("plane")
    hub.publish_many(posts(30))
    assert hub.estimate(Within("w", "coffee", Circle(0.0, 0.0, 1e6))).matches == 5


def test_asking_changes_nothing():
    hub = Hub("plane")
    hub.publish_many(posts(30))
    before = hub.stats()
    hub.estimate(ramen())
    hub.estimate(ramen(), posts(30))
    assert before == hub.stats()


def test_bad_rows_of_a_sample_are_told():
    found = Hub("plane").estimate(ramen(), [*posts(10), {"id": 10, "text": "no place"}])
    assert (found.messages, len(found.rejected)) == (10, 1)
    assert found.to_dict()["rejected"] == 1


def test_what_cannot_be_subscribed_cannot_be_estimated():
    hub = Hub("plane")
    with pytest.raises(InvalidSubscription, match="max_distance"):
        hub.estimate(Similar("s", "ramen", (0, 0), threshold=0.5), posts(3))
    with pytest.raises(NotSupported, match="a top-k subscription always gets its best 10"):
        Hub("plane", window=9).estimate(TopK("t", "ramen", (0, 0), max_distance=5), posts(3))
    with pytest.raises(ValueError, match="messages_per_day"):
        hub.estimate(ramen(), posts(3), messages_per_day=-1)


def test_it_reads_well():
    text = str(Hub("plane").estimate(ramen(), posts(145)))
    lines = text.splitlines()
    assert lines[0].startswith("about ")
    assert "messages a day (95 %:" in lines[0]
    assert lines[2] == "messages a day, by text_weight (down) and threshold (across):"
    assert len({len(line) for line in lines[3:]}) == 1


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (0.0123, "0.012"), (0.96, "0.96"), (9.99, "10.0"), (12.3, "12"), (12345, "12,000")]
)
def test_numbers_have_two_digits(value, shown):
    assert _about(value) == shown


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_the_interval_holds_the_share(matches, messages):
    matches = min(matches, messages)
    low, high = _wilson(matches, messages)
    assert 0 <= low <= matches / messages <= high <= 1
    assert high > 0
    assert low < 1


def test_the_interval_of_a_known_case():
    """10 of 100: 5.5 % to 17.4 %, as tables of the Wilson interval have it."""
    found = Estimate(100, 10, 1000.0)
    assert (round(found.share_low, 3), round(found.share_high, 3)) == (0.055, 0.174)
    assert found.to_dict()["per_day"] == 100.0


def test_recent_messages_stay_bounded():
    recent = RecentMessages()
    table = pa.table({"id": range(700), "text": ["x"] * 700, "x": [0.0] * 700, "y": [0.0] * 700, "more": ["y"] * 700})
    for _ in range(40):
        recent.add_table(table)
        for message in posts(100):
            recent.add(message)
    assert MOST <= len(recent) < MOST + 700
    kept = sum(len(each) for each in recent.samples())
    assert kept == len(recent)
    tables = [each for each in recent.samples() if isinstance(each, pa.Table)]
    assert tables[0].column_names == ["id", "text", "x", "y"]


def test_a_slice_of_a_large_table_does_not_keep_it_in_memory():
    recent = RecentMessages()
    recent.add_table(pa.table({"id": range(1_000_000), "text": ["x"] * 1_000_000}).slice(5, 10))
    (table,) = recent.samples()
    assert table.num_rows == 10
    assert table.get_total_buffer_size() < 100_000


@pytest.fixture
def files(tmp_path):
    """A sample of messages and a file of subscriptions."""
    rows = [
        {"id": m.id, "text": m.text, "x": m.place[0], "y": m.place[1], "time": m.time.isoformat()} for m in posts(145)
    ]
    (tmp_path / "messages.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "subscriptions.csv").write_text(
        "id,kind,query,x,y,threshold,max_distance\n7,similar,ramen noodles,0,0,0.6,500\n8,similar,ramen,0,0,2,500\n"
    )
    return tmp_path


def test_command_with_json(nearcast, files):
    asked = '{"kind": "similar", "query": "ramen noodles", "x": 0, "y": 0, "threshold": 0.6, "max_distance": 500}'
    ran = nearcast("estimate", "--messages", files / "messages.jsonl", "--subscription", asked, "--json")
    found = json.loads(ran.out)
    assert (ran.status, found["messages"], found["messages_per_day"]) == (0, 145, pytest.approx(144))
    assert found["sliders"]["thresholds"] == [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


def test_command_with_an_id_in_a_file(nearcast, files):
    ran = nearcast(
        *("estimate", "--messages", files / "messages.jsonl", "--subscription", "7"),
        *("--subscriptions", files / "subscriptions.csv"),
    )
    assert ran.status == 0
    assert ran.out.startswith("about ")


@pytest.mark.parametrize(
    ("options", "status", "complaint"),
    [
        (["--subscription", "ramen"], 2, "no JSON"),
        (["--subscription", "[1]"], 2, "expected a JSON object"),
        (
            ["--subscription", '{"query": "ramen", "x": 0, "y": 0, "radius": 5}', "--messages-per-day", "-1"],
            2,
            "per-day",
        ),
        (["--subscription", '{"query": "a AND", "x": 0, "y": 0, "radius": 5}'], 1, "AND"),
        (["--subscription", '{"query": "a", "lon": 0, "lat": 0, "radius_m": 5}'], 1, "sample and subscription"),
        (["--subscription", '{"kind": "similar", "query": "a", "x": 0, "y": 0, "threshold": 0.5}'], 1, "max_distance"),
        (["--subscription", "9", "--subscriptions", "subscriptions.csv"], 1, "no row with the id '9'"),
        (["--subscription", "8", "--subscriptions", "subscriptions.csv"], 1, "threshold"),
    ],
)
def test_command_with_wrong_input(nearcast, files, monkeypatch, options, status, complaint):
    monkeypatch.chdir(files)
    ran = nearcast("estimate", "--messages", "messages.jsonl", *options)
    assert (ran.status, len(ran.err.splitlines())) == (status, 1)
    assert complaint in ran.err


def test_command_tells_of_bad_rows(nearcast, files):
    with (files / "messages.jsonl").open("a") as file:
        file.write('\n{"id": 1, "text": "nowhere"}')
    asked = '{"query": "ramen", "x": 0, "y": 0, "radius": 500}'
    ran = nearcast("estimate", "--messages", files / "messages.jsonl", "--subscription", asked)
    assert ran.status == 3
    assert "rejected" in ran.err


def test_attributes_of_recent_messages_are_not_kept():
    """A sample for estimates needs words, place and time; what travels along may be large."""
    recent = RecentMessages()
    recent.add(Message("m", "ramen", (0, 0), attributes={"photo": "x" * 1000}))
    recent.add_table(pa.table({"id": [1], "text": ["a"], "x": [0.0], "y": [0.0], "photo": ["x"]}))

    (one,), table = recent.samples()
    assert one == Message("m", "ramen", (0, 0))
    assert "photo" not in table.column_names
