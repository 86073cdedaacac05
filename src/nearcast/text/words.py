"""Words as bytes and their int32 ids: interning, lookup, and splitting of ASCII text, all over flat arrays."""

import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast._arrow import array_of
from nearcast._jit import inlined, kernel
from nearcast._saved import save_array
from nearcast.errors import InvalidColumns
from nearcast.nesting import is_encodable
from nearcast.saved_files.arrays import SavedArrays
from nearcast.saved_files.contents import damaged

#: What `WordTable` answers for a word it does not hold.
UNKNOWN = -1
#: Classes of bytes in `BYTE_CLASS`; word characters are those up to `WORD_OTHER`.
LETTER, WORD_OTHER, APOSTROPHE, SIGIL, SEPARATOR, BEYOND_ASCII = 0, 1, 2, 3, 4, 5


def _byte_class() -> np.ndarray:
    classes = np.full(256, SEPARATOR, np.uint8)
    classes[128:] = BEYOND_ASCII
    for byte in range(128):
        if chr(byte).isalpha():
            classes[byte] = LETTER
        elif chr(byte).isdigit() or chr(byte) == "_":
            classes[byte] = WORD_OTHER
    classes[ord("'")] = APOSTROPHE
    classes[[ord("#"), ord("@")]] = SIGIL
    return classes


#: The class of each byte, and each byte in lower case (ASCII only).
BYTE_CLASS = _byte_class()
LOWER = np.array([ord(chr(b).lower()) if b < 128 else b for b in range(256)], np.uint8)

#: Letters and signs of the names that are words with a sign; see `tokens`.
_C, _F, _N, _E, _T, _PLUS, _SHARP, _DOT = (np.uint8(ord(sign)) for sign in "cfnet+#.")

_EMPTY = -1
_PRIME = (1 << 31) - 1
_ID_MASK = (1 << 32) - 1
#: Up to this many words `ids_of` keeps a dictionary; a larger one would dwarf the table itself.
_MIRRORED = 1 << 20
#: Up to this many new words enter that dictionary one by one.
_FEW = 256
_LONGEST = (1 << 31) - 1
_BLOB, _START = "words_blob", "words_start"


@inlined
def _hash(data, at, length, multiplier):
    """Return a 31-bit polynomial hash modulo 2^31 - 1, three bytes a step.

    The multiplier is random for each table, so nobody can prepare words that collide. All steps stay below 2^62.
    """
    value = multiplier
    i, end = at, at + length
    while i + 3 <= end:
        piece = np.int64(data[i]) | (np.int64(data[i + 1]) << 8) | (np.int64(data[i + 2]) << 16)
        value = value * multiplier + piece
        value = (value & _PRIME) + (value >> 31)
        i += 3
    # The rest ends in a marker bit, so that a word and the same word with a zero byte behind it differ.
    piece = np.int64(1)
    while i < end:
        piece = (piece << 8) | np.int64(data[i])
        i += 1
    value = value * multiplier + piece
    value = ((value & _PRIME) + (value >> 31)) * multiplier
    value = (value & _PRIME) + (value >> 31)
    value = (value & _PRIME) + (value >> 31)
    return value if value < _PRIME else value - _PRIME


@inlined
def _place(data, at, length, hashed, blob, start, slots):
    """Return the place in `slots` that holds the span, or ~place of the empty one where it belongs."""
    mask = slots.size - 1
    place = hashed & mask
    while True:
        entry = slots[place]
        if entry < 0:
            return ~place
        if entry >> 32 == hashed:
            word = entry & _ID_MASK
            first = start[word]
            if start[word + 1] - first == length:
                i = 0
                while i < length and blob[first + i] == data[at + i]:
                    i += 1
                if i == length:
                    return place
        place = (place + 1) & mask


@kernel
def _look_up(data, at, length, multiplier, blob, start, slots, out):
    """Write to `out` the id of each span, -1 where unknown or where the length is negative."""
    for i in range(at.size):
        out[i] = UNKNOWN
        if length[i] >= 0:
            size = np.int64(length[i])
            place = _place(data, at[i], size, _hash(data, at[i], size, multiplier), blob, start, slots)
            if place >= 0:
                out[i] = slots[place] & _ID_MASK


