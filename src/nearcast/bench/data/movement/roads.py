"""Road networks as flat arrays, read from data files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.errors import InvalidColumns, InvalidInput
from nearcast.geo import Space

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from nearcast.bench.data.places import Floats
    from nearcast.geo.space import Bounds

_NODES, _EDGES = "_nodes.parquet", "_edges.parquet"


class RoadNet(NamedTuple):
    """A connected road network without directions: edge e joins the nodes `a[e]` and `b[e]`, which differ.

    `nodes` are places; `length` is in metres on the earth, in units of the plane else.
    """

    name: str
    space: Space
    nodes: Floats
    a: NDArray[np.int32]
    b: NDArray[np.int32]
    length: Floats

    @property
    def bounds(self) -> Bounds:
        """The box around all nodes."""
        (x_min, y_min), (x_max, y_max) = self.nodes.min(axis=0), self.nodes.max(axis=0)
        return float(x_min), float(y_min), float(x_max), float(y_max)


def names_of_roads(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the networks in the files road_*_nodes.parquet of some folders: name → file of nodes."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob(f"road_*{_NODES}")):
            for name in pc.unique(pq.read_table(path, columns=["net"])["net"]).to_pylist():
                found.setdefault(name, path)
    return found


def read_roads(name: str, folders: Sequence[Path]) -> RoadNet:
    """Return the largest connected part of a network in data files; a wrong name is answered with all names.

    The files are road_*_nodes.parquet (net, node, and x, y or lon, lat) and road_*_edges.parquet (net, a, b, and
    length or length_m).
    """
    import pyarrow.parquet as pq

    known = names_of_roads(folders)
    if name not in known:
        there = ", ".join(known) or f"none in {' or '.join(map(str, folders))}"
        raise InvalidInput(f"there are no roads {name!r}; there are: {there}", field="roads")
    nodes_path = known[name]
    edges_path = nodes_path.with_name(nodes_path.name.removesuffix(_NODES) + _EDGES)
    nodes, edges = (pq.read_table(path, filters=[("net", "=", name)]) for path in (nodes_path, edges_path))
    is_earth = "lon" in nodes.column_names
    names = ("lon", "lat") if is_earth else ("x", "y")
    _need(nodes, nodes_path, "node", *names)
    _need(edges, edges_path, "a", "b", "length_m" if is_earth else "length")
    length = edges["length_m" if is_earth else "length"].to_numpy().astype(np.float64)
    number = nodes["node"].to_numpy()
    if not len(number):
        raise InvalidColumns(f"{nodes_path} has no nodes of {name!r}")
    row_of = np.full(int(number.max()) + 1, -1, np.int32)
    row_of[number] = np.arange(len(number))
    a, b = (row_of[edges[end].to_numpy()] for end in ("a", "b"))
    places = np.column_stack([nodes[each].to_numpy().astype(np.float64) for each in names])
    return connected(name, Space.earth() if is_earth else Space.plane(), places, (a, b), length)


def connected(
    name: str, space: Space, nodes: Floats, ends: tuple[NDArray[np.int32], NDArray[np.int32]], length: Floats
) -> RoadNet:
    """Return the largest connected part of a network, without roads from a node to itself."""
    a, b = ends
    real = (a != b) & (a >= 0) & (b >= 0) & np.isfinite(length)
    a, b, length = a[real], b[real], length[real]
    part = _parts(len(nodes), a, b)
    kept = part == np.bincount(part).argmax()
    if kept.sum() < 2:
        raise InvalidInput(f"the roads {name!r} join no two nodes", field="roads")
    row_of = np.cumsum(kept, dtype=np.int32) - 1
    inside = kept[a]
    return RoadNet(name, space, nodes[kept], row_of[a[inside]], row_of[b[inside]], np.maximum(length[inside], 0.0))


def _parts(n: int, a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return by node the smallest node of its connected part."""
    part = np.arange(n, dtype=np.int32)
    while True:
        lowest = part.copy()
        np.minimum.at(lowest, part[a], part[b])
        np.minimum.at(lowest, part[b], part[a])
        lowest = np.minimum(lowest, lowest[lowest])[part]  # a part joins the one its root has joined
        if np.array_equal(lowest, part):
            return part
        part = lowest


def _need(table: pa.Table, path: Path, *names: str) -> None:
    lacking = [name for name in names if name not in table.column_names]
    if lacking:
        raise InvalidColumns(f"{path} has the columns {', '.join(table.column_names)}; {', '.join(lacking)} is lacking")
