"""A program: do all an index does, then print how often each kernel was compiled, as JSON.

Fresh, changed, merged, opened from disk, with threads, on earth and plane; with the argument `borrowed` also
messages in read-only arrays, as Arrow lends them.
"""

import json
import pkgutil
import sys
from pathlib import Path

import numpy as np
from numba import types

import nearcast
from contract.conftest import SPECS
from contract.worlds import EARTH, PLANE, world
from nearcast.columns import Messages
from nearcast.indexes import create, open_index
from nearcast.testing import IndexActor


def work(spec, space, folder, borrowed):
    wanted, said = world(1, space, 80, 150)
    index = IndexActor(create(spec, space))
    index.match(said)
    index.insert(wanted)
    index.insert(wanted[:3])
    index.remove([1, 2])
    index.replace([3], wanted[:1])
    index.move([4], [wanted[0][1]])
    index.settle()
    messages = index.messages(said)
    index.index.match(messages)
    index.index.match(messages.take(np.arange(10)))
    index.index.match(index.messages(said * 20), threads=2)
    index.index.save(folder)
    again = IndexActor(open_index(folder), words=index.words)
    again.match(said)
    again.insert(wanted)
    again.move([4], [wanted[0][1]])
    again.remove([5])
    again.settle()
    again.match(said[:3])
    if borrowed:
        for array in (messages.term_start, messages.terms, messages.box):
            array.flags.writeable = False
        again.index.match(Messages.of(messages.term_start, messages.terms, messages.box))


def takes_arrays(signature):
    """Tell whether arrays come in: alone or in a NamedTuple. Helpers of numbers take what their callers give them."""
    return any(isinstance(kind, types.Array | types.NamedTuple) for kind in signature)


def compiled():
    """Return the number of compilations of every kernel called from Python; inlined steps are part of their callers."""
    counts = {}
    for module in pkgutil.walk_packages(nearcast.__path__, "nearcast."):
        for name, value in vars(sys.modules.get(module.name, object)).items():
            signatures = getattr(value, "signatures", [])
            if not signatures or value.py_func.__module__ != module.name or value.targetoptions.get("forceinline"):
                continue
            if takes_arrays(signatures[0]):
                counts[f"{module.name}.{name}"] = len(signatures)
    return counts


if __name__ == "__main__":
    target, *more = sys.argv[1:]
    for number, spec in enumerate(SPECS):
        for space in (EARTH, PLANE):
            work(spec, space, Path(target) / f"{number}-{space.kind}", "borrowed" in more)
    sys.stdout.write(json.dumps(compiled()))
