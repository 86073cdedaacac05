"""Tearing calls of a hub: an exception at a chosen line of our code, and what can be seen of a hub afterwards."""

import functools
import linecache
import sys
from pathlib import Path

import numpy as np

import nearcast

SOURCES = str(Path(nearcast.__file__).parent)
_INDEXES = str(Path(SOURCES) / "indexes")


class Torn(BaseException):
    """Raised by nobody else."""


class Tracer:
    """Raises `Torn` at event number `at` in our own code, and once more `again` events later; counts events.

    An event is a line, with `opcodes` an instruction. Kernels cannot be interrupted, and calls of an index are its own.
    """

    def __init__(self, at=0, again=0, *, opcodes=False):
        self._at = {at, at + again} if at else set()
        self._event = "opcode" if opcodes else "line"
        self.n_events = 0
        self.places = []

    def run(self, call):
        """Return whether the call came to its end, and what it returned."""
        before = sys.gettrace()
        sys.settrace(self._begun)
        try:
            return True, call()
        except Torn:
            return False, None
        finally:
            sys.settrace(before)

    def _begun(self, frame, event, argument):
        if not _is_ours(frame):
            return None
        frame.f_trace_opcodes = self._event == "opcode"
        return self._inside

    def _inside(self, frame, event, argument):
        if event == self._event:
            self.n_events += 1
            if self.n_events in self._at:
                self.places.append(f"{frame.f_code.co_filename[len(SOURCES) :]}:{frame.f_lineno}")
                raise Torn(self.places[-1])
        return self._inside


def _is_ours(frame):
    if not _is_interruptible(frame.f_code):
        return False
    while frame is not None:
        if frame.f_code.co_filename.startswith(_INDEXES):
            return False
        frame = frame.f_back
    return True


@functools.cache
def _is_interruptible(code):
    """Tell whether code is ours and not a kernel, which is one step when compiled."""
    if not code.co_filename.startswith(SOURCES):
        return False
    decorator = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return decorator not in ("@kernel", "@hot_kernel", "@inlined")


def look(hub, ids):
    """Return what can be seen of a hub without changing it, what waits to be delivered apart."""
    stats, state = hub.stats(), hub._state
    current = {}
    for id_ in filter(hub.__contains__, ids):
        if state.live is not None or (state.topk is not None and state.topk.holds(state.slot(id_))):
            current[id_] = [(d.message_id, d.score, d.rank, d.time) for d in hub.current(id_)]
    slots = {id_: state.slot(id_) for id_ in ids if id_ in hub}
    held = state.index.subscriptions(np.array(list(slots.values()), np.int32))
    return {
        "ids": sorted(slots, key=slots.__getitem__),
        "counts": (len(hub), len(state.ids), stats["published"], stats["now"], state.next_step),
        "id_kinds": state.ids.kinds,
        "version": stats["vocabulary_version"],
        "current": current,
        "kinds": dict(zip(slots, held.kind.tolist(), strict=True)),
        "places": dict(zip(slots, held.regions.part[held.regions.part_start[:-1]].tolist(), strict=True)),
        "n_codes": held.code.tolist(),
        "messages": stats.get("topk", {}).get("messages"),
        "live": stats.get("live", {}).get("messages"),
        "reports": {id_: state.movers.of(np.array([slot])).tobytes() for id_, slot in slots.items()},
        "expiry": {id_: int(state.expires[s]) for id_, s in slots.items() if s < len(state.expires)},
    }


def rows(deliveries):
    """Return deliveries with all their columns."""
    return deliveries.to_table().to_pylist() if len(deliveries) else []
