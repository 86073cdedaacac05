"""Request texts: what each subscription was given as, a byte string by slot in one growing blob.

An index holds clauses over term ids, cut polygons and the distance that counts; a `RequestText` holds the rest, so that
both together give the value back. Most are a query in UTF-8 and nothing else. A first byte that no UTF-8 text begins
with tells the others apart.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast._saved import load_array, save_array
from nearcast.errors import IncompatibleStore
from nearcast.text.words import copy_spans

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nearcast.geo import Shape

#: First bytes: flags of a short form (`max_distance` is not given; terms follow the query), or JSON.
_SHORT, _NO_DISTANCE, _HAS_TERMS, _JSON = 0xF8, 1, 2, 0xFF
#: Stand before the terms, and between two of them.
TERMS_MARK, TERM_MARK = "\x1e", "\x1f"
#: A span is (first byte << 28) | length: 64 GiB of texts, each of up to 256 MiB.
_SIZE_BITS = 28
_SIZE_MASK = (1 << _SIZE_BITS) - 1
_NONE = -1
#: Bytes of dead texts that are tolerated beside as many as are alive.
_SPARE_BYTES = 1 << 20


class RequestText(NamedTuple):
    """The parts of a subscription that its columns do not hold: its query as written, and what was not given or cut.

    With `keeps_region` the region is the one here, None for anywhere; else that of the index.
    """

    query: str
    terms: tuple[str, ...] | None = None
    has_distance: bool = True
    keeps_region: bool = False
    region: Shape | None = None

    def encoded(self) -> bytes:
        """Return the bytes it is stored as."""
        terms = self.terms or ()
        words = self.query if not terms else "".join((self.query, *terms))
        is_plain = self.terms != () and TERMS_MARK not in words and TERM_MARK not in words
        if self.keeps_region or not is_plain:
            return bytes([_JSON]) + json.dumps(self._as_json(), ensure_ascii=False).encode()
        flags = (0 if self.has_distance else _NO_DISTANCE) | (_HAS_TERMS if terms else 0)
        text = self.query + (TERMS_MARK + TERM_MARK.join(terms) if terms else "")
        return short_prefixes()[flags] + text.encode()

    def _as_json(self) -> dict[str, Any]:
        from nearcast.geo import Box

        region = self.region
        if isinstance(region, Box):
            shape: Any = [region.x_min, region.y_min, region.x_max, region.y_max]
        else:
            shape = None if region is None else region.to_geojson()
        return self._asdict() | {"region": shape}

    @classmethod
    def decoded(cls, data: bytes) -> RequestText:
        """Return what was stored as these bytes."""
        if not data or data[0] < _SHORT:
            return cls(data.decode())
        if data[0] == _JSON:
            return cls._from_json(json.loads(data[1:]))
        flags = data[0] - _SHORT
        query, _, terms = data[1:].decode().partition(TERMS_MARK)
        has_distance = not flags & _NO_DISTANCE
        return cls(query, tuple(terms.split(TERM_MARK)) if flags & _HAS_TERMS else None, has_distance)

    @classmethod
    def _from_json(cls, said: dict[str, Any]) -> RequestText:
        from nearcast.geo import Circle, shape_from

        region = said["region"]
        if isinstance(region, dict) and region["type"] == "Circle":  # metres or not, the number is what was given
            x, y = region["center"]
            region = Circle(x, y, region["radius_m"])
        terms = said["terms"]
        return cls(
            said["query"],
            None if terms is None else tuple(terms),
            said["has_distance"],
            said["keeps_region"],
            None if region is None else shape_from(region),
        )


def short_prefixes() -> list[bytes]:
    """Return the first byte of a stored text by flags: 1 for a `max_distance` that is not given, 2 for terms."""
    return [b"", *(bytes([_SHORT + flags]) for flags in (1, 2, 3))]


def is_query_alone(texts: pa.Array) -> NDArray[np.bool_]:
    """Tell which texts of a column (large_binary) are a query and nothing else; null is not."""
    prefixes = [bytes([first]) for first in range(_SHORT, _JSON + 1)]
    is_other = pc.is_in(pc.binary_slice(texts, 0, 1), pa.array(prefixes, pa.large_binary()))
    alone: NDArray[np.bool_] = ~_arrow.array_of(is_other) & _arrow.array_of(texts.is_valid())
    return alone


class RequestTexts:
    """Request texts by slot; a slot may have none.

    Texts of slots that are not used any more stay until `compact` is called, with the slots in use, when `is_sparse`.
    """

    def __init__(self) -> None:
        self._blob = np.empty(0, np.uint8)
        self._used = self._used_when_compact = 0
        self._span = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return one more than the highest slot that may have a text."""
        return len(self._span)

    @property
    def nbytes(self) -> int:
        """Return the memory taken by the arrays."""
        return self._blob.nbytes + self._span.nbytes

    def put(self, slots: NDArray[np.int32], texts: pa.Array | None) -> None:
        """Store texts (large_binary) for slots; None removes theirs. The last write makes them count."""
        if texts is None:
            self._span[slots[slots < len(self._span)]] = _NONE
            return
        _, offsets, content = texts.buffers()
        ends = (
            np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1] if len(texts) else _NO_ENDS
        )
        data = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]] if content is not None else _NO_BYTES
        first = self._append(data)
        self._make_room(int(slots.max(initial=-1)) + 1)
        self._span[slots] = ((ends[:-1] - ends[0] + first) << _SIZE_BITS) | (ends[1:] - ends[:-1])

    def put_one(self, slot: int, text: bytes) -> None:
        """Store the text of one slot."""
        first = self._append(np.frombuffer(text, np.uint8))
        if slot >= len(self._span):
            self._make_room(slot + 1)
        self._span[slot] = (first << _SIZE_BITS) | len(text)

    def _append(self, data: NDArray[np.uint8]) -> int:
        """Copy bytes to the end of the blob; return where they begin."""
        first, last = self._used, self._used + len(data)
        if last > len(self._blob):
            blob = np.empty(max(last, len(self._blob) * 3 // 2), np.uint8)
            blob[:first] = self._blob[:first]
            self._blob = blob
        self._blob[first:last] = data
        self._used = last
        return first

    def _make_room(self, n: int) -> None:
        if n > len(self._span):
            grown = np.full(max(n, len(self._span) * 3 // 2), _NONE, np.int64)
            grown[: len(self._span)] = self._span
            self._span = grown

    def spans(self, slots: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return where the texts of slots lie, for `put_back`."""
        if len(slots) == 1 and (slot := slots.item()) < len(self._span):
            return self._span[slot : slot + 1].copy()  # that of a single change
        self._make_room(int(slots.max(initial=-1)) + 1)
        span: NDArray[np.int64] = self._span[slots]
        return span

    def put_back(self, slots: NDArray[np.int32], spans: NDArray[np.int64]) -> None:
        """Give slots back the texts that lie at these spans; may be called again."""
        self._span[slots] = spans

    def get(self, slot: int) -> RequestText | None:
        """Return the text of a slot, None if it has none."""
        span = int(self._span[slot]) if slot < len(self._span) else _NONE
        if span == _NONE:
            return None
        first = span >> _SIZE_BITS
        return RequestText.decoded(self._blob[first : first + (span & _SIZE_MASK)].tobytes())

    def is_json(self, slot: int) -> bool:
        """Tell whether a slot has a text in the long form, the one that may hold a region."""
        span = int(self._span[slot]) if slot < len(self._span) else _NONE
        return span != _NONE and span & _SIZE_MASK > 0 and bool(self._blob[span >> _SIZE_BITS] == _JSON)

    def are_json(self, slots: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell which slots have a text in the long form, the one that may hold a region."""
        found = np.zeros(len(slots), np.bool_)
        known = np.flatnonzero(slots < len(self._span))
        span = self._span[slots[known]]
        known, span = known[(span & _SIZE_MASK) > 0], span[(span & _SIZE_MASK) > 0]
        found[known[span != _NONE]] = self._blob[span[span != _NONE] >> _SIZE_BITS] == _JSON
        return found

    def column(self, slots: NDArray[np.int32]) -> pa.Array:
        """Return the texts of slots as large_binary, null where there is none."""
        self._make_room(int(slots.max(initial=-1)) + 1)
        span = self._span[slots]
        is_given = span != _NONE
        offsets, content = self._gathered(np.where(is_given, span, 0))
        valid = pa.py_buffer(np.packbits(is_given, bitorder="little"))
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(content)]
        return pa.Array.from_buffers(pa.large_binary(), len(slots), buffers)

    def _gathered(self, span: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        offsets = np.zeros(len(span) + 1, np.int64)
        np.cumsum(span & _SIZE_MASK, out=offsets[1:])
        content = np.empty(int(offsets[-1]), np.uint8)
        copy_spans(self._blob, span >> _SIZE_BITS, offsets, content)
        return offsets, content

    @property
    def is_sparse(self) -> bool:
        """Tell whether half of the bytes may belong to slots that are not used any more."""
        return self._used > 2 * self._used_when_compact + _SPARE_BYTES

    def compact(self, slots: NDArray[np.int32]) -> None:
        """Forget the texts of all but these slots."""
        slots = slots[slots < len(self._span)]
        held = slots[self._span[slots] != _NONE]
        offsets, content = self._gathered(self._span[held])
        span = np.full(len(self._span), _NONE, np.int64)
        span[held] = (offsets[:-1] << _SIZE_BITS) | np.diff(offsets)
        used = len(content)
        self.__dict__.update(_blob=content, _span=span, _used=used, _used_when_compact=used)  # in one step

    def renumbered(self, old: NDArray[np.int32]) -> RequestTexts:
        """Return the texts for an index that gave slot `old[i]` the number i; they share the bytes with these."""
        fresh = RequestTexts()
        fresh.__dict__.update(self.__dict__)
        fresh._span = self._span[old[old < len(self._span)]]
        return fresh

    def save(self, folder: Path) -> None:
        """Write all texts into a new folder."""
        folder.mkdir(parents=True, exist_ok=True)
        save_array(folder / "blob.npy", self._blob[: self._used], will_change=False)  # it is only added to
        save_array(folder / "span.npy", self._span)

    @classmethod
    def open(cls, folder: Path) -> RequestTexts:
        """Return the texts that were saved in a folder, none where there is no such folder."""
        texts = cls()
        if folder.exists():
            texts._blob, texts._span = (
                load_array(folder / "blob.npy", np.uint8),
                load_array(folder / "span.npy", np.int64),
            )
            texts._used = texts._used_when_compact = len(texts._blob)
            given = texts._span[texts._span != _NONE]
            if len(given) and (given.min() < 0 or ((given >> _SIZE_BITS) + (given & _SIZE_MASK)).max() > texts._used):
                raise IncompatibleStore(f"{folder}/span.npy is damaged: it points beyond blob.npy; save the hub again")
        return texts


_NO_BYTES, _NO_ENDS = np.empty(0, np.uint8), np.zeros(1, np.int64)
