"""Prepares raw files into a store that a stream begins from: clean rows, vocabulary, plan, partitions.

messages/, subscriptions/    Parquet in interchange columns, a part for each raw file
rejected.parquet             rows that cannot be used, with reasons
vocabulary.parquet           words and in how many messages each stands; its version is a hash of its content
sample.parquet               messages that the plan was balanced by
nearcast/                    the plan and a folder for each partition, as a stream begins from
prepared.json                what there is, with the size and checksum of every file; written last

The files of nearcast/ are not in that list: its own manifest and folders have theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast import _arrow
from nearcast.errors import InvalidColumns, InvalidInput, with_remedy
from nearcast.files import READABLE, read_table, united
from nearcast.pipeline.batch.changes import read_changes
from nearcast.pipeline.batch.segments import MessageSegment
from nearcast.pipeline.driver.first_state import SAMPLE, begin
from nearcast.pipeline.driver.placing import RowsToPlace
from nearcast.pipeline.preparation.interchange_rows import is_subscriptions, message_rows, subscription_rows
from nearcast.pipeline.settings import RENAMING, PipelineSettings
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.places import is_uri, local_root
from nearcast.pipeline.store.state_format import STATE_FORMAT, check_format, format_in
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.source_reader import fetched
from nearcast.saved_files.contents import (
    Contents,
    FileSum,
    check_contents,
    contents_from,
    damaged,
    read_signed,
    signed,
    sum_of,
)
from nearcast.tables import Rejected, RejectedRow, rename_known
from nearcast.tables.cells import TableRows
from nearcast.tables.geometries import with_places
from nearcast.text import Vocabulary

if TYPE_CHECKING:
    from nearcast.pipeline.runner import Runner

PREPARED = "prepared.json"
OnProgress = Callable[[str, int], object]


@dataclass(frozen=True)
class PrepareTask:
    """Task: prepare one raw file."""

    path: str
    source: str
    store: Store
    part: int
    settings: PipelineSettings


@dataclass(frozen=True)
class PrepareResult:
    """What became of a raw file: the rows written, and of messages the document frequencies and a sample."""

    kind: str
    rows: int
    rejected: list[RejectedRow]
    written: dict[str, FileSum]
    words: pa.Array | None = None
    df: np.ndarray | None = None
    sample: pa.Table | None = None


def prepare_file(task: PrepareTask) -> PrepareResult:
    """Read a raw file and write its good rows in interchange columns."""
    rejected, space = Rejected(), task.settings.space
    try:
        with fetched(task.path) as path:
            table = read_table(path, source=task.source, rejected=rejected)
        table = rename_known(table, task.settings.renames)
        is_message = not is_subscriptions(table.column_names)
        table = with_places(table, space, source=task.source, is_message=is_message, rejected=rejected)
    except InvalidColumns as error:
        reason = f"nothing of this file was used: {with_remedy(error, RENAMING)}"
        rejected.add(task.source, 0, None, error.field, reason)
        return PrepareResult("unreadable", 0, list(rejected), {})
    if not is_message:
        return _prepare_subscriptions(task, table, rejected)
    return _prepare_messages(task, table, rejected)


def _prepare_subscriptions(task: PrepareTask, table: pa.Table, rejected: Rejected) -> PrepareResult:
    found = Rejected()
    changes = read_changes(table, task.settings, source=task.source, rejected=found, only_subscribe=True)
    good = _good(table, task.source, found)
    rejected.extend(found)
    written = _write(task, "subscriptions", subscription_rows(table, changes.ids, good))
    return PrepareResult("subscriptions", len(changes), list(rejected), written)


def _prepare_messages(task: PrepareTask, table: pa.Table, rejected: Rejected) -> PrepareResult:
    found, vocabulary = Rejected(), Vocabulary()
    segment = MessageSegment.encoded(table, task.settings, vocabulary.table, source=task.source, rejected=found)
    messages = segment.messages
    vocabulary.learn(messages.term_start, messages.terms)
    rows = message_rows(table, messages, _good(table, task.source, found), task.settings.space)
    rejected.extend(found)
    written = _write(task, "messages", rows)
    step = max(1, -(-rows.num_rows // SAMPLE))
    sample = rows.take(_arrow.numbers(np.arange(0, rows.num_rows, step)))
    df = vocabulary.df_by_term
    return PrepareResult("messages", rows.num_rows, list(rejected), written, segment.words, df, sample)


def _good(table: pa.Table, source: str, rejected: Rejected) -> np.ndarray:
    bad = [row.row for row in rejected]
    good: np.ndarray = ~np.isin(TableRows(table, source, 0).numbers, bad)
    return good


def _write(task: PrepareTask, kind: str, rows: pa.Table) -> dict[str, FileSum]:
    """Write rows as a part of a kind; return the name of the file in the store, with its sum."""
    name = f"{kind}/part-{task.part:05d}.parquet"
    return _put(task.store, name, lambda path: pq.write_table(rows, path, compression="zstd"))


def _put(store: Store, name: str, write: Callable[[Path], object]) -> dict[str, FileSum]:
    """Put a file into the store; return its name with its sum."""
    sums: list[FileSum] = []

    def write_and_sum(path: Path) -> None:
        write(path)
        sums.append(sum_of(path))

    store.put(name, write_and_sum)
    return {name: sums[0]}


def raw_files(given: Iterable[str | Path]) -> list[str]:
    """Return the files given, and those of folders given, in order of their names; one line where there is none."""
    return [path for each in given for path in (_remote_files if is_uri(str(each)) else _local_files)(str(each))]


def _local_files(given: str) -> list[str]:
    path = Path(given)
    if not path.exists():
        raise InvalidInput(f"{path}: there is no such file or folder")
    if not path.is_dir() or path.suffix == ".parquet":
        return [str(path.absolute())]
    inside = sorted(each for each in path.rglob("*") if each.is_file() and _is_readable(each.name))
    return _some([str(each.absolute()) for each in inside], given)


def _remote_files(given: str) -> list[str]:
    folder, _, name = given.rstrip("/").rpartition("/")
    if _is_readable(name) and Store(folder).exists(name):
        return [given]
    inside = [each for each in Store(given).list() if _is_readable(each.rpartition("/")[2])]
    return _some([f"{given.rstrip('/')}/{each}" for each in inside], given)


def _some(files: list[str], given: str) -> list[str]:
    if not files:
        raise InvalidInput(f"{given} has no file that ends in {', '.join(READABLE)}")
    return files


def _is_readable(name: str) -> bool:
    name = name.removesuffix(".gz")
    return name[:1] not in ("", ".", "_") and name.endswith(READABLE)


def prepare(
    raw: Iterable[str | Path],
    out: str | Path,
    settings: PipelineSettings,
    runner: Runner,
    *,
    vocabulary: Vocabulary | None = None,
    on_step: OnProgress | None = None,
) -> dict[str, Any]:
    """Prepare raw files into a new folder, on a path or in an object store; return what `prepared.json` says."""
    files, store = raw_files(raw), new_store(out)
    on_step = on_step or _say_nothing
    on_step("reading raw files", len(files))
    names = [path.rpartition("/")[2] for path in files]
    tasks = [PrepareTask(path, names[at], store, at, settings) for at, path in enumerate(files)]
    done: list[PrepareResult] = runner.map(prepare_file, tasks)
    rejected = Rejected()
    for each in done:
        rejected.extend(each.rejected)
    learned = _vocabulary(done) if vocabulary is None else vocabulary
    written = {name: each for part in done for name, each in part.written.items()}
    written |= _put(store, "vocabulary.parquet", learned.to_parquet)
    sample = _sample(done)
    if sample is not None:
        written |= _put(store, "sample.parquet", lambda path: pq.write_table(sample, path))
    subscriptions = _subscriptions(store, names, rejected)
    on_step("building partitions", settings.partitions)
    if subscriptions:
        _build(store, settings, runner, subscriptions, learned, sample, rejected)
    written |= _put(store, "rejected.parquet", lambda path: pq.write_table(rejected.to_table(), path))
    about = {
        "format": STATE_FORMAT,
        "space": settings.space.kind,
        "messages": sum(each.rows for each in done if each.kind == "messages"),
        "subscriptions": sum(each.n for each in subscriptions),
        "rejected": len(rejected),
        "vocabulary_version": learned.snapshot().version,
        "words": len(learned),
        "plan": settings.plan,
        "partitions": settings.partitions,
    }
    head = signed({**about, "files": {name: list(written[name]) for name in sorted(written)}}, indent=1)
    store.put(PREPARED, lambda path: path.write_bytes(head))
    return about


def new_store(out: str | Path) -> Store:
    """Return the store of a new folder; refuse one that holds something, cannot be opened, or has no exclusive commit.

    Before raw files are read, and by the command before Spark is started.
    """
    store = Store(out)
    if store.exists(PREPARED):
        raise InvalidInput(f"{out} is prepared already; choose another folder, or remove it")
    if store.sizes(with_hidden=True):
        raise InvalidInput(f"{out} is not empty and was not finished; remove it and prepare again")
    store.check_commits()
    return store


def _say_nothing(title: str, total: int) -> None:
    """Report progress to nobody."""


def _vocabulary(done: list[PrepareResult]) -> Vocabulary:
    """Add up in how many messages each word stands."""
    return Vocabulary.summed((each.words, each.df, each.rows) for each in done if each.df is not None)


def _sample(done: list[PrepareResult]) -> pa.Table | None:
    tables = [each.sample for each in done if each.sample is not None and each.sample.num_rows]
    if not tables:
        return None
    whole = united(tables)
    step = max(1, -(-whole.num_rows // SAMPLE))
    return whole.take(_arrow.numbers(np.arange(0, whole.num_rows, step)))


def _subscriptions(store: Store, sources: list[str], rejected: Rejected) -> list[RowsToPlace]:
    """Return the subscriptions of all files, whose ids must be of the type of the first; other files are rejected."""
    parts: list[RowsToPlace] = []
    kinds: list[pa.DataType] = []
    first = 0
    for name in store.list("subscriptions/part-"):
        path = store.local(name)
        n, kind = pq.read_metadata(path).num_rows, pq.read_schema(path).field("id").type
        kinds = [*kinds[:1], kind]
        if kinds[0] == kind or not n:
            parts.append(RowsToPlace(first, n, store=store, name=name))
            first += n
            continue
        reason = f"nothing of this file was used: its ids are {kind}, those of the files before {kinds[0]}"
        rejected.add(sources[int(name.partition("part-")[2].removesuffix(".parquet"))], 0, None, "id", reason)
        store.delete([name])
    return parts


def _build(
    whole: Store,
    settings: PipelineSettings,
    runner: Runner,
    subscriptions: list[RowsToPlace],
    vocabulary: Vocabulary,
    sample: pa.Table | None,
    rejected: Rejected,
) -> None:
    """Learn the plan and build a folder for each partition; the manifest that names them comes last."""
    store = whole.within("nearcast")
    snapshot = vocabulary.snapshot()
    state = begin(store, settings, runner, subscriptions, snapshot, sample=sample, rejected=rejected)
    Manifests(store).commit(replace(state.manifest, fingerprint=settings.fingerprint()))


def about_prepared(folder: str | Path) -> dict[str, Any] | None:
    """Return what a prepared folder says of itself, None if it is none.

    All its files must be there in their sizes, and up to `VERIFY_BYTES` with the contents that were written;
    `IncompatibleStore` names one that is not. Those of nearcast/ are checked as they are read.
    """
    store, called = Store(folder), f"{str(folder).rstrip('/')}/{PREPARED}"
    if not store.exists(PREPARED):
        return None
    data = store.read_bytes(PREPARED)
    try:
        found = format_in(data)
    except ValueError:
        raise damaged(called, "it was cut off or edited") from None
    check_format(found, called, "prepare the data again")
    about = read_signed(data, called)
    if "files" not in about:
        raise damaged(called, "it lists no files")
    files = contents_from(about.pop("files"), called)
    path = local_root(str(folder))
    if path is None:
        _check_sizes(store, files)
    else:
        check_contents(Path(path), files)
    return about


def _check_sizes(store: Store, files: Contents) -> None:
    """Compare the sizes of files elsewhere with a list of them: their contents would have to be downloaded."""
    found = store.sizes()
    for name, expected in files.items():
        if found.get(name) != expected.size:
            raise damaged(f"{store.root}/{name}", f"it has {found.get(name, 0):,} bytes, not {expected.size:,}")
