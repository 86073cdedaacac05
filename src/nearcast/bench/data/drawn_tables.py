"""Drawn rows as tables in interchange columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.bench.data.places import Floats
from nearcast.bench.data.recipe import Recipe
from nearcast.bench.data.word_lists import Rows, WordColumn
from nearcast.tables.names import EARTH_PLACE, PLANE_PLACE


def message_table(
    lists: WordColumn, places: Floats, half: Floats | None, names: tuple[str, str], times: Rows | None = None
) -> pa.Table:
    """Return messages at points, or in rectangles that reach `half` to each side of them."""
    columns: dict[str, Any] = {"id": numbered("m", len(places)), "terms": lists.to_arrow()}
    if half is None:
        columns |= {name: places[:, axis].copy() for axis, name in enumerate(names)}
    else:
        is_earth = names[0] == "lon"
        corners = _corners(places, half, is_earth=is_earth)
        columns |= dict(zip(EARTH_PLACE if is_earth else PLANE_PLACE, corners, strict=True))
    table = pa.table(columns)
    return table if times is None else table.append_column("time", pa.array(times).cast(pa.timestamp("us", "UTC")))


def boolean_table(queries: pa.Array, places: Floats, half: Floats, names: tuple[str, str]) -> pa.Table:
    """Return boolean subscriptions with a rectangle each."""
    n, is_earth = len(places), names[0] == "lon"
    sides = ("west", "south", "east", "north") if is_earth else ("x_min", "y_min", "x_max", "y_max")
    corners = _corners(places, half, is_earth=is_earth)
    columns = {"id": numbered("s", n), "kind": _repeated("within", n), "query": queries}
    return pa.table(columns | dict(zip(sides, corners, strict=True)))


def scored_table(
    kind: str, rng: np.random.Generator, asked: WordColumn, places: Floats, names: tuple[str, str], recipe: Recipe
) -> pa.Table:
    """Return similar or top-k subscriptions, with what the recipe draws for them."""
    n = len(places)
    columns: dict[str, Any] = {"id": numbered("s", n), "kind": _repeated(kind, n)}
    columns["query"] = pc.binary_join(asked.to_arrow(), " ")
    columns |= {names[0]: places[:, 0].copy(), names[1]: places[:, 1].copy()}
    columns["text_weight"] = rng.uniform(*recipe.text_weight, n)
    if kind == "topk":
        return pa.table(columns | {"k": np.full(n, recipe.k, np.int32)})
    columns["threshold"] = rng.uniform(*recipe.threshold, n)
    if recipe.similarity is not None:
        columns["similarity"] = _repeated(recipe.similarity, n)
    return pa.table(columns)


def _corners(places: Floats, half: Floats, *, is_earth: bool) -> tuple[Floats, Floats, Floats, Floats]:
    """Return x_min, y_min, x_max and y_max; on the earth what would reach beyond the dateline or a pole is cut off."""
    low, high = places - half, places + half
    if is_earth:
        low, high = np.maximum(low, (-180, -90)), np.minimum(high, (180, 90))
    return low[:, 0].copy(), low[:, 1].copy(), high[:, 0].copy(), high[:, 1].copy()


def numbered(prefix: str, n: int) -> pa.Array:
    """Return `n` ids: the prefix and a number from 0 on."""
    return pc.binary_join_element_wise(prefix, pa.array(np.arange(n)).cast(pa.string()), "")


def _repeated(word: str, n: int) -> pa.Array:
    return pa.array([word]).take(pa.array(np.zeros(n, np.int64)))
