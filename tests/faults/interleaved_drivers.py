"""An older driver is stopped before its n-th file operation of a batch, and a newer one takes over and goes on.

python -m faults.interleaved_drivers FOLDER EVERY prints how many operations there were; each EVERY-th is tried, in a
process of its own. What readers see must be the output of a clean run, and the older one must name the newer.
"""

import os
import shutil
import sys
import traceback
from pathlib import Path

from faults.small_stream import SmallStream
from nearcast.pipeline.store.store import StoreConflict

#: Exit statuses: the older driver did all before its n-th operation; something was wrong.
NO_MORE, WRONG = 3, 4


def main(folder, every):
    stream = SmallStream(folder, batches=3, messages=3, changes=2)
    in_a_process(lambda: prepare(stream))
    n = 0
    while in_a_process(lambda n=n: take_over_at(stream, n)) != NO_MORE:
        n += every
    print(n)  # noqa: T201 - for the test that started it


def in_a_process(work):
    """Run in a fork, which has loaded everything; return its exit status, and end if something was wrong."""
    child = os.fork()
    if child == 0:
        status = WRONG
        try:
            status = work() or 0
        except BaseException:  # noqa: BLE001 - told, and the process ends
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, NO_MORE):
        sys.exit("an interleaving went wrong, see above")
    return status


def prepare(stream):
    """Keep what a clean run delivers, and the state in which every case begins: one batch was run."""
    stream.run(stream.started())
    shutil.move(stream.out, stream.folder / "clean")
    stream.clear()
    stream.run(stream.started(), 0)
    for name in ("K", "out"):
        shutil.move(stream.folder / name, stream.folder / f"first-{name}")


def take_over_at(stream, n):
    """Let a newer driver go on by two batches before the n-th file operation of the older one's start and batch."""
    stream.clear()
    for name in ("K", "out"):
        shutil.copytree(stream.folder / f"first-{name}", stream.folder / name)
    older, newer = stream.driver(), []

    def take_over(event):
        newer.append(stream.started())
        stream.run(newer[0], 1 + len(event) % 2)

    is_left = at_operation(n, str(stream.folder), take_over)
    complaint = None
    try:
        older.resume()
        stream.run(older, max(1, older.state.manifest.batch))
    except StoreConflict as error:
        complaint = str(error)
    assert complaint is None or f"taken over by {newer[0].manifests.epoch}" in complaint, complaint
    if is_left():
        return NO_MORE
    # Before its own fence the older one was only about to start, and goes on after the newer.
    stream.run(max(older, newer[0], key=lambda driver: driver.store.epoch))
    is_clean(stream)
    restarted = stream.started()
    restarted.manifests.verify(restarted.state.manifest)
    is_clean(stream)
    return 0


def at_operation(n, root, act):
    """Have `act` called before the n-th operation on a file of the state or the output.

    Return how to ask whether there were fewer.
    """
    roots = tuple(f"{root}/{name}" for name in ("K", "out"))
    counted = [0]

    def count(event, arguments):
        if not arguments or not isinstance(arguments[0], (str, Path)):
            return
        if str(arguments[0]).startswith(roots):
            counted[0] += 1
            if counted[0] == n + 1:
                act(event)

    sys.addaudithook(count)
    return lambda: counted[0] <= n


def is_clean(stream):
    found = stream.delivered()
    stream.out, out = stream.folder / "clean", stream.out
    clean = stream.delivered()
    stream.out = out
    assert sorted(found) == sorted(clean), (sorted(found), sorted(clean))
    assert [name for name in found if found[name] != clean[name]] == []


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
