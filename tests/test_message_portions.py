"""How many messages are matched at once, so that their deliveries fit into memory."""

from nearcast.deliveries import MessagePortions


def rows_of(portions: MessagePortions, n: int, per_message: int) -> list[tuple[int, int]]:
    """Return the portions of n messages, each of which delivers so much."""
    found = []
    for first, last in portions.of(n):
        found.append((first, last))
        portions.deliveries += per_message * (last - first)
    return found


def test_portions_cover_all_messages_and_grow_to_the_largest():
    portions = MessagePortions(first=4, largest=16, most_deliveries=1000)
    assert [(0, 4), (4, 20), (20, 36), (36, 40)] == rows_of(portions, 40, 1)
    assert (40, 40) == (portions.messages, portions.deliveries)


def test_portions_shrink_where_messages_reach_many():
    portions = MessagePortions(first=4, largest=16, most_deliveries=100)
    assert [(0, 4), (4, 6), (6, 8), (8, 9)] == rows_of(portions, 9, 50)


def test_one_message_is_a_portion_however_many_it_reaches():
    assert [(0, 1), (1, 2), (2, 3)] == rows_of(MessagePortions(first=1, most_deliveries=10), 3, 1000)


def test_the_next_table_goes_on_where_the_last_one_ended():
    portions = MessagePortions(first=2, largest=8, most_deliveries=1000)
    assert [(0, 2), (2, 3)] == rows_of(portions, 3, 1)
    assert [(0, 8), (8, 9)] == rows_of(portions, 9, 1)


def test_no_messages_are_no_portions():
    assert [] == rows_of(MessagePortions(), 0, 1)
