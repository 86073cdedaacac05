"""The queue of messages that end next, against a sorted list of all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.columns import NO_TIME
from nearcast.live import expiry_queue
from nearcast.live.expiry_queue import NEVER, ExpiryQueue

TIMES = st.integers(0, 30)


@given(
    st.lists(st.tuples(st.lists(TIMES, max_size=8), TIMES), max_size=12), st.sampled_from([(1, 3), (2, 2), (50, 99)])
)
def test_queue_names_what_a_sorted_list_names(steps, sizes):
    """Rows come and time passes; rows that end are named by time, then row, and each once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry_queue, "_FILLED", sizes[0])
        patch.setattr(expiry_queue, "_MOST", sizes[1])
        queue, ends, now = ExpiryQueue.none(), np.zeros(0, np.int64), NO_TIME
        for arriving, time in steps:
            queue = queue.with_rows(len(ends), np.array(arriving, np.int64), now)
            ends = np.append(ends, np.array(arriving, np.int64))
            left = sorted((end, row) for row, end in enumerate(ends.tolist()) if end > now)
            assert queue.next_expiry <= (left[0][0] if left else NEVER)
            time = max(time, now)
            if time >= queue.bound:
                queue = ExpiryQueue.filled(ends, now, time)
            assert [row for end, row in left if end <= time] == queue.until(time).tolist()
            queue, now = queue.without(time), time
            assert [] == queue.until(now).tolist()


def test_new_queue_of_known_rows_has_to_be_filled():
    assert ExpiryQueue.unknown().next_expiry == NO_TIME
    queue = ExpiryQueue.filled(np.array([7, 3, 9]), 3)
    assert (7, [0, 2]) == (queue.next_expiry, queue.until(9).tolist())
