"""The key of a delivery: unique over any life of a hub, and the same as its name, in values, tables and columns."""

import random

import pyarrow as pa
import pytest

from nearcast import Hub, delivery_id
from nearcast.delivery_ids import DELIVERY_KEY, with_delivery_ids
from nearcast.errors import NearcastError

#: Ids that differ only in their kind, and texts that look like parts of a name.
IDS = [1, "1", 2, "2", -3, "-3", ":1", "+1", "a:b", "ä", 2**62]
HUBS = {"instants": {}, "window": {"window": 4}, "life": {"lifetime": "3s"}, "both": {"window": "5s", "lifetime": "8s"}}


def subscription(rng, id_, kinds):
    kind = rng.choice(kinds)
    row = {"id": id_, "kind": kind, "query": rng.choice(["tea", "tea beer", "beer"])}
    if kind == "within":
        x, y = rng.randint(0, 4), rng.randint(0, 4)
        return row | {"x_min": x, "y_min": y, "x_max": x + 4, "y_max": y + 4}
    row |= {"x": rng.uniform(0, 8), "y": rng.uniform(0, 8), "text_weight": 0.5}
    return row | ({"k": 2} if kind == "topk" else {"threshold": 0.3})


def life(seed, **options):
    """Yield what the calls of a random life deliver: messages whose ids repeat, and subscriptions that come and go."""
    rng, moment = random.Random(seed), 0
    hub = Hub("plane", max_distance=6, **options)
    kinds = ("within", "similar", "topk") if "window" in options else ("within", "similar")
    for _ in range(60):
        what, id_ = rng.random(), rng.choice(IDS)
        if what < 0.3:
            hub.subscribe(subscription(rng, id_, kinds))
            yield hub.poll()
        elif what < 0.4 and id_ in hub:
            yield hub.unsubscribe(id_)
        elif what < 0.5 and id_ in hub:
            try:
                yield hub.move(id_, (rng.uniform(0, 8), rng.uniform(0, 8)))
            except NearcastError:
                continue
        else:
            moment += rng.choice([0, 1])
            rows = [
                {"id": rng.choice(IDS[:4]), "text": rng.choice(["tea", "beer", "tea beer"]), "time": stamp(moment)}
                | {"x": rng.uniform(0, 8), "y": rng.uniform(0, 8)}
                for _ in range(rng.choice([1, 3]))
            ]
            for row in rows:
                yield hub.publish(row)


def stamp(seconds):
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


def delivered_in(seed, options):
    return [each for each in life(seed, **options) if each is not None and len(each)]


@pytest.mark.parametrize("options", HUBS.values(), ids=HUBS)
def test_no_two_deliveries_have_a_key(options):
    """Over lives with repeated message ids, and ids of subscriptions that are integers and text."""
    seen = 0
    for seed in range(3):
        keys = []
        for each in delivered_in(seed, options):
            rows = each.to_table().to_pylist()
            keys += [tuple((type(row[name]), row[name]) for name in DELIVERY_KEY) for row in rows]
        assert len(keys) == len(set(keys))
        seen += len(keys)
    assert seen > 100


@pytest.mark.parametrize("options", HUBS.values(), ids=HUBS)
def test_names_of_columns_of_rows_and_of_values_are_one(options):
    """`Delivery.delivery_id`, the name made of a row and the one made of columns, whatever the ids are."""
    names = []
    for each in delivered_in(7, options):
        table = each.to_table()
        assert "delivery_id" not in table.column_names
        of_values = [value.delivery_id for value in each]
        assert delivery_id(*(table[name] for name in DELIVERY_KEY)).to_pylist() == of_values
        assert [delivery_id(*(row[name] for name in DELIVERY_KEY)) for row in table.to_pylist()] == of_values
        named = each.to_table(delivery_ids=True)
        assert named.drop_columns("delivery_id").equals(table)
        assert named["delivery_id"].to_pylist() == of_values
        assert named.column_names.index("delivery_id") == named.column_names.index("arrival") + 1
        names += of_values
    assert len(names) == len(set(names)) > 20