@kernel
def _intern(data, at, length, multiplier, blob, start, slots, first, n_words, out):
    """Write to `out` the id of each span from row `first` on, adding new words; return (next row, number of words).

    Stops before the first new word for which an array has no room; the caller grows it and calls again.
    """
    for i in range(first, at.size):
        out[i] = UNKNOWN
        if length[i] < 0:
            continue
        size = np.int64(length[i])
        hashed = _hash(data, at[i], size, multiplier)
        place = _place(data, at[i], size, hashed, blob, start, slots)
        if place >= 0:
            out[i] = slots[place] & _ID_MASK
            continue
        used = start[n_words]
        if n_words + 1 >= start.size or used + size > blob.size or 2 * (n_words + 1) > slots.size:
            return i, n_words
        for j in range(size):
            blob[used + j] = data[at[i] + j]
        start[n_words + 1] = used + size
        slots[~place] = (hashed << 32) | n_words
        out[i] = n_words
        n_words += 1
    return at.size, n_words


@kernel
def _spread(old, new):
    """Put every entry of the table `old` into the larger, empty table `new`."""
    mask = new.size - 1
    for i in range(old.size):
        if old[i] >= 0:
            place = (old[i] >> 32) & mask
            while new[place] >= 0:
                place = (place + 1) & mask
            new[place] = old[i]


@kernel
def split_ascii(data, row_start, row_length, base, lowered, token_start, token_length, row_tokens):
    """Write the tokens of each ASCII row in lower case; return how many there are.

    `lowered[i - base]` becomes the lower case of `data[i]`, tokens are spans of `lowered`, and `row_tokens[i]` their
    number in row i: -1 for a row with a byte beyond ASCII, 0 for a negative length. `token_start` needs room for
    half of all bytes and rows, rounded up.
    """
    n = 0
    for row in range(row_start.size):
        begin = row_start[row] - base
        end = begin + max(np.int64(row_length[row]), 0)
        seen = np.uint8(0)
        for i in range(begin, end):
            seen |= data[i + base]
            lowered[i] = LOWER[data[i + base]]
        if seen >= 128:
            row_tokens[row] = -1
            continue
        before = n
        i = begin
        while i < end:
            if BYTE_CLASS[lowered[i]] > WORD_OTHER:
                i += 1
                continue
            first = i
            if (
                i > begin
                and BYTE_CLASS[lowered[i - 1]] == SIGIL
                and (i - 1 == begin or BYTE_CLASS[lowered[i - 2]] > WORD_OTHER)
            ):
                first = i - 1
            word = i
            i = _word_end(lowered, i + 1, end)
            if first == word:
                i += _signs_behind(lowered, word, i, end)
                first -= _dot_before(lowered, word, i, begin)
            token_start[n] = first
            token_length[n] = i - first
            n += 1
        row_tokens[row] = n - before
    return n


@kernel
def _word_end(text, i, end):
    """Return where the word ends whose second byte would be at `i`; an apostrophe between letters is inside."""
    while i < end:
        kind = BYTE_CLASS[text[i]]
        if kind <= WORD_OTHER:
            i += 1
        elif (
            kind == APOSTROPHE
            and BYTE_CLASS[text[i - 1]] == LETTER
            and i + 1 < end
            and BYTE_CLASS[text[i + 1]] == LETTER
        ):
            i += 2
        else:
            break
    return i


@kernel
def _signs_behind(text, first, last, end):
    """Return how many signs behind the word text[first:last] belong to its name: 2 for c++, 1 for c# and f#."""
    if last - first != 1 or last == end:
        return 0
    if text[first] == _C and last + 1 < end and text[last] == _PLUS and text[last + 1] == _PLUS:
        goes_on = last + 2 < end and (text[last + 2] == _PLUS or BYTE_CLASS[text[last + 2]] == LETTER)
        return 0 if goes_on else 2
    if (text[first] == _C or text[first] == _F) and text[last] == _SHARP:
        goes_on = last + 1 < end and (text[last + 1] == _SHARP or BYTE_CLASS[text[last + 1]] <= WORD_OTHER)
        return 0 if goes_on else 1
    return 0


