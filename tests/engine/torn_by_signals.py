"""Run by a test: random changes of a hub under real signals, beside a twin that has none; writes how many were torn."""

import random
import signal
import sys
import time

from nearcast import Deliveries, Hub, TopK, Within
from support.torn import look, rows
from support.unsafe_frames import is_unsafe

IDS = [f"w{i}" for i in range(6)] + [f"t{i}" for i in range(6)]
WORDS = ["tea", "ramen", "beer", "soup", "jazz"]


def message(chance, number):
    text = " ".join(chance.choices(WORDS, k=3))
    return {
        "id": number,
        "text": text,
        "x": chance.randrange(5),
        "y": 0,
        "time": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z",
    }


def change(chance, number):
    """Return a call that changes a hub; on either twin it does the same."""
    kind = chance.choice(["publish", "publish", "many", "within", "topk", "unsubscribe", "move", "advance"])
    which, word, x, k = chance.randrange(6), chance.choice(WORDS), chance.randrange(5), chance.randrange(1, 4)
    given = [message(chance, number + i) for i in range(20)]
    calls = {
        "publish": lambda hub: hub.publish(given[0]),
        "many": lambda hub: hub.publish_many(given),
        "within": lambda hub: hub.subscribe(Within(f"w{which}", word)),
        "topk": lambda hub: hub.subscribe(TopK(f"t{which}", word, (x, 0), k=k)),
        "unsubscribe": lambda hub: hub.unsubscribe(f"w{which}") if f"w{which}" in hub else None,
        "move": lambda hub: hub.move(f"t{which}", (x, 1)) if f"t{which}" in hub else None,
        "advance": lambda hub: hub.advance(given[0]["time"]),
    }
    return calls[kind]


def made(call, hub):
    returned = call(hub)
    return rows(returned) if isinstance(returned, Deliveries) else []


class Strike:
    """Interrupts by a timer, and tells whether it did."""

    def __init__(self):
        self.has_struck = False
        signal.signal(signal.SIGALRM, self)

    def __call__(self, _, frame):
        if is_unsafe(frame):
            signal.setitimer(signal.ITIMER_REAL, 1e-3)
            return
        self.has_struck = True
        raise KeyboardInterrupt


def main(seconds, index):
    chance, torn, number = random.Random(5), 0, 0
    hub, twin = (Hub("plane", index=index, window="30s", max_distance=10) for _ in range(2))
    while number < 60:  # first all that is imported and compiled once: others' modules do not bear being interrupted
        number += 1
        call = change(chance, number)
        assert made(call, twin) == made(call, hub)
    strike = Strike()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number += 1
        call = change(chance, number)
        before, told = look(twin, IDS), None
        is_torn, strike.has_struck = False, False
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 2e-3))
            told = made(call, hub)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException:  # NumPy makes another error of an interrupt in some of its calls
            if not strike.has_struck:
                raise
            is_torn, told = True, None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        torn += is_torn
        if is_torn and look(hub, IDS) == before:
            assert [] == rows(hub.poll())
            continue
        expected = made(call, twin)
        assert look(twin, IDS) == look(hub, IDS)
        waiting, first = rows(hub.poll()), rows(twin.poll())
        if told is not None:
            assert (expected, first) == (told, waiting)
        elif waiting:  # else it was torn on the way out
            assert expected + first == waiting
    sys.stdout.write(f"{torn} {number}\n")


main(float(sys.argv[1]), sys.argv[2])
