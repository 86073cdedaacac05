"""A process that changes a durable hub from several threads, and notes in a ledger what was answered: run and killed.

    durable_worker.py FOLDER LEDGER SNAPSHOT_BYTES COUNT

Each thread goes on after its last line in the ledger; messages have a key, so what is made again is published once.
"""

import json
import os
import sys
import threading
from pathlib import Path

from nearcast import Circle, Within
from nearcast.durable import DurableHub

THREADS = 3


def is_publish(number):
    return number % 5 not in (0, 1)


def make(hub, thread, number):
    """Make one call; return the ids of its deliveries."""
    if number % 5 == 0:
        hub.subscribe(Within(f"s{thread}-{number}", "tea", Circle(number % 7, 0, 2)))
        return []
    if number % 5 == 1:
        found = hub.move(f"s{thread}-{number - 1}", (number % 3, 1))
    else:
        key = f"{thread}-{number}"
        found = hub.publish({"id": key, "text": "tea", "x": number % 7, "y": 0}, key=key)
    return [each.delivery_id for each in found]


def acknowledged(ledger):
    """Return the answers by thread and number; a line that a kill cut off is none."""
    lines = ledger.read_text().split("\n")[:-1] if ledger.exists() else []
    return {(thread, number): ids for thread, number, ids in map(json.loads, lines)}


def main(folder, ledger, snapshot_bytes, count):
    hub = DurableHub(folder, "plane", snapshot_bytes=snapshot_bytes)
    done = acknowledged(ledger)
    descriptor = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def work(thread):
        for number in range(1 + max((n for t, n in done if t == thread), default=-1), count):
            ids = make(hub, thread, number)
            os.write(descriptor, f"{json.dumps([thread, number, ids])}\n".encode())

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    hub.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