@kernel
def _dot_before(text, first, last, begin):
    """Return 1 if the word text[first:last] is `net` behind a dot that begins a word, else 0."""
    if last - first != 3 or first == begin or text[first - 1] != _DOT:
        return 0
    if text[first] != _N or text[first + 1] != _E or text[first + 2] != _T:
        return 0
    if first - 1 > begin and (text[first - 2] == _DOT or BYTE_CLASS[text[first - 2]] <= WORD_OTHER):
        return 0
    return 1


class Spans:
    """Spans of bytes: row i is data[start[i]:start[i] + length[i]] (uint8, int64, int32); a length of -1 is null."""

    def __init__(self, data: np.ndarray, start: np.ndarray, length: np.ndarray):
        self.data, self.start, self.length = data, start, length

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, first: int, last: int) -> "Spans":
        """Return rows [first, last) over the same bytes."""
        return Spans(self.data, self.start[first:last], self.length[first:last])


def string_spans(strings: pa.Array | pa.ChunkedArray) -> Iterator[Spans]:
    """Yield the spans of each chunk of a string column, without copying its bytes.

    Takes string, large_string, string_view, dictionaries of them and null columns; else raises InvalidColumns.
    """
    for chunk in strings.chunks if isinstance(strings, pa.ChunkedArray) else [strings]:
        yield _spans_of(chunk)


def _spans_of(array: pa.Array) -> Spans:
    value_type = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if not (_is_string(value_type) or pa.types.is_null(value_type)):
        raise InvalidColumns(f"a column of {array.type} was given where text is needed: cast it to string")
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = array.cast(pa.large_string())
    n, is_large = len(array), pa.types.is_large_string(array.type)
    _, offsets, content = array.buffers()
    if n == 0 or offsets is None:
        return Spans(read_only(np.empty(0, np.uint8)), np.empty(0, np.int64), np.empty(0, np.int32))
    bounds = np.frombuffer(offsets, np.int64 if is_large else np.int32)[array.offset : array.offset + n + 1]
    length = np.diff(bounds)
    if is_large and length.max() > _LONGEST:
        raise InvalidColumns(f"a text of {length.max():,} bytes was given: at most {_LONGEST:,} are possible")
    length = length.astype(np.int32, copy=False)
    if array.null_count:
        # Arrow allows bytes under a null, so the offsets alone do not tell.
        length = np.where(array_of(array.is_valid()), length, np.int32(-1))
    data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.empty(0, np.uint8)
    return Spans(read_only(data), bounds[:-1].astype(np.int64), length)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def read_only(data: np.ndarray) -> np.ndarray:
    """Return `data` as contiguous read-only bytes: the one array type the kernels read text from."""
    view = np.ascontiguousarray(data, np.uint8).view(np.ndarray)[:]
    view.flags.writeable = False
    return view


def writable(values: np.ndarray, dtype: type) -> np.ndarray:
    """Return `values` as a plain contiguous array of that type, copied only if it is not one: the kernels' input."""
    return np.require(values, dtype, ["C", "A", "W", "E"])


def utf8(word: str) -> bytes:
    """Return the word in UTF-8, a lone surrogate (which UTF-8 and Arrow cannot hold) as U+FFFD."""
    try:
        return word.encode()
    except UnicodeEncodeError:
        return word.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


@kernel
def copy_spans(blob, first, offsets, content):
    """Copy to `content` the bytes that begin at each `first` and fill the place between two offsets."""
    for i in range(first.size):
        at = offsets[i]
        for k in range(offsets[i + 1] - at):
            content[at + k] = blob[first[i] + k]


