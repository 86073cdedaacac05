"""The thread that keeps an outbox in order: it writes files, merges them and drops what is past the retention."""

from __future__ import annotations

import logging
import threading

from nearcast.durable.outbox.outbox import Outbox

_logger = logging.getLogger(__name__)
#: So many files may wait in memory to be written; then whoever adds waits.
_MOST_WAITING = 4.0


class OutboxTidier:
    """Tidies an outbox beside the thread that adds to it."""

    def __init__(self, outbox: Outbox):
        self._outbox = outbox
        self._now = 0
        self._wanted, self._is_closed = threading.Event(), False
        self._thread: threading.Thread | None = None

    def look(self, now: int) -> None:
        """Have the outbox tidied if it needs to be, at this event time; wait only where memory would fill up."""
        if not self._outbox.is_untidy(now):
            return
        self._now = now
        if self._outbox.fullness() >= _MOST_WAITING:
            self._tidy()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="nearcast-outbox", daemon=True)
            self._thread.start()
        self._wanted.set()

    def _work(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._is_closed:
                return
            self._tidy()

    def _tidy(self) -> None:
        try:
            self._outbox.tidy(self._now)
        except OSError as error:  # a full disk: all stays where it is, and the next call tries again
            self._outbox.write_error = str(error)
        except Exception as error:  # nothing is lost: it is in memory, and in the log
            self._outbox.write_error = f"{type(error).__name__}: {error}"
            _logger.exception("the outbox could not be tidied")

    def close(self) -> None:
        """End the thread, when it has done what it is doing."""
        self._is_closed = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
