"""The state of an engine in a folder of plain files, and back: subscriptions, words, window, buffers, thresholds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nearcast._ids import IdTable
from nearcast._request_texts import RequestTexts
from nearcast._saved import mapped, new_folder, replace_file, save_array
from nearcast.engine import State
from nearcast.errors import IncompatibleStore
from nearcast.indexes import open_index
from nearcast.sliding import Window
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.words import WordTable
from nearcast.topk.saved import open_keeper, save_keeper

_FORMAT = 1
_MANIFEST = "hub.json"


def save_state(state: State, folder: str | Path, **more: Any) -> None:
    """Write a state into a new or empty folder; the file that makes it one is written last."""
    folder = new_folder(folder)
    state.index.save(folder / "index")
    state.words.save(folder / "words")
    state.vocabulary.save(folder / "vocabulary")
    state.ids.save(folder / "ids")
    if len(state.texts):
        state.texts.save(folder / "texts")
    save_array(folder / "expires.npy", state.expires)
    for name, column in state.by_slot.items():
        save_array(folder / f"slot_{name}.npy", column)
    if state.topk is not None:
        save_keeper(state.topk, folder / "topk")
    words = state.analyzer.stop_words
    analyzer = {
        "language": state.analyzer.language,
        "stem": state.analyzer.stem,
        "stop_words": words if isinstance(words, bool) else sorted(words),
        "segmenter": state.analyzer.segmenter,
    }
    about = {
        "format": _FORMAT,
        "now": state.now,
        "next_step": state.next_step,
        "published": state.published,
        "next_expiry": state.next_expiry,
        "n_weighed": state.n_weighed,
        "needs_totals": state.needs_totals,
        "window": None if state.window is None else [state.window.count, state.window.length],
        "topk_options": state.index.topk_options,
        "by_slot": list(state.by_slot),
        "analyzer": analyzer,
        **more,
    }
    replace_file(folder / _MANIFEST, lambda path: path.write_text(json.dumps(about)))


def open_state(folder: str | Path) -> tuple[State, dict[str, Any]]:
    """Return the state saved in a folder, and all that was noted with it."""
    folder = Path(folder)
    about = _read_manifest(folder)
    index = open_index(folder / "index")
    index.topk_options = about["topk_options"]
    analyzer = about["analyzer"]
    if not isinstance(analyzer["stop_words"], bool):
        analyzer["stop_words"] = frozenset(analyzer["stop_words"])
    state = State(
        index,
        words=WordTable.open(folder / "words"),
        analyzer=Analyzer(**analyzer),
        vocabulary=Vocabulary.open(folder / "vocabulary"),
        ids=IdTable.open(folder / "ids"),
        texts=RequestTexts.open(folder / "texts"),
        now=about["now"],
        next_step=about["next_step"],
        published=about["published"],
        expires=mapped(folder / "expires.npy"),
        next_expiry=about["next_expiry"],
        by_slot={name: mapped(folder / f"slot_{name}.npy") for name in about.get("by_slot", ())},
        window=None if about["window"] is None else Window(*about["window"]),
    )
    state.n_weighed, state.needs_totals = about["n_weighed"], about["needs_totals"]
    if state.topk is not None:
        open_keeper(state.topk, folder / "topk", state.weights)
    return state, about


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / _MANIFEST).read_text())
    except FileNotFoundError:
        raise IncompatibleStore(f"{folder} holds no saved hub ({_MANIFEST} is missing)") from None
    except ValueError:
        raise IncompatibleStore(f"{folder}/{_MANIFEST} is damaged: it is not JSON") from None
    found = about.get("format") if isinstance(about, dict) else None
    if found != _FORMAT:
        raise IncompatibleStore(f"{folder} has format {found!r}, this version reads {_FORMAT}; save it again")
    return dict(about)
