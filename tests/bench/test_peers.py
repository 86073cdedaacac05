"""Peers: each gives the right answers, what is wrong, missing, too slow or broken is told and not timed."""

import json

import numpy as np
import pyarrow as pa
import pytest

from nearcast.bench.data.workloads import Recipe, Workload, generated
from nearcast.bench.encoding import encoded
from nearcast.bench.peers import race
from nearcast.bench.peers.contract import Pairs, PeerFailed, PeerSettings, TimedPairs
from nearcast.bench.peers.race import Contestant
from nearcast.bench.peers.rarest_word import RarestWordPeer
from nearcast.bench.peers.reference import Reference
from nearcast.bench.peers.registry import PEERS
from nearcast.bench.peers.run import PeerRequest, run_peers
from nearcast.bench.peers.workload import peer_workload

WIDE = Recipe(region_area=(0.05, 0.5), subscription_words=(1, 2))
TIMES = ("load_s", "us_per_message", "p50_us", "p99_us", "times_ours")


def quiet(_):
    pass


def found_peer(kind):
    """Return a peer that can be run here, else skip so that the summary says it."""
    peer = kind(PeerSettings())
    why = peer.why_missing()
    if why is not None:
        pytest.skip(f"{kind.name} IS NOT TESTED: {why}")
    return peer


def with_borders(workload):
    """Return a workload with messages on the corners of boxes and next to them, by one bit, which float32 cannot tell.

    The last one has no word that any subscription has.
    """
    low, high = 1 / 3, 2 / 3
    outside = [np.nextafter(low, 0), np.nextafter(high, 1)]
    at = [(x, y) for x in (low, 0.5, high, *outside) for y in (low, 0.5, high, *outside)]
    x, y = np.array([*at, (0.5, 0.5)]).T
    said = [["cake", "tea"]] * len(at) + [["water"]]
    boxes = {"x_min": [low, 0.5], "y_min": [low, 0.5], "x_max": [high, high], "y_max": [high, high]}
    subscriptions = pa.table({"id": ["a", "b"], "kind": ["within"] * 2, "query": ["tea", "cake AND tea"], **boxes})
    messages = pa.table({"id": [str(row) for row in range(len(said))], "terms": said, "x": x, "y": y})
    added = ((workload.subscriptions, subscriptions), (workload.messages, messages))
    return Workload(workload.about, *(pa.concat_tables(each) for each in added))


@pytest.fixture(scope="module")
def worlds():
    """Return workloads with the right answers: on the earth, and on the plane, there along borders as well."""
    made = (
        generated(subscriptions=300, messages=30, recipe=WIDE, space="earth"),
        with_borders(generated(subscriptions=300, messages=30, recipe=WIDE)),
    )
    return [(peer_workload(each), Reference(encoded(each), quiet)) for each in made]


@pytest.mark.parametrize("kind", PEERS, ids=lambda kind: kind.name)
def test_a_peer_gives_the_right_answers(kind, worlds):
    """At once and one by one, on the plane and the earth, and on borders to the last bit."""
    for workload, reference in worlds:
        peer, rows = found_peer(kind), np.arange(len(workload.messages))
        try:
            assert any(letter.isdigit() for letter in peer.version())
            assert peer.load(workload.subscriptions) > 0
            assert len(reference.pairs(rows).messages) > 10
            for singly in (False, True):
                found = peer.match(workload.messages, singly=singly)
                assert reference.difference(rows, found.pairs) is None
                assert reference.pairs(rows).digest == found.pairs.digest
                assert not singly or len(found.seconds) == len(rows)
        finally:
            peer.close()
            peer.close()


class ForgetfulPeer(RarestWordPeer):
    name = "forgetful"

    def match(self, messages, *, singly):
        found = super().match(messages, singly=singly)
        return TimedPairs(Pairs(*(column[:-1] for column in found.pairs)), found.seconds)


class RepeatingPeer(RarestWordPeer):
    name = "repeating"

    def match(self, messages, *, singly):
        found = super().match(messages, singly=singly)
        return TimedPairs(Pairs.joined([found.pairs, found.pairs]), found.seconds)


class BrokenPeer(RarestWordPeer):
    name = "broken"

    def match(self, messages, *, singly):
        raise PeerFailed("it fell\nover")


class MissingPeer(RarestWordPeer):
    name = "missing"

    def why_missing(self):
        return "it is not installed"

    def version(self):
        raise AssertionError("nobody asks who is missing for a version")


class SlowPeer(RarestWordPeer):
    name = "slow"

    def load(self, subscriptions):
        super().load(subscriptions)
        return len(subscriptions) / 10


class SlowToAnswerPeer(RarestWordPeer):
    name = "slow to answer"

    def match(self, messages, *, singly):
        found = super().match(messages, singly=singly)
        return TimedPairs(found.pairs, found.seconds + 7.0)


