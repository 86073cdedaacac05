"""The state of an engine in a folder of plain files, and back: subscriptions, words, window, buffers, thresholds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nearcast._ids import IdTable
from nearcast._saved import Writes, mapped, new_folder, save_array, save_text, write_all, writing_later
from nearcast.engine import State
from nearcast.engine.lifetime import Lifetime
from nearcast.engine.movers import Movers
from nearcast.errors import IncompatibleStore, UnknownSubscription
from nearcast.indexes import open_index
from nearcast.live.registry import open_live_store
from nearcast.request_texts import RequestTexts
from nearcast.saved_files.contents import damaged, read_signed, signed
from nearcast.saved_files.folder import HeadForm, open_folder, save_folder
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.words import WordTable
from nearcast.window import Window

#: Format 1 had its files beside the head, without checksums, and words by other rules.
_HUB = HeadForm(
    "hub.json", 2, 1, ("index", "words", "vocabulary", "ids", "topk", r"expires\.npy", r"slot_[a-z_]+\.npy")
)
_STATE = "state.json"


# A hub: durable, and replaced in one step


def save_state(folder: str | Path, take: Callable[[Path], tuple[dict[str, Any], Writes]]) -> None:
    """Write a state into a new or empty folder, or in one step in place of an older one; durable when it returns.

    `take` is called with a folder, takes the state (`take_state`) under whatever lock that needs, and returns what the
    head says, and what to write: that is done when it has let go of the lock.
    """

    def write(data: Path) -> dict[str, Any]:
        about, writes = take(data)
        write_all(writes)
        return about

    save_folder(folder, _HUB, write)


def take_state(state: State, folder: Path, **more: Any) -> tuple[dict[str, Any], Writes]:
    """Take a state as it is now: what changes is copied, all else held on to; nothing is written but small files."""
    with writing_later() as writes:
        return write_state(state, folder) | more, writes


def open_state(folder: str | Path, *, verify: bool | None = None) -> tuple[State, dict[str, Any]]:
    """Return the state saved in a folder, and all that was noted with it; `verify` as `Hub.open` takes it."""
    return open_folder(folder, _HUB, lambda data, about: (read_state(data, about), about), verify=verify)


# A state in plain files


def save_files(state: State, folder: str | Path) -> None:
    """Write a state into a new folder, for whoever puts that in place and makes it durable; `open_files` reads it."""
    folder = new_folder(folder)
    save_text(folder / _STATE, signed(write_state(state, folder)).decode())


def open_files(folder: str | Path) -> State:
    """Return the state that `save_files` wrote."""
    path = Path(folder) / _STATE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise IncompatibleStore(f"{folder} holds no saved state ({_STATE} is missing)") from None
    return read_state(Path(folder), read_signed(data, str(path)))


def write_state(state: State, folder: Path) -> dict[str, Any]:
    """Write the files of a state into a folder; return what `read_state` must know of them, as JSON holds it."""
    state.index.save(folder / "index")
    state.words.save(folder / "words")
    state.vocabulary.save(folder / "vocabulary")
    state.ids.save(folder / "ids")
    if len(state.texts):
        state.texts.save(folder / "texts")
    if len(state.movers):
        state.movers.save(folder / "movers")
    save_array(folder / "expires.npy", state.expires)
    for name, column in state.by_slot.items():
        save_array(folder / f"slot_{name}.npy", column)
    for name, table in state.names.items():
        table.save(folder / f"names_{name}")
    if state.topk is not None:
        from nearcast.topk.saved_keeper import save_keeper

        save_keeper(state.topk, folder / "topk")
    if state.live is not None:
        state.live.save(folder / "live")
    return {
        "now": state.now,
        "next_step": state.next_step,
        "published": state.published,
        "next_expiry": state.next_expiry,
        "n_weighed": state.n_weighed,
        "needs_totals": state.needs_totals,
        "window": None if state.window is None else [state.window.count, state.window.length],
        "lifetime": None if state.lifetime is None else [state.lifetime.length, state.live_store, state.tell_expiry],
        "topk_options": state.index.topk_options,
        "by_slot": {name: column.dtype.str for name, column in state.by_slot.items()},
        "names": sorted(state.names),
        "analyzer": state.analyzer.to_json(),
    }


def read_state(folder: Path, about: dict[str, Any]) -> State:
    """Return the state whose files lie in a folder, all that its kernels follow checked against its bounds."""
    index = open_index(folder / "index")
    index.topk_options = about["topk_options"]
    length, name, tell_expiry = about.get("lifetime") or (None, "", False)
    state = State(
        index,
        words=WordTable.open(folder / "words"),
        analyzer=_analyzer(folder, about["analyzer"]),
        vocabulary=Vocabulary.open(folder / "vocabulary"),
        ids=IdTable.open(folder / "ids"),
        texts=RequestTexts.open(folder / "texts"),
        movers=Movers.open(folder / "movers"),
        now=about["now"],
        next_step=about["next_step"],
        published=about["published"],
        expires=mapped(folder / "expires.npy", np.int64),
        next_expiry=about["next_expiry"],
        by_slot={name: mapped(folder / f"slot_{name}.npy", kind) for name, kind in dict(about["by_slot"]).items()},
        names={name: IdTable.open(folder / f"names_{name}") for name in about.get("names", ())},
        window=None if about["window"] is None else Window(*about["window"]),
        lifetime=Lifetime(length) if about.get("lifetime") else None,
        live_store=name,
        tell_expiry=tell_expiry,
    )
    _check_ids(state, folder)
    state.n_weighed, state.needs_totals = about["n_weighed"], about["needs_totals"]
    if state.topk is not None:
        from nearcast.topk.saved_keeper import open_keeper

        open_keeper(state.topk, folder / "topk", state.weights)
    if state.live is not None:
        state.live = open_live_store(name, folder / "live", index.space, state.words)
        state.live.use_index(index)
    return state


def _analyzer(folder: Path, saved: dict[str, Any]) -> Analyzer:
    try:
        return Analyzer.from_json(saved)
    except IncompatibleStore as error:
        raise IncompatibleStore(f"{folder}: {error}") from None


def _check_ids(state: State, folder: Path) -> None:
    """Check that the slots that have an id are those that hold a subscription."""
    slots = state.ids.in_use()
    try:
        getattr(state.index, "_alive", state.index.subscriptions)(slots)
        if len(slots) == len(state.index):
            return
    except (UnknownSubscription, ValueError):
        pass
    raise damaged(f"{folder}/ids/slot_of_key.npy", "its slots are not those of the index")
