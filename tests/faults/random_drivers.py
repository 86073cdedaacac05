"""Drivers of one stream that are started beside each other, paused, killed with -9 and given a flaky disk, at random.

python -m faults.random_drivers FOLDER SECONDS [SEED] runs streams for so long; for no time it runs one short one.
Readers take parts away as they appear. When the faults end, one more driver goes on to the end: what was read must be
the output of a clean run, every part once.
"""

import errno
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

from faults.small_stream import SmallStream
from nearcast.errors import NearcastError
from nearcast.pipeline.driver.background_snapshots import BackgroundSnapshots
from support.waiting import wait_until

_ERRORS = (errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EAGAIN)


def main(folder, seconds, seed):
    end = time.monotonic() + seconds
    while True:
        Round(folder / str(seed), seed, is_short=not seconds).run()
        seed += 1
        if time.monotonic() >= end:
            return


class Round:
    """One stream, whose drivers come to grief until enough of them have."""

    def __init__(self, folder, seed, *, is_short):
        self.random, self.seed, self.folder = random.Random(seed), seed, folder
        self.stream = SmallStream(
            folder,
            seed=seed,
            plan=self.random.choice(["trigger", "prefix", "hash", "keyword-first"]),
            partitions=self.random.choice([1, 2, 3]),
            batches=6 if is_short else 12,
            window=self.random.choice([9, "5s", None]) if seed % 3 else 9,
            messages=5,
            changes=2,
            lifetime=None if seed % 2 else "5s",
        )
        self.most_faults = 8 if is_short else 16
        #: The parts that were read, and for each driver that runs whether it is paused.
        self.read, self.drivers = {}, {}
        self.kills = self.pauses = self.taken_over = self.failed = 0

    def run(self):
        clean = self.clean()
        try:
            for _ in range(self.random.randint(self.most_faults // 2, self.most_faults)):
                self.disturb()
        finally:
            for pid in [*self.drivers]:
                self.kill(pid)
        last = self.start(is_flaky=False)
        wait_until(lambda: self.ended(last))
        self.take_away()
        assert self.driver_said(last) is None, self.driver_said(last)
        assert sorted(self.read) == sorted(clean), f"seed {self.seed}: {sorted(self.read)}, not {sorted(clean)}"
        wrong = [name for name in clean if clean[name] != self.read[name]]
        assert not wrong, f"seed {self.seed}: other bytes in {wrong}"
        print(  # noqa: T201 - for whoever watches
            f"seed {self.seed}: {self.kills} killed, {self.pauses} paused, {self.taken_over} taken over,"
            f" {self.failed} by the disk",
            flush=True,
        )
        shutil.rmtree(self.folder)

    def clean(self):
        """Return what a driver delivers that nobody disturbs."""
        pid = self.start(is_flaky=False)
        wait_until(lambda: self.ended(pid))
        assert self.driver_said(pid) is None, self.driver_said(pid)
        found = self.stream.delivered()
        self.stream.clear()
        return found

    # What happens to drivers

    def disturb(self):
        """Have at least one driver run for a moment, then let something happen to one of them."""
        while not self.is_running() or (len(self.drivers) < 3 and self.random.random() < 0.5):
            self.start(is_flaky=self.random.random() < 0.4)
        for _ in range(self.random.choice([0, 1, 1, 2])):
            self.wait_for_progress()
        time.sleep(self.random.choice([0.0, self.random.uniform(0, 0.3)]))
        self.take_away()
        if self.drivers:
            pid = self.random.choice([*self.drivers])
            if self.random.random() < 0.3:
                self.kill(pid)
            else:
                self.pause_or_wake(pid)

    def pause_or_wake(self, pid):
        """Pause a driver, or let it go on if it was paused."""
        is_paused = self.drivers[pid]
        self.pauses += not is_paused
        os.kill(pid, signal.SIGCONT if is_paused else signal.SIGSTOP)
        self.drivers[pid] = not is_paused

    def wait_for_progress(self):
        """Wait until the log of manifests has gone on, or nobody is left to do that."""
        before = self.log()
        wait_until(lambda: self.log() != before or not self.is_running())

    def log(self):
        folder = self.stream.checkpoint / "manifests"
        return sorted(path.name for path in folder.glob("*.json")) if folder.exists() else []

    def is_running(self):
        """Tell whether a driver runs that is not paused."""
        return any([not self.ended(pid) for pid, is_paused in [*self.drivers.items()] if not is_paused])  # noqa: C419

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        self.kills += 1
        wait_until(lambda: self.ended(pid))

    def take_away(self):
        """Take parts away, as a reader does; none may come twice."""
        for path in self.stream.out.rglob("part-*"):
            if "_staging" not in path.parts:
                name = path.relative_to(self.stream.out).as_posix()
                assert name not in self.read, f"seed {self.seed}: {name} came twice"
                self.read[name] = path.read_bytes()
                path.unlink()

    def start(self, *, is_flaky):
        """Start a driver in a fork, which has loaded everything; return its process id."""
        chance = self.random.random()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                drive(self.stream, self.folder / f"said-{os.getpid()}", chance, is_flaky=is_flaky)
                status = 0
            finally:
                os._exit(status)
        self.drivers[pid] = False
        return pid

    def ended(self, pid):
        """Tell whether a driver has ended, and look what it said: that another was faster, or that the disk failed."""
        found, _ = os.waitpid(pid, os.WNOHANG)
        if not found:
            return False
        del self.drivers[pid]
        said = self.driver_said(pid)
        if said is not None:
            is_taken = "was taken over by process" in said["says"] or "holds a stream already" in said["says"]
            assert is_taken or said["is_flaky"], f"seed {self.seed}: {said['trace']}"
            self.taken_over += is_taken
            self.failed += not is_taken
        return True

    def driver_said(self, pid):
        path = self.folder / f"said-{pid}"
        return json.loads(path.read_text()) if path.exists() else None


# --- in the process of a driver ---------------------------------------------------------------------------------


def drive(stream, said, chance, *, is_flaky):
    """Run a stream to its end; what ends it before is noted."""
    rng = random.Random(chance)
    if is_flaky:
        make_flaky(stream, rng)
    try:
        driver = stream.started()
        snapshots = BackgroundSnapshots(driver, rng.choice([1, 2, 3]))
        for batch in range(driver.state.manifest.batch + 1, len(stream.given)):
            snapshots.take()
            report = driver.run(batch, stream.given[batch])
            if rng.random() < 0.4:
                snapshots.begin_if_due(report)
        snapshots.join()
    except BaseException as error:
        about = {
            "kind": type(error).__name__,
            "says": str(error),
            "trace": traceback.format_exc(),
            "is_flaky": is_flaky,
        }
        draft = said.with_suffix(".draft")
        draft.write_text(json.dumps(about))
        draft.replace(said)
        if not isinstance(error, (NearcastError, OSError)):
            raise


def make_flaky(stream, rng):
    """Let one of many operations on files of input, state and output fail, by what the interpreter tells of them."""
    roots = (str(stream.checkpoint), str(stream.out), str(stream.folder / "inbox"))

    def fail_sometimes(_, arguments):
        is_file = bool(arguments) and isinstance(arguments[0], (str, Path))
        if is_file and str(arguments[0]).startswith(roots) and rng.random() < 0.002:
            number = rng.choice(_ERRORS)
            raise OSError(number, os.strerror(number), str(arguments[0]))

    sys.addaudithook(fail_sometimes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