def test_peers_that_cannot_be_timed_are_shown_as_such():
    """A peer that disagrees, fails or is missing has no times and a line that says why; the others have theirs."""
    peers = [RarestWordPeer, ForgetfulPeer, RepeatingPeer, BrokenPeer, MissingPeer, SlowToAnswerPeer]
    workload = generated(subscriptions=300, messages=30, recipe=WIDE)
    rows = run_peers(workload, PeerRequest([100, 300], peers, 60.0), quiet)["results"]
    by_peer = {(row["peer"], row["subscriptions"]): row for row in rows}

    assert 12 == len(rows)
    for size in (100, 300):
        state = {peer.name: by_peer[peer.name, size]["state"] for peer in peers}
        states = ["measured", "disagrees", "disagrees", "failed", "missing", "skipped"]
        assert states == list(state.values())
        assert all(by_peer["rarest-word", size][name] is not None for name in TIMES[:-1])
        for peer in peers[1:]:
            assert [None] * len(TIMES) == [by_peer[peer.name, size][name] for name in TIMES]
    assert "answers where" in by_peer["forgetful", 300]["note"]
    assert "missing: [" in by_peer["forgetful", 300]["note"]
    assert "it fell over" == by_peer["broken", 300]["note"]
    assert (None, "it is not installed") == tuple(by_peer["missing", 300][name] for name in ("version", "note"))
    assert "a message takes 7 s" in by_peer["slow to answer", 300]["note"]


def test_a_peer_that_would_load_too_long_is_skipped_with_an_estimate(worlds, monkeypatch):
    """A tenth of the rows tells for the first size, and each size for the next."""
    monkeypatch.setattr(race, "FEWEST_TRIAL", 30)
    (workload, reference), *_ = worlds
    skipped = Contestant(SlowPeer, PeerSettings(), 20.0).row(workload, reference)
    contestant = Contestant(SlowPeer, PeerSettings(), 31.0)
    loaded = contestant.row(workload, reference)

    assert ("skipped", None) == (skipped["state"], skipped["us_per_message"])
    assert "loading at 30 took 3 s, 30 s are expected here; the budget is --budget 20" == skipped["note"]
    assert ("measured", 30.0) == (loaded["state"], loaded["load_s"])
    assert contestant._expected.seconds(3000) >= 300


def test_fewer_messages_are_asked_within_a_budget(worlds):
    """As many as the budget allows for, never fewer than ten, and the answers to these are compared."""

    class UnhurriedPeer(RarestWordPeer):
        def match(self, messages, *, singly):
            found = super().match(messages, singly=singly)
            return TimedPairs(found.pairs, found.seconds * 0 + 1.0)

    (workload, reference), *_ = worlds
    row = Contestant(UnhurriedPeer, PeerSettings(), 6.0 * 12).row(workload, reference)

    assert ("measured", 12) == (row["state"], row["messages"])
    assert row["digest"] is not None


def test_the_command_prints_versions_and_writes_reports(nearcast, tmp_path):
    """A table, versions, the command, JSON, and a picture with its rows."""
    sizes = ["--subscriptions", "200,300", "--messages", 20, "--only", "rarest-word,nearcast", "--budget", 50]
    result = nearcast("bench", "peers", *sizes, "--json", tmp_path / "peers.json", "--out", tmp_path)
    report = json.loads((tmp_path / "peers.json").read_text())

    assert 0 == result.status
    assert "nearcast bench peers --subscriptions 200,300 --messages 20 --only rarest-word,nearcast" in result.out
    assert "rarest-word: Python 3" in result.out
    assert [("rarest-word", 200), ("nearcast", 200), ("rarest-word", 300), ("nearcast", 300)] == [
        (row["peer"], row["subscriptions"]) for row in report["results"]
    ]
    assert {"measured"} == {row["state"] for row in report["results"]}
    assert 1 == len({row["digest"] for row in report["results"][:2]})
    assert b"\x89PNG" == (tmp_path / "peers.png").read_bytes()[:4]
    assert 5 == len((tmp_path / "peers.csv").read_text().splitlines())


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["--only", "oracle"], "--only oracle: there is no such peer; choose from nearcast, rarest-word, shapely"),
        (["--only", ","], "--only names none"),
        (["--subscriptions", "ten"], "--subscriptions ten: give different numbers"),
        (["--subscriptions", "5,5"], "--subscriptions 5,5: give different numbers"),
        (["--budget", "0"], "--budget 0.0: give a number of seconds above 0"),
        (["--out", "nowhere"], "--out nowhere: there is no such folder"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(nearcast, given, complaint):
    """One line that says what to give."""
    result = nearcast("bench", "peers", *given)

    assert 2 == result.status
    assert complaint in result.complaint


def test_the_command_lists_peers(nearcast):
    """A line for each, with what it is."""
    result = nearcast("bench", "peers", "--only", "list")

    assert [*(peer.name for peer in PEERS), "topk"] == [line.partition(":")[0] for line in result.out.splitlines()]
