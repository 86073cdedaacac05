import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import IncompatibleStore, InvalidColumns
from nearcast.text import words as _words
from nearcast.text.words import UNKNOWN, WordTable, string_spans

pytestmark = [pytest.mark.modes, pytest.mark.small]

# Short words over few letters repeat and share prefixes; zero bytes and multi-byte letters are where hashes go wrong.
words = st.text(alphabet="ab\0é😀", max_size=7)


def spans_of(given_words: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    encoded = [word.encode() for word in given_words]
    length = np.array([len(word) for word in encoded], np.int32)
    start = np.cumsum(np.concatenate([[0], length]))[:-1].astype(np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), start, length


def first_appearance(given_words: list[str]) -> list[int]:
    known: dict[str, int] = {}
    return [known.setdefault(word, len(known)) for word in given_words]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(words, max_size=40), max_size=4))
def test_ids_follow_first_appearance(batches: list[list[str]]) -> None:
    """Whatever is added in however many batches, ids are dense and in order of first appearance."""
    table = WordTable()

    ids = [table.ids(*spans_of(batch), add=True).tolist() for batch in batches]

    everything = [word for batch in batches for word in batch]
    assert first_appearance(everything) == [term for batch in ids for term in batch]
    assert list(dict.fromkeys(everything)) == table.words().to_pylist()


@settings(max_examples=60, deadline=None)
@given(st.lists(words, max_size=30), st.lists(words, max_size=30))
def test_three_ways_of_asking_agree(known: list[str], asked: list[str]) -> None:
    """Spans, a list of words and a column give the same ids, and asking adds nothing."""
    table = WordTable()
    table.ids_of(known, add=True)
    expected = [list(dict.fromkeys(known)).index(word) if word in known else UNKNOWN for word in asked]

    assert expected == table.ids(*spans_of(asked), add=False).tolist()
    assert expected == table.ids_of(asked, add=False).tolist()
    assert expected == table.ids_of(iter(asked), add=False).tolist()  # now remembered
    assert expected == table.ids_of_column(pa.array(asked, pa.string()), add=False).tolist()
    assert len(set(known)) == len(table)


def test_growth_past_every_first_capacity() -> None:
    """Tables grow in words and in bytes without losing or renaming a word."""
    table = WordTable()
    many = [f"word{i}" for i in range(1500)] + ["x" * 5000]

    ids = table.ids_of(many, add=True)

    assert list(range(1501)) == ids.tolist()
    assert many == table.words().to_pylist()
    assert ids.tolist() == table.ids_of_column(pa.array(many), add=False).tolist()


def test_a_remembered_miss_is_forgotten_when_the_word_is_added() -> None:
    """A word once unknown is found as soon as it is there, however it came in."""
    table = WordTable()
    assert [UNKNOWN] == table.ids_of(["late"], add=False).tolist()
    assert [UNKNOWN] == table.ids_of(["late"], add=False).tolist()

    table.ids_of_column(pa.array(["early", "late"]), add=True)

    assert [1] == table.ids_of(["late"], add=False).tolist()


