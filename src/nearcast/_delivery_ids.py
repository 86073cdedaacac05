"""Names of deliveries: one value, or a whole column formatted by a kernel into the buffers of an Arrow string array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import Id, IdSnapshot

_COLON, _PLUS, _MINUS, _ZERO = ord(":"), ord("+"), ord("-"), ord("0")


def delivery_id(step: int, message: int, change: str, subscription_id: Id) -> str:
    """Return the name of a delivery, the same at every run: step, message by arrival, change, subscription.

    A string id stands behind a colon, an integer does not: 1 and "1" are two subscriptions.
    """
    return f"{step}:{message}:{change}{':' if isinstance(subscription_id, str) else ''}{subscription_id}"


def delivery_ids(
    steps: NDArray[np.int64],
    messages: NDArray[np.int64],
    enters: NDArray[np.uint8],
    slots: NDArray[np.int32],
    ids: IdSnapshot,
) -> pa.Array:
    """Return the names of deliveries as a column of strings; where not `enters`, the change is a `-`."""
    keys = ids.key_of_slot[slots]
    offsets = np.zeros(len(keys) + 1, np.int64)
    _measure(steps, messages, keys, ids.start, ids.blob, offsets)
    content = np.empty(int(offsets[-1]), np.uint8)
    _write(steps, messages, enters, keys, ids.start, ids.blob, offsets, content)
    large = pa.LargeStringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(content))
    return large.cast(pa.string())


@kernel
def _digits(number):
    """Return how many digits a number has that is 0 or more."""
    n = 1
    while number >= 10:
        number //= 10
        n += 1
    return n


@kernel
def _is_integer(key, start, blob):
    """Tell whether a key is that of an integer id, which a zero byte begins."""
    return start[key + 1] > start[key] and blob[start[key]] == 0


@kernel
def _measure(steps, messages, keys, start, blob, offsets):
    """Write where each name ends: the mark of an integer is left out, and a string gets a colon."""
    for i in range(keys.size):
        key = keys[i]
        own = start[key + 1] - start[key] + (-1 if _is_integer(key, start, blob) else 1)
        offsets[i + 1] = offsets[i] + _digits(steps[i]) + _digits(messages[i]) + 3 + own


@kernel
def _write_number(number, content, at):
    """Write a number in decimal; return the place behind it and its colon."""
    end = at + _digits(number)
    for k in range(end - 1, at - 1, -1):
        content[k] = _ZERO + number % 10
        number //= 10
    content[end] = _COLON
    return end + 1


@kernel
def _write(steps, messages, enters, keys, start, blob, offsets, content):
    """Write the names `step:message:±id`, a string id behind one more colon."""
    for i in range(keys.size):
        at = _write_number(steps[i], content, offsets[i])
        at = _write_number(messages[i], content, at)
        content[at] = _PLUS if enters[i] else _MINUS
        first, last = start[keys[i]], start[keys[i] + 1]
        if _is_integer(keys[i], start, blob):
            first += 1
        else:
            at += 1
            content[at] = _COLON
        for k in range(last - first):
            content[at + 1 + k] = blob[first + k]
