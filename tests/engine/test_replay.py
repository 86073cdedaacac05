"""Replay is deterministic: snapshot and rest of the log = whole log = never stopped."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Hub, IncompatibleStore
from nearcast.durable.calls import apply
from nearcast.durable.inputs import CALLS, Input, decoded, encoded
from support.hub_calls import call_lists, contents_of, input_of, one_of_each_kind, outcome, prepared

OPTIONS = st.fixed_dictionaries(
    {
        "window": st.sampled_from([None, 3, "4s"]),
        "lifetime": st.sampled_from([None, "expires", "5s"]),
        "max_ahead": st.sampled_from([None, "6s"]),
        "index": st.sampled_from(["trigger", "scan"]),
        "live": st.sampled_from(["cells", "scan"]),
        "tells": st.booleans(),
    }
)


def hub_with(space, options):
    options = dict(options)
    options["tell_expiry"] = options.pop("tells") and options["lifetime"] is not None
    return Hub(space, **options)


def never_stopped(hub, calls):
    """Make the calls as a user does; return what each led to, and the log of those that were not refused at once."""
    outcomes, log = [], []
    for call in calls:
        method, *given_ = prepared(hub, call)
        taken = input_of(hub, (method, *given_))
        found = outcome(hub, lambda method=method, given_=given_: getattr(hub, method)(*given_))
        if taken is None:
            assert isinstance(found[0], str), f"{method} took what cannot be logged"
        else:
            log.append(encoded(taken))
            outcomes.append(found)
    return outcomes, log


def replayed(hub, log):
    return [outcome(hub, lambda data=data: apply(hub, decoded(data, "a row"))) for data in log]


def logged(outcomes):
    """Return outcomes without the reasons of rows that never reached the log, which replay cannot know."""
    return [found if isinstance(found[0], str) else found[0] for found in outcomes]


@pytest.mark.parametrize("space", ["earth", "plane"])
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_replay_gives_the_same_deliveries_and_the_same_state(space, data):
    """All kinds, lifetimes, windows, vocabularies, moves and clocks; the snapshot is taken anywhere."""
    is_earth, options = space == "earth", data.draw(OPTIONS)
    begin = [("subscribe", each) for each in one_of_each_kind(is_earth) if options["window"] or each.kind != "topk"]
    calls = begin + data.draw(call_lists(is_earth))
    hub = hub_with(space, options)
    outcomes, log = never_stopped(hub, calls)

    whole = hub_with(space, options)
    assert logged(outcomes) == logged(replayed(whole, log))
    assert contents_of(hub) == contents_of(whole)

    cut, begun = data.draw(st.integers(0, len(log))), hub_with(space, options)
    replayed(begun, log[:cut])
    with tempfile.TemporaryDirectory() as folder:
        begun.save(Path(folder, "snapshot"))
        opened = Hub.open(Path(folder, "snapshot"))
        assert logged(outcomes[cut:]) == logged(replayed(opened, log[cut:]))
        assert contents_of(hub) == contents_of(opened)


# Inputs as bytes


def some_input():
    return Input("publish_many", pa.table({"id": [1, 2], "text": ["tea", None], "x": [0.0, 1.0], "y": [0.0, 0.0]}))


def test_an_input_of_every_call_is_read_back_as_it_was():
    """The table with its types and metadata, and what the call was."""
    table = pa.table({"id": pa.array(["a", "b"]).dictionary_encode(), "place": [[1.0, 2.0], None]})
    table = table.replace_schema_metadata({"geo": "lon, lat"})
    for call in CALLS:
        found = decoded(encoded(Input(call, table, True, 3)), "a row")

        assert (call, True, 3) == (found.call, found.is_strict, found.n_refused)
        assert table.equals(found.table, check_metadata=True)


def test_a_damaged_input_is_refused_by_name():
    """Whichever byte it is, and wherever it ends."""
    data = encoded(some_input())
    for at in range(0, len(data), 7):
        for wrong in (data[:at], data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]):
            with pytest.raises(IncompatibleStore, match="row 5 is damaged"):
                decoded(wrong, "row 5")


def test_an_input_of_a_call_that_is_not_known_is_refused():
    """It was written by a newer version."""
    with pytest.raises(IncompatibleStore, match="a call 'merge', which this version does not know"):
        decoded(encoded(Input("merge", some_input().table)), "row 5")