class WordTable:
    """Words ↔ dense int32 ids, in order of first appearance.

    Lookups may run in several threads at once; the caller keeps them apart from calls that add.
    """

    def __init__(self) -> None:
        self._blob = np.empty(1024, np.uint8)
        self._start = np.zeros(129, np.int64)
        self._slots = np.full(256, _EMPTY, np.int64)
        self._n = 0
        #: Whether words are being added: after an interruption the hash table may name words beyond the last.
        self._is_adding = False
        self._forget()

    def _forget(self) -> None:
        # Below 2^29, so that a product in `_hash` stays below 2^62; far above 2^24, so that three bytes never cancel.
        self._multiplier = (1 << 28) + secrets.randbelow(1 << 28)
        self._mirror: dict[str, int] = {}

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Memory taken by the arrays, in bytes."""
        return self._blob.nbytes + self._start.nbytes + self._slots.nbytes

    def ids(self, data: np.ndarray, start: np.ndarray, length: np.ndarray, *, add: bool) -> np.ndarray:
        """Return the int32 ids of the byte spans of `data`; an unknown word is -1, or gets the next id when `add`.

        A negative length means "no word": -1, and nothing is added.
        """
        return self._ids(read_only(data), writable(start, np.int64), writable(length, np.int32), add)

    def _ids(self, data: np.ndarray, start: np.ndarray, length: np.ndarray, add: bool) -> np.ndarray:
        out = np.empty(len(start), np.int32)
        if self._is_adding:
            self._fill(self._blob[: self._start[self._n]], self._start[: self._n + 1].copy())
        if add:
            self._add(data, start, length, out)
        else:
            _look_up(data, start, length, self._multiplier, self._blob, self._start, self._slots, out)
        return out

    def _add(self, data: np.ndarray, start: np.ndarray, length: np.ndarray, out: np.ndarray) -> None:
        row, self._is_adding = 0, True
        while True:
            row, self._n = _intern(
                data, start, length, self._multiplier, self._blob, self._start, self._slots, row, self._n, out
            )
            if row == len(start):
                break
            self._make_room(int(length[row]))
        self._is_adding = False

    def _make_room(self, length: int) -> None:
        """Grow what is full: each array at least doubles, so adding stays linear."""
        used = int(self._start[self._n])
        if self._n + 1 >= self._start.size:
            self._start = np.concatenate([self._start, np.zeros(self._start.size, np.int64)])
        if used + length > self._blob.size:
            blob = np.empty(max(2 * self._blob.size, used + length), np.uint8)
            blob[:used] = self._blob[:used]
            self._blob = blob
        if 2 * (self._n + 1) > self._slots.size:
            slots = np.full(2 * self._slots.size, _EMPTY, np.int64)
            _spread(self._slots, slots)
            self._slots = slots

    def ids_of(self, words: Iterable[str], *, add: bool) -> np.ndarray:
        """Return the int32 ids of a few words, as `ids` does, by one dictionary lookup each.

        The dictionary takes about 100 bytes a word and is not kept for tables beyond a million words.
        """
        words = words if isinstance(words, (list, tuple)) else list(words)
        if self._n <= _MIRRORED:
            if len(self._mirror) < self._n:
                self._catch_up()
            found = list(map(self._mirror.get, words))
            if None not in found:
                return np.array(found, np.int32)
            # What has no place in the dictionary is unknown, but for words that are stored as another word.
            if not add and ("".join(words).isascii() or all(map(is_encodable, words))):
                return np.array([UNKNOWN if term is None else term for term in found], np.int32)
        return self._ids_of_encoded([utf8(word) for word in words], add)

    def id_of(self, word: str, *, add: bool = False) -> int:
        """Return the id of one word; -1 if it is unknown, or the next id when `add`; keeps no dictionary."""
        content = utf8(word)
        length = np.array([len(content)], np.int32)
        return int(self._ids(np.frombuffer(content, np.uint8), np.zeros(1, np.int64), length, add)[0])

    def _ids_of_encoded(self, encoded: list[bytes], add: bool) -> np.ndarray:
        length = np.fromiter(map(len, encoded), np.int32, len(encoded))
        start = np.zeros(len(encoded), np.int64)
        np.cumsum(length[:-1], out=start[1:])
        return self._ids(np.frombuffer(b"".join(encoded), np.uint8), start, length, add)  # already as kernels want them

    def _catch_up(self) -> None:
        """Enter words added since the last time into the dictionary."""
        known = len(self._mirror)
        if self._n - known > _FEW:
            new = self.words().slice(known).to_pylist()
        else:
            new = [self.word(term) for term in range(known, self._n)]
        self._mirror.update(zip(new, range(known, self._n), strict=True))

    def ids_of_column(self, strings: pa.Array | pa.ChunkedArray, *, add: bool) -> np.ndarray:
        """Return the int32 ids of a string column, as `ids` does; null is -1."""
        parts = [self.ids(spans.data, spans.start, spans.length, add=add) for spans in string_spans(strings)]
        return np.concatenate([np.empty(0, np.int32), *parts])

    def ids_of_table(self, other: "WordTable", first: int = 0) -> np.ndarray:
        """Return the ids here of the words of another table from number `first` on, -1 for those that are not here."""
        blob, start = other.arrays()
        last = len(other)
        return self.ids(blob, start[first:last], np.diff(start[first : last + 1]).astype(np.int32), add=False)

    def word(self, term: int) -> str:
        """Return the word with that id; IndexError if there is none."""
        if not 0 <= term < self._n:
            raise IndexError(f"term {term} is not in a table of {self._n} words")
        return self._blob[self._start[term] : self._start[term + 1]].tobytes().decode()

    def words(self) -> pa.Array:
        """Return all words in order of their ids, as `string` (`large_string` from 2 GiB on)."""
        start = self._start[: self._n + 1]
        content = pa.py_buffer(self._blob[: start[-1]].tobytes())
        if start[-1] < 2**31:
            return pa.StringArray.from_buffers(self._n, pa.py_buffer(start.astype(np.int32)), content)
        return pa.LargeStringArray.from_buffers(self._n, pa.py_buffer(start.copy()), content)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (bytes, start): word i is bytes[start[i]:start[i + 1]]. Adding words leaves what is there alone."""
        return self._blob, self._start

    def copy(self) -> "WordTable":
        """Return a table with the same ids; adding to either leaves the other alone."""
        twin = WordTable()
        twin._fill(self._blob[: self._start[self._n]].copy(), self._start[: self._n + 1].copy())
        return twin

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the words as .npy files into `folder`, each replaced in one step."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        start = self._start[: self._n + 1]
        # Adding words leaves what is there alone.
        save_array(folder / f"{_BLOB}.npy", self._blob[: start[-1]], will_change=False)
        save_array(folder / f"{_START}.npy", start, will_change=False)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "WordTable":
        """Return the table saved in `folder`, with the same ids; IncompatibleStore if files are bad."""
        arrays, table = SavedArrays(folder), cls()
        blob, start = arrays.loaded(_BLOB, np.uint8), arrays.loaded(_START, np.int64)
        arrays.starts(_START, start, max(0, len(start) - 1), len(blob))
        try:
            words = pa.LargeStringArray.from_buffers(len(start) - 1, pa.py_buffer(start), pa.py_buffer(blob))
            words.validate(full=True)
        except pa.ArrowInvalid as error:
            raise arrays.damaged(_BLOB, f"its words are no text ({error})") from None
        table._fill(blob, start, str(arrays.path(_BLOB)))
        return table

    def _fill(self, blob: np.ndarray, start: np.ndarray, called: str = "the table of words") -> None:
        """Take over the words of a saved table and hash them anew, with this process's own multiplier."""
        if start.size < 1 or start[0] != 0 or start[-1] != blob.size or (np.diff(start) < 0).any():
            raise damaged(called, "the offsets of its words do not fit their bytes")
        n = start.size - 1
        rehashed = WordTable()
        rehashed._start = np.zeros(n + 2, np.int64)
        rehashed._blob = np.empty(blob.size, np.uint8)
        rehashed._slots = np.full(1 << max(8, (2 * n + 1).bit_length()), _EMPTY, np.int64)
        rehashed.ids(blob, start[:-1], np.diff(start), add=True)
        if len(rehashed) != n:
            raise damaged(called, "a word stands in it twice")
        self.__dict__.update(rehashed.__dict__)

    def __getstate__(self) -> dict[str, Any]:
        start = self._start[: self._n + 1]
        return {"blob": self._blob[: start[-1]].copy(), "start": start.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._fill(state["blob"], state["start"])
