"""A program: do all an index does, then print how often each kernel was compiled, as JSON.

Fresh, changed, merged, opened from disk, with threads, on earth and plane, with every mix of kinds an index matches,
messages with and without totals, in arrays of our own and in read-only ones, as Arrow lends them.
"""

import json
import pkgutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from numba import types

import nearcast
from contract.conftest import SPECS_BY_KINDS, is_ours, kinds_of
from contract.worlds import EARTH, LARGER_CELLS, PLANE, world
from nearcast import _jit
from nearcast.indexes import create, open_index
from nearcast.model import Similar, TopK
from nearcast.testing import IndexActor
from nearcast.testing.values import point_box


def work(spec, space, kinds, folder):
    wanted, said = world(1, space, 80, 150, kinds)
    index = IndexActor(create(spec, space))
    index.match(said)
    work_without_totals(spec, space, wanted, said)
    index.insert(wanted)
    index.match(said)  # what comes later is added to what was built for it
    index.insert(wanted[:3])
    index.remove([1, 2])
    index.replace([3], wanted[:1])
    index.move([4], [point_box(1, 1)])
    if "topk" in kinds:
        index.set_thresholds(*thresholds(wanted))
    index.reweigh({"w1": 2.5, "w3": 0.0})
    index.settle()
    messages = index.messages(said)
    index.index.match(messages)
    index.index.match(messages.take(np.arange(10)))
    index.index.match(index.messages(said * 20), threads=2)
    index.index.save(folder)
    again = replace(index, index=open_index(folder))
    again.match(said)
    if "topk" in kinds:
        again.set_thresholds(*thresholds(wanted))
    again.insert(wanted)
    again.move([4], [point_box(1, 1)])
    again.remove([5])
    again.reweigh({})
    again.settle()
    again.match(said[:3])
    lend(messages)
    again.index.match(messages)


def thresholds(wanted):
    """Return some slots of kind topk that stay as they are in `work`, and thresholds for them."""
    slots = [slot for slot, each in enumerate(wanted) if slot > 4 and isinstance(each, TopK)]
    return slots, [0.1 * (slot % 7) for slot in slots]


def work_without_totals(spec, space, wanted, said):
    """Match subscriptions that need none, fresh and merged."""
    counted = [each for each in wanted if not isinstance(each, TopK)]
    frugal = [replace(each, similarity="tsim") if isinstance(each, Similar) else each for each in counted]
    index = IndexActor(create(spec, space))
    index.insert(frugal)
    index.match(said)
    index.settle()
    index.match(said)
    assert index.messages(said).totals is None


def lend(messages):
    for array in (messages.term_start, messages.terms, messages.box, messages.totals):
        if array is not None:
            array.flags.writeable = False


def takes_arrays(signature):
    """Tell whether arrays come in: alone or in a NamedTuple. Helpers of numbers take what their callers give them."""
    return any(isinstance(kind, types.Array | types.NamedTuple) for kind in signature)


def compiled():
    """Return the number of compilations of every kernel called from Python; inlined steps are part of their callers."""
    counts = {}
    for module in pkgutil.walk_packages(nearcast.__path__, "nearcast."):
        for name, value in vars(sys.modules.get(module.name, object)).items():
            if (
                not isinstance(value, _jit._Kernel)
                or isinstance(value, _jit._InlinedKernel)
                or "_called" not in vars(value)
            ):
                continue
            signatures = value.signatures
            if not signatures or value.py_func.__module__ != module.name:
                continue
            if takes_arrays(signatures[0]):
                counts[f"{module.name}.{name}"] = len(signatures)
    return counts


if __name__ == "__main__":
    # The options of an index are numbers in its arrays: a paper's last variant stands for the others, with all the
    # kinds that it matches.
    last_of = {spec.partition(":")[0]: spec for specs in SPECS_BY_KINDS.values() for spec in specs}
    tasks = [
        (kinds, spec)
        for kinds, specs in SPECS_BY_KINDS.items()
        for spec in specs
        if (is_ours(spec) and spec != LARGER_CELLS) or (spec in last_of.values() and kinds == kinds_of(spec))
    ]
    for number, (kinds, spec) in enumerate(tasks):
        for space in (EARTH, PLANE):
            work(spec, space, kinds, Path(sys.argv[1]) / f"{number}-{space.kind}")
    sys.stdout.write(json.dumps(compiled()))
