"""Kills of brokers and drivers at random moments: a topic holds what a hub delivers, some of it more than once."""

import time

import pytest

from faults.kafka_kills import KilledStream
from faults.rounds import MINUTES, rounds

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not MINUTES, reason="takes as long as one wants: make test-faults"),
]


def moment_of(stream, rng):
    """Return a test of whether a moment in the life of the next batches has come, chosen at random."""
    look = rng.choice([stream.n_batches, stream.last_commit, stream.count, stream.published])
    before = look()
    return lambda: look() != before


def kill(stream, process, rng):
    """Kill the broker, the driver or both, at a random moment of the next batches; tell whom."""
    happened = moment_of(stream, rng)
    stream.send(rng.randint(5, 40))
    process.wait_for(happened)
    time.sleep(rng.choice([0, 0, rng.uniform(0, 0.3)]))
    victims = rng.choice(["broker", "driver", "both"])
    if victims != "driver":
        stream.broker.kill()
    if victims != "broker":
        process.kill()
    if victims != "driver":
        time.sleep(rng.uniform(0, 2))
        stream.broker.start()
    return victims


def test_brokers_and_drivers_killed_for_a_long_time(broker, topics, connector, connected, tmp_path):
    for seed, rng, folder in rounds(tmp_path):
        stream = KilledStream(broker, topics, connector, folder, seed=1000 + seed)
        kills = []
        process = stream.start()
        try:
            for _ in range(rng.randint(2, 5)):
                kills.append(kill(stream, process, rng))
                if process.process.poll() is not None:
                    process.kill()
                    process = stream.start()
        finally:
            process.kill()
        repeated = stream.finish(connected)
        print(f"seed {seed}: killed {', '.join(kills)}; {repeated} records came again")  # noqa: T201 - for whoever watches
