"""Names of columns: renaming them, and the space, earth or plane, that they tell."""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidColumns, Remedy
from nearcast.geo.space import Space
from nearcast.tables.cells import plain
from nearcast.tables.names import EARTH_NAMES, PLANE_NAMES


def rename(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Return the table with the column `names[new]` used as `new`, for each; all at once, so that two may swap names.

    Raises `InvalidColumns` for a column that is not there, and where a name would be given twice.
    """
    there = [name for name in table.column_names if not name.startswith("nearcast.")]
    for new, old in names.items():
        if old not in there:
            raise InvalidColumns(
                f"there is no column {old} to use as {new}; there are: {', '.join(there) or 'none'}", field=old
            )
    new_names: dict[str, list[str]] = {}
    for new, old in names.items():
        new_names.setdefault(old, []).append(new)
    fields: list[pa.Field] = []
    columns: list[pa.ChunkedArray] = []
    for field, column in zip(table.schema, table.columns, strict=True):
        for name in new_names.get(field.name, [field.name]):
            if any(name == other.name for other in fields):
                raise InvalidColumns(
                    f"two columns would be called {name}; rename one of them", field=name, remedy=Remedy.RENAME_COLUMN
                )
            fields.append(field.with_name(name))
            columns.append(column)
    return pa.table(columns, pa.schema(fields, table.schema.metadata)) if fields else table


def rename_known(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Do what `rename` does with the columns that are there; the others are those of another table."""
    known = {new: old for new, old in names.items() if old in table.column_names}
    return rename(table, known) if known else table


def first_topk(subscriptions: pa.Table) -> int | None:
    """Return the first row of kind `topk` of a table of subscriptions, if there is one."""
    if "kind" not in subscriptions.column_names or pa.types.is_null(subscriptions.schema.field("kind").type):
        return None
    first: int = pc.index(plain(subscriptions.column("kind")).cast(pa.string()), "topk").as_py()
    return first if first >= 0 else None


def space_of(columns: Iterable[str], given: str | None = None) -> Space:
    """Return the space that the names of columns tell: `lon`, `west`… the earth, `x`, `x_min`… a plane.

    `given` ("earth" or "plane") decides where they tell nothing, and must not contradict them. Raises
    `InvalidColumns` where they tell both or nothing.
    """
    names = list(columns)
    earth, plane = [name for name in names if name in EARTH_NAMES], [name for name in names if name in PLANE_NAMES]
    if given is not None and given not in ("earth", "plane"):
        raise InvalidColumns(f"space is {given!r}; expected earth or plane", field="space")
    if earth and plane:
        raise InvalidColumns(
            f"column {earth[0]} tells the earth and column {plane[0]} a plane; rename one",
            field=plane[0],
            remedy=Remedy.RENAME_COLUMN,
        )
    if not (earth or plane or given):
        there = ", ".join(name for name in names if not name.startswith("nearcast.")) or "none"
        raise InvalidColumns(
            f"the columns do not tell the space ({there}); give the space, earth or plane", remedy=Remedy.GIVE_SPACE
        )
    told = "earth" if earth else "plane" if plane else given
    if given is not None and given != told:
        raise InvalidColumns(f"column {(earth or plane)[0]} tells the {told}, but the space is given as {given}")
    return Space.earth() if told == "earth" else Space.plane()
