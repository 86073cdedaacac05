"""Values that a body has once and its rows many times: they are counted, and refused where they are too large."""

import contextlib

import pyarrow as pa
import pytest

from nearcast.server.decoded_size import decoded_bytes
from nearcast.server.message_bodies import messages_of
from nearcast.server.packed_buffers import unpacked_bytes
from nearcast.server.problems import Problem
from nearcast.server.settings import LimitSettings

ARROW = "application/vnd.apache.arrow.stream"
LIMITS = LimitSettings(body_bytes=1 << 16)
MOST = 16 * LIMITS.body_bytes


def _stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _runs(end, value):
    return pa.RunEndEncodedArray.from_arrays(pa.array([end], pa.int64()), pa.array([value]))


def _views(n, inner):
    """Return `n` lists each of which has all of the same values."""
    return pa.LargeListViewArray.from_arrays(pa.array([0] * n), pa.array([len(inner)] * n), inner)


LARGE = {
    "runs": _runs(1000, "x" * 5000),
    "a run inside a list": pa.LargeListArray.from_arrays(pa.array([0, 1 << 30]), _runs(1 << 30, "x")),
    "lists of the same texts": _views(1000, pa.array(["x" * 60] * 20, pa.string_view())),
    "lists of lists of lists": _views(1, _views(1000, _views(1000, pa.array(["x"], pa.string_view())))),
}


@pytest.mark.parametrize("name", LARGE)
def test_values_that_grow_when_they_are_decoded_are_refused(name):
    """413, and nobody's memory is full of them."""
    table = pa.table({"odd": LARGE[name]})
    body = _stream(table)
    assert len(body) < LIMITS.body_bytes
    with pytest.raises(Problem) as caught:
        messages_of(body, ARROW, LIMITS, is_earth=True)
    assert (413, "too-large") == (caught.value.status, caught.value.slug)


PACKED = pa.table({"odd": ["x" * 100_000] * 20, "word": pa.array(["x" * 2_000_000] * 20).dictionary_encode()})


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("name", PACKED.column_names)
def test_columns_that_were_packed_are_refused_before_they_are_unpacked(name, codec, monkeypatch):
    """By the same bound: whoever sends little must not fill the memory, not even for a moment."""
    body = _stream(PACKED.select([name]), compression=codec)
    assert len(body) < LIMITS.body_bytes
    monkeypatch.setattr(pa.ipc, "open_stream", lambda _: pytest.fail("the batch was unpacked"))
    with pytest.raises(Problem, match="decoded") as caught:
        messages_of(body, ARROW, LIMITS, is_earth=True)
    assert (413, "too-large") == (caught.value.status, caught.value.slug)


@pytest.mark.parametrize("codec", ["zstd", "lz4", None])
def test_packed_buffers_are_counted_as_they_unpack(codec):
    """Those of a dictionary too, and of every batch; as long as they are if not packed. What is small is taken."""
    table = pa.table({"text": ["tea and cake"] * 500, "word": pa.array(["tea", None] * 250).dictionary_encode()})
    body = _stream(table, compression=codec)
    text_bytes = table["text"].nbytes
    assert text_bytes <= unpacked_bytes(body) <= text_bytes + 10_000
    assert 500 == messages_of(body, ARROW, LIMITS, is_earth=True).n_items
    texts = table.select(["text"])
    thrice = _stream(pa.concat_tables([texts] * 3), compression=codec)
    assert unpacked_bytes(thrice) == 3 * unpacked_bytes(_stream(texts, compression=codec))


def test_packing_as_it_was_told_before_arrow_1_is_refused():
    """Readers still take it from custom metadata of a batch, where its size is not looked for."""
    table, sink = pa.table({"text": ["tea"]}), pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_batch(table.to_batches()[0], custom_metadata={"ARROW:experimental_compression": "zstd"})
    with pytest.raises(Problem, match=r"Arrow 1\.0 or newer") as caught:
        messages_of(sink.getvalue().to_pybytes(), ARROW, LIMITS, is_earth=True)
    assert 400 == caught.value.status
    assert (
        1
        == messages_of(_stream(table, metadata_version=options.metadata_version), ARROW, LIMITS, is_earth=True).n_items
    )


def test_a_packed_stream_with_any_byte_damaged_is_a_problem_or_read():
    """Nothing else is raised, wherever the damage is."""
    body = _stream(pa.table({"text": ["tea and cake"] * 50}), compression="zstd")
    for at in range(len(body)):
        for value in (0, 127, 255):
            damaged = body[:at] + bytes([value]) + body[at + 1 :]
            with contextlib.suppress(Problem):
                messages_of(damaged, ARROW, LIMITS, is_earth=True)


TEXTS = ["a" * 20, None, "b" * 30, "c"]
COUNTED = {
    "texts": pa.array(TEXTS, pa.string_view()),
    "bytes": pa.array([None if each is None else each.encode() for each in TEXTS], pa.binary_view()),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), pa.array(TEXTS)),
    "lists": pa.array([TEXTS[:2], None, TEXTS[2:3], TEXTS[3:]], pa.list_(pa.string_view())),
    "fixed": pa.array([[each] for each in TEXTS], pa.list_(pa.string_view(), 1)),
    "list views": pa.array([TEXTS[:2], None, TEXTS[2:3], TEXTS[3:]], pa.list_view(pa.string_view())),
    "structs": pa.array([{"x": each} for each in TEXTS], pa.struct([("x", pa.string_view())])),
    "maps": pa.array([[(each or "", None)] for each in TEXTS], pa.map_(pa.string_view(), pa.null())),
    "dictionaries": pa.array(TEXTS).dictionary_encode(),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0] * 4, pa.int8()), [pa.array(TEXTS, pa.string_view())]),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0] * 4, pa.int8()), pa.array(range(4), pa.int32()), [pa.array(TEXTS, pa.string_view())]
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted_is_all_there_is(name):
    """All bytes of the texts, and up to two dozen more for each row; of a slice, those of the slice."""
    column = COUNTED[name]
    for begin in (0, 2):
        found = decoded_bytes(pa.chunked_array([column.slice(begin)]), MOST)
        texts = sum(len(each) for each in TEXTS[begin:] if each is not None)
        assert texts <= found <= texts + 24 * (4 - begin)
    assert 0 == decoded_bytes(pa.chunked_array([column.slice(0, 0)]), MOST)
    assert 4 == messages_of(_stream(pa.table({"odd": column})), ARROW, LIMITS, is_earth=True).n_items


def test_values_of_a_fixed_width_are_counted_by_it():
    """So that nothing is refused that is as large as it was sent."""
    bits = pa.array([[True] * 800], pa.list_(pa.bool_()))
    assert decoded_bytes(pa.chunked_array([bits]), MOST) <= 2 * bits.nbytes
    for column in (pa.array([1.5, None]), pa.nulls(2), pa.array([None, None], pa.uuid())):
        assert decoded_bytes(pa.chunked_array([column]), MOST) <= 24
