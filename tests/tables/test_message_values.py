"""Messages as values from the interchange columns that they were published in."""

import pyarrow as pa
import shapely

from nearcast import Message, Space
from nearcast.tables import Rejected, messages_table
from nearcast.tables.message_values import message_values

PLANE, EARTH = Space.plane(), Space.earth()


def test_values_come_back_as_they_were_given():
    """Points and rectangles, words and times, attributes that have the name of a column."""
    given = [
        Message(1, "tea", (0, 1), time="2026-01-01T00:00:00Z", attributes={"price": 3, "id": "own"}),
        Message(2, None, (0, 1, 2, 3), terms=("soup", "ramen"), expires="2026-01-02T00:00:00Z"),
    ]
    assert given == message_values(messages_table(given, PLANE, rejected=Rejected()), PLANE)


def test_tables_of_all_forms_are_read():
    """Geometries in well-known binary, times as text, ids of other types; a text without limit."""
    table = pa.table(
        {
            "id": pa.array(["a", "b"]).dictionary_encode(),
            "text": ["tea " * 200_000, None],
            "geometry": [shapely.to_wkb(shapely.Point(13, 52)), shapely.to_wkb(shapely.box(1, 2, 3, 4))],
            "time": ["2026-01-01T00:00:00Z", None],
            "price": [None, 3],
        }
    )
    found = message_values(table, EARTH)
    assert [("a", (13, 52)), ("b", (1, 2, 3, 4))] == [(each.id, each.place) for each in found]
    assert ("tea " * 200_000, {}) == (found[0].text, found[0].attributes)
    assert (None, {"price": 3}) == (found[1].time, found[1].attributes)
