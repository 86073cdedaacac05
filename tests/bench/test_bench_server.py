"""`nearcast bench server`: a server under a small load."""

import json

from nearcast.bench.server.rows import NAMES

SIZES = ["--subscriptions", 300, "--subscribers", 30, "--streams", 5, "--seconds", 0.1, "--log-messages", 50]
#: The more endpoints there are, the fewer messages make so many webhooks.
SIZES += ["--endpoints", 50, "--dead", 2, "--batch", 50, "--deliveries", 400]


def test_a_server_is_measured_beside_its_aims(nearcast, tmp_path):
    """Each row has figures, aims say whether they are met, answers were compared, and nothing is left behind."""
    status, out, *_ = nearcast("bench", "server", *SIZES, "--folder", tmp_path, "--json", tmp_path / "server.json")
    report = json.loads((tmp_path / "server.json").read_text())
    figures = {(each["row"], each["figure"]): each for each in report["figures"]}

    assert 0 == status
    assert "nearcast bench server --subscriptions 300" in report["command"]
    assert set(NAMES) == {row for row, _ in figures}
    assert all(row in out for row in NAMES)
    assert report["events_compared"] > 20
    assert all(each["value"] is None or each["value"] >= 0 for each in figures.values())
    assert figures["lines", "messages by NDJSON"]["value"] > 0
    assert 0 < figures["resume", "missed by each"]["value"] <= 100
    assert ("at most", 200) == tuple(
        figures["resume", "to the last of them, slowest"][name] for name in ("aim_is", "aim")
    )
    assert ("at most", 90) == tuple(
        figures["log-alone", "ready from the log alone"][name] for name in ("aim_is", "aim")
    )
    assert ["server.json"] == [path.name for path in tmp_path.iterdir()]