def test_names_of_cut_and_coded_columns():
    """Columns may be slices, chunked or dictionaries, and ids a union."""
    hub = Hub("plane")
    hub.subscribe_many([{"id": id_, "query": "tea"} for id_ in (1, 2)])
    hub.subscribe_many([{"id": id_, "query": "tea"} for id_ in ("1", "b")])
    found = hub.publish_many([{"id": f"m{i}", "text": "tea", "x": 0, "y": 0} for i in range(5)])
    expected = [value.delivery_id for value in found]
    table = found.to_table()
    assert pa.types.is_union(table.schema.field("subscription_id").type)
    for first in range(4):
        cut = table.slice(first, 9)
        assert with_delivery_ids(cut)["delivery_id"].to_pylist() == expected[first : first + 9]
    (coded,) = found.tables(dictionaries=True)
    assert pa.types.is_dictionary(coded.schema.field("change").type)
    assert with_delivery_ids(coded)["delivery_id"].to_pylist() == expected
    joined = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    assert with_delivery_ids(joined)["delivery_id"].to_pylist() == expected


def test_a_table_without_the_key_is_left_alone():
    table = pa.table({"source": ["a"], "row": [1]})
    assert with_delivery_ids(table) is table


def test_frames_have_names_on_request():
    hub = Hub("plane")
    hub.subscribe({"id": "s", "query": "tea"})
    found = hub.publish({"id": "m", "text": "tea", "x": 0, "y": 0})
    assert "delivery_id" not in found.to_pandas().columns
    assert found.to_pandas(delivery_ids=True)["delivery_id"].tolist() == ["0:0:+:s"]


def types_of(table):
    return {field.name: field.type for field in table.schema}


def test_texts_of_a_file_are_codes_of_the_texts_that_the_index_and_the_messages_hold():
    """No string is made for a row: a dictionary has each id once, and other columns are arrays of numbers."""
    hub = Hub("plane")
    hub.subscribe_many([{"id": f"s{i}", "query": "tea"} for i in range(50)])
    ids = [f"m{i % 7}" for i in range(40)]  # ids repeat
    found = hub.publish_many([{"id": id_, "text": "tea", "x": 0, "y": 0} for id_ in ids])
    (coded,) = found.tables(dictionaries=True)
    text = pa.dictionary(pa.int32(), pa.string())
    assert {name for name, kind in types_of(coded).items() if kind == text} == {
        "subscription_id", "message_id", "change", "cause_id", "version"
    }  # fmt: skip
    values = {name: coded[name].chunk(0).dictionary.to_pylist() for name in ("subscription_id", "message_id")}
    assert values == {"subscription_id": [f"s{i}" for i in range(50)], "message_id": [f"m{i}" for i in range(7)]}
    assert coded["message_id"].chunk(0).indices.to_pylist() == [i % 7 for i in range(40) for _ in range(50)]
    assert coded.cast(found.to_table().schema).equals(found.to_table())


def test_ids_that_do_not_repeat_are_no_dictionary():
    """One would be as long as the column itself."""
    hub = Hub("plane")
    hub.subscribe_many([{"id": f"s{i}", "query": f"w{i}"} for i in range(40)])
    found = hub.publish_many([{"id": f"m{i}", "text": f"w{i}", "x": 0, "y": 0} for i in range(40)])
    (coded,) = found.tables(dictionaries=True)
    assert types_of(coded)["subscription_id"] == types_of(coded)["message_id"] == pa.string()
    assert coded.cast(found.to_table().schema).equals(found.to_table())


@pytest.mark.parametrize("options", HUBS.values(), ids=HUBS)
def test_coded_tables_say_what_plain_ones_say(options):
    for each in delivered_in(11, options):
        table = each.to_table()
        for rows in (1, 2, 1 << 20):
            coded = [part.cast(table.schema) for part in each.tables(rows, dictionaries=True)]
            assert pa.concat_tables(coded).to_pylist() == table.to_pylist()
