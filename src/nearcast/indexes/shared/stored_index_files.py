"""The table of subscriptions of a `StoredIndex` in files, and back; polygons as WKB in hexadecimal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast._saved import save_array
from nearcast.columns import ScoreParameters, Subscriptions
from nearcast.errors import IncompatibleStore
from nearcast.geo import Regions
from nearcast.indexes.shared.saved_checks import check_codes, check_kinds, check_regions, check_scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.saved_files.arrays import SavedArrays

#: Columns by name: the type of each and the length of its rows.
_REGION_TYPES: dict[str, tuple[Any, ...]] = {
    "kind": (np.uint8,),
    "part_start": (np.int64,),
    "part": (np.float64, 4),
    "shape": (np.int32,),
    "circle": (np.float64, 3),
}
_SCORING_TYPES: dict[str, tuple[Any, ...]] = {
    "text_weight": (np.float64,),
    "threshold": (np.float64,),
    "max_distance": (np.float64,),
    "similarity": (np.uint8,),
    "k": (np.int32,),
}
REGION_COLUMNS, SCORING_COLUMNS = tuple(_REGION_TYPES), tuple(_SCORING_TYPES)


def save_table(held: Subscriptions, columns: dict[str, NDArray[Any]], folder: Path) -> None:
    """Write the columns of subscriptions, and their polygons."""
    import shapely

    for name, column in columns.items():
        save_array(folder / f"{name}.npy", column)
    wkb = np.array([shapely.to_wkb(shape, hex=True) for shape in held.regions.geometry], dtype=np.str_)
    save_array(folder / "geometry.npy", wkb)


def open_table(
    arrays: SavedArrays, space: Space, kinds: tuple[str, ...], n_terms: int, *, is_scored: bool
) -> Subscriptions:
    """Map the columns that `save_table` wrote; `IncompatibleStore` names the file that could not have been inserted."""
    regions = Regions(
        **{name: arrays.mapped(name, *kind) for name, kind in _REGION_TYPES.items()}, geometry=_open_polygons(arrays)
    )
    scoring = None
    if is_scored:
        scoring = ScoreParameters(*(arrays.mapped(name, *kind) for name, kind in _SCORING_TYPES.items()))
    clause_start, code_start = arrays.mapped("clause_start", np.int64), arrays.mapped("code_start", np.int64)
    code, kind = arrays.mapped("code", np.int32), arrays.mapped("subscription_kind", np.uint8)
    arrays.length("kind", regions.kind, len(kind))
    check_regions(arrays, regions, space)
    arrays.check("code_start", len(code_start), "it is empty")
    arrays.starts("clause_start", clause_start, len(kind), len(code_start) - 1)
    arrays.starts("code_start", code_start, len(code_start) - 1, len(code))
    check_codes(arrays, code_start, code, n_terms)
    check_kinds(arrays, kind, kinds, is_scored=is_scored)
    held = Subscriptions.of(
        clause_start, code_start, code, regions, ids=pa.nulls(len(kind)), kind=kind, scoring=scoring
    )
    if is_scored:
        check_scored(arrays, held)
    return held


def check_slots(arrays: SavedArrays, row_of: NDArray[np.int64], slot_of: NDArray[np.int32], n_rows: int) -> None:
    """Check that slots and rows name each other, and nothing that is not there."""
    arrays.length("slot_of", slot_of, n_rows)
    arrays.numbers("row_of", row_of, n_rows, least=-1)
    arrays.numbers("slot_of", slot_of, len(row_of), least=-1)
    live_slots, live_rows = np.flatnonzero(row_of >= 0), np.flatnonzero(slot_of >= 0)
    agree = (slot_of[row_of[live_slots]] == live_slots).all() and (row_of[slot_of[live_rows]] == live_rows).all()
    arrays.check("row_of", agree, "it does not agree with slot_of.npy")


def _open_polygons(arrays: SavedArrays) -> NDArray[np.object_]:
    import shapely

    path = arrays.path("geometry")
    try:
        texts = np.load(path, allow_pickle=False)
        geometry = np.empty(len(texts), object)
        geometry[:] = [shapely.from_wkb(text) for text in texts.astype(np.str_)]
    except FileNotFoundError:
        raise IncompatibleStore(f"{path} is missing; bring it back from a copy, or save again") from None
    except Exception as error:  # noqa: BLE001 - NumPy and GEOS have many ways to refuse what is damaged
        raise arrays.damaged("geometry", f"its polygons cannot be read ({error})") from None
    arrays.check("geometry", all(shape is not None for shape in geometry), "a polygon is missing")
    return geometry