def test_a_table_too_large_for_a_dictionary_answers_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit no dictionary is kept beside the table, and answers stay right."""
    monkeypatch.setattr(_words, "_MIRRORED", 8)
    table = WordTable()
    table.ids_of([f"w{i}" for i in range(50)], add=True)

    for i in range(100):
        assert [i if i < 50 else UNKNOWN] == table.ids_of([f"w{i}"], add=False).tolist()
        assert (i if i < 50 else UNKNOWN) == table.id_of(f"w{i}")

    assert table._mirror == {}


def test_a_negative_length_is_no_word() -> None:
    """A span of length -1 is unknown and adds nothing, even when adding."""
    table = WordTable()
    data = np.frombuffer(b"ab", np.uint8)

    ids = table.ids(data, np.array([0, 0, 1]), np.array([1, -1, 1]), add=True)

    assert [0, UNKNOWN, 1] == ids.tolist()


def test_the_empty_word_is_a_word() -> None:
    """The empty string has an id like any other."""
    table = WordTable()

    assert [0, 1, 0] == table.ids_of(["", "a", ""], add=True).tolist()
    assert table.word(0) == ""


def test_words_that_differ_by_a_zero_byte_differ() -> None:
    """Zero bytes count, in front and behind."""
    given_words = ["", "\0", "\0\0", "a", "a\0", "\0a", "abc", "abc\0", "abc\0\0", "\0abc"]

    assert list(range(10)) == WordTable().ids_of(given_words, add=True).tolist()


def test_a_lone_surrogate_does_not_crash() -> None:
    """A word UTF-8 cannot hold counts as the same word with U+FFFD."""
    table = WordTable()

    table.ids_of(["a\ud800b"], add=True)

    assert table.word(0) == "a\ufffdb"
    assert [0, 0] == table.ids_of(["a\ud800b", "a\ufffdb"], add=False).tolist()


@pytest.mark.parametrize("term", [-1, 2])
def test_an_id_out_of_range_raises(term: int) -> None:
    """There is no word below 0 or past the end."""
    table = WordTable()
    table.ids_of(["a", "b"], add=True)

    with pytest.raises(IndexError, match=f"term {term} is not in a table of 2 words"):
        table.word(term)


NULL_WITH_BYTES = pa.StringArray.from_buffers(
    3, pa.py_buffer(np.array([0, 1, 3, 4], np.int32)), pa.py_buffer(b"axyb"), pa.py_buffer(b"\x05")
)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["a", None, "b", "a"]), [0, -1, 1, 0]),
        (pa.array(["a", None, "b", "a"], pa.large_string()), [0, -1, 1, 0]),
        (pa.array(["a", None, "b", "a"], pa.string_view()), [0, -1, 1, 0]),
        (pa.array(["a", None, "b", "a"]).dictionary_encode(), [0, -1, 1, 0]),
        (pa.array(["x", "a", None, "b", "a", "y"]).slice(1, 4), [0, -1, 1, 0]),
        (pa.array(["x", "a", None, "b", "a", "y"], pa.large_string()).slice(1, 4), [0, -1, 1, 0]),
        (pa.chunked_array([pa.array(["z", "a", None]).slice(1), pa.array([], pa.string()), ["b", "a"]]), [0, -1, 1, 0]),
        (pa.chunked_array([], pa.string()), []),
        (pa.array([], pa.string()), []),
        (pa.nulls(2), [-1, -1]),
        (pa.array([None, None], pa.string()), [-1, -1]),
        (NULL_WITH_BYTES, [0, -1, 1]),
    ],
)
def test_every_form_of_a_string_column(column: pa.Array, expected: list[int]) -> None:
    """Slices, chunks, nulls, large strings, views and dictionaries of strings all read alike."""
    assert expected == WordTable().ids_of_column(column, add=True).tolist()


def test_a_column_of_numbers_is_refused() -> None:
    """A column that is no text says so, with its type."""
    with pytest.raises(InvalidColumns, match="a column of int64 was given where text is needed"):
        list(string_spans(pa.array([1, 2])))


@settings(max_examples=20, deadline=None)
@given(st.lists(words, max_size=30))
def test_copy_and_pickle_keep_ids(given_words: list[str]) -> None:
    """A copy and a pickled table know the same words by the same ids, and then go their own way."""
    table = WordTable()
    ids = table.ids_of(given_words, add=True).tolist()

    for twin in (table.copy(), pickle.loads(pickle.dumps(table))):
        assert ids == twin.ids_of(given_words, add=False).tolist()
        twin.ids_of(["a new word"], add=True)
        assert [UNKNOWN] == table.ids_of(["a new word"], add=False).tolist()


def test_save_and_open_keep_ids(tmp_path: Path) -> None:
    """A saved table opens with the same words and ids, and can be added to and saved over itself."""
    table = WordTable()
    given_words = [f"wörd{i}" for i in range(300)]
    table.ids_of(given_words, add=True)
    table.save(tmp_path)

    opened = WordTable.open(tmp_path)
    assert list(range(300)) == opened.ids_of(given_words, add=False).tolist()
    assert [300] == opened.ids_of(["more"], add=True).tolist()
    opened.save(tmp_path)

    assert [*given_words, "more"] == WordTable.open(tmp_path).words().to_pylist()
    assert ["words_blob.npy", "words_start.npy"] == sorted(path.name for path in tmp_path.iterdir())


def test_an_empty_table_can_be_saved(tmp_path: Path) -> None:
    """No words are a table too."""
    WordTable().save(tmp_path / "new" / "folder")

    opened = WordTable.open(tmp_path / "new" / "folder")

    assert len(opened) == 0
    assert [0] == opened.ids_of(["a"], add=True).tolist()


@pytest.mark.parametrize(
    ("blob", "start", "reason"),
    [
        (b"ab", [0, 1], "offsets do not fit"),
        (b"ab", [0, 2, 1, 2], "offsets do not fit"),
        (b"ab", [], "it has 0 rows where 1 are expected"),
        (b"aa", [0, 1, 2], "a word stands in it twice"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, blob: bytes, start: list[int], reason: str) -> None:
    """Files that cannot be a table are refused in one line."""
    np.save(tmp_path / "words_blob.npy", np.frombuffer(blob, np.uint8))
    np.save(tmp_path / "words_start.npy", np.array(start, np.int64))

    with pytest.raises(IncompatibleStore, match=reason):
        WordTable.open(tmp_path)


def test_missing_foreign_and_mistyped_files_are_refused(tmp_path: Path) -> None:
    """A missing file, one that is no array, and one of another type each name the file."""
    with pytest.raises(IncompatibleStore, match=r"words_blob\.npy is missing"):
        WordTable.open(tmp_path)
    (tmp_path / "words_blob.npy").write_text("hello")
    with pytest.raises(IncompatibleStore, match=r"words_blob\.npy is damaged: it cannot be read as an array"):
        WordTable.open(tmp_path)
    np.save(tmp_path / "words_blob.npy", np.zeros(3))
    with pytest.raises(
        IncompatibleStore, match=r"words_blob\.npy is damaged: it holds 1-d float64, expected 1-d uint8"
    ):
        WordTable.open(tmp_path)


def test_words_prepared_to_collide_in_one_table_do_not_in_another() -> None:
    """Where a word goes depends on the table's own secret, so nobody can prepare words that all collide."""
    table = WordTable()
    data, start, length = spans_of([f"w{i}" for i in range(2000)])
    hashes = [_words._hash(data, int(at), int(n), table._multiplier) for at, n in zip(start, length, strict=True)]
    fullest = max(range(64), key=lambda place: sum(value % 64 == place for value in hashes))
    colliding = [i for i in range(2000) if hashes[i] % 64 == fullest]

    other = WordTable()
    places = {_words._hash(data, int(start[i]), int(length[i]), other._multiplier) % 64 for i in colliding}

    assert table._multiplier != other._multiplier
    assert len(places) > 5


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="kernels have signatures only when compiled")
def test_kernels_compile_once_whatever_arrays_come(tmp_path: Path) -> None:
    """Read-only, mapped, sliced and other-typed arrays all reach the kernels as one type."""
    np.save(tmp_path / "bytes.npy", np.frombuffer(b"abab", np.uint8))
    mapped = np.load(tmp_path / "bytes.npy", mmap_mode="r")
    table = WordTable()
    frozen = np.array([0, 1], np.int64)
    frozen.flags.writeable = False

    for data in (mapped, np.array(mapped), np.array(mapped)[::2]):
        for start in (frozen, np.array([0, 5, 1])[::2], np.array([0, 1], np.int16)):
            for add in (True, False):
                table.ids(data, start, np.array([1, 1]), add=add)

    for function in (_words._look_up, _words._intern):
        assert len(function.signatures) == 1  # type: ignore[attr-defined]


def test_an_interrupted_addition_gives_no_number_twice(monkeypatch):
    """Words that were entered but not counted are forgotten, and the next ones get their numbers."""
    table, intern = WordTable(), _words._intern
    table.ids_of(["a", "b"], add=True)

    def interrupted(*arguments):
        intern(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_words, "_intern", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.ids_of(["c", "d"], add=True)

    assert [-1, -1, 0] == table.ids_of(["c", "d", "a"], add=False).tolist()
    assert [2, 3, 1] == table.ids_of(["d", "c", "b"], add=True).tolist()
    assert ["a", "b", "d", "c"] == table.words().to_pylist()
