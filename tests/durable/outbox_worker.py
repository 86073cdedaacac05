"""A process that publishes to subscribers and reads what waits for them, with a ledger of both: run and killed.

    outbox_worker.py FOLDER LEDGER SNAPSHOT_BYTES COUNT

Lines of the ledger: ["made", thread, number], ["read", name, cursor, delivery_id] and ["acked", name, cursor].
Each publishing thread goes on after its last line; messages have a key, so what is made again is published once.
"""

import json
import os
import sys
import threading
from pathlib import Path

from nearcast import Circle, Within
from nearcast.durable import DurableHub

THREADS = 2
NAMES = ("anna", "ben", "cleo")


def make(hub, thread, number):
    """Make one call."""
    if number % 6 == 0:
        subscription = Within(f"s{thread}-{number % 18}", "tea", Circle(number % 5, 0, 2))
        hub.subscribe(subscription, subscriber=NAMES[(thread + number // 6) % 3])
    elif number % 6 == 1:
        hub.move_subscriber(NAMES[number % 3], (number % 4, 0))
    elif number % 6 == 2:
        rows = [{"id": f"{thread}-{number}-{row}", "text": "tea", "x": row, "y": 0} for row in range(5)]
        hub.publish_many(rows, key=f"{thread}-{number}")
    else:
        hub.publish({"id": f"{thread}-{number}", "text": "tea", "x": number % 5, "y": 0}, key=f"{thread}-{number}")


def lines_of(ledger):
    """Return the lines of a ledger; one that a kill cut off is none."""
    return [json.loads(line) for line in (ledger.read_text().split("\n")[:-1] if ledger.exists() else [])]


class Ledger:
    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, *line):
        os.write(self._file, f"{json.dumps(line)}\n".encode())


def publish(hub, ledger, thread, first, count):
    for number in range(first, count):
        make(hub, thread, number)
        ledger.note("made", thread, number)


def read(hub, ledger, name, is_over):
    """Read, note and acknowledge the events of a subscriber, some at a time, until nothing more comes."""
    after = hub.acked(name)
    while True:
        was_over, events = is_over.is_set(), hub.events(name, after=after, limit=20)
        for each in events:
            ledger.note("read", name, str(each.cursor), each.delivery.delivery_id)
        after = events.cursor
        if events and after.step % 3 == 0:
            hub.ack(name, after)
            ledger.note("acked", name, str(after))
        if was_over and not events:
            return


def main(folder, path, snapshot_bytes, count):
    hub = DurableHub(folder, "plane", lifetime="expires", snapshot_bytes=snapshot_bytes)
    hub._outbox.flush_rows = 50
    done, ledger, is_over = lines_of(path), Ledger(path), threading.Event()
    firsts = [1 + max((line[2] for line in done if line[:2] == ["made", each]), default=-1) for each in range(THREADS)]
    publishers = [threading.Thread(target=publish, args=(hub, ledger, *each, count)) for each in enumerate(firsts)]
    readers = [threading.Thread(target=read, args=(hub, ledger, name, is_over)) for name in NAMES]
    for each in (*publishers, *readers):
        each.start()
    for each in publishers:
        each.join()
    is_over.set()
    for each in readers:
        each.join()
    hub.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
