"""The files of a stream: put in place in one step, named once, mapped by whoever needs them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath

from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.pipeline.store.host_cache import HostCache
from nearcast.pipeline.store.local_place import (
    CONTENTS,
    Entry,
    StoreConflict,
    StoreError,
    Write,
    explained,
    read_contents,
    sum_in_name,
)
from nearcast.pipeline.store.places import Place, is_uri, open_place
from nearcast.saved_files.contents import check_contents, damaged, sum_of, sum_of_bytes

__all__ = ["Store", "StoreConflict", "StoreError", "batch_of", "draft_of", "epoch_of", "with_epoch"]

#: A file or folder that is being written, or removed, beside its place.
_DRAFT = re.compile(r"((?:[^/]+/)*)\.[0-9a-f]{8}\.([^/]+)")
_UNIQUE = re.compile(r"[a-z][a-z_]*/(-?\d+)-[^/]*[0-9a-f]{8}[^/]*")
#: In a name of `Store.unique`, of a draft of it, or in the folder of a driver's claims.
_EPOCH = re.compile(r"[-/]e(\d+)[-/.]")


class Store:
    """A folder of files by name: on a path, in an object store (s3://, gs://, az://), or where Arrow or fsspec can.

    Names are relative POSIX paths. A store holds nothing but where it is, so it can be sent to workers; what must be
    mapped from a remote place is downloaded once into a folder of the host (`cache`, else one in the folder for
    temporary files). `epoch` is that of the driver it was opened for, and is part of the names that `unique` gives.

    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> store.commit("manifests/00000001.json", b"{}")
    >>> store.list("manifests/"), store.read_bytes("manifests/00000001.json")
    (['manifests/00000001.json'], b'{}')
    """

    def __init__(self, root: str | os.PathLike[str], *, cache: str | None = None, epoch: int = 0):
        given = os.fspath(root)
        # Workers may run in another folder.
        self.root = given if is_uri(given) else os.path.abspath(given)  # noqa: PTH100 - links stay as given
        self._given_cache = cache
        self.epoch = epoch

    def __reduce__(self) -> tuple[object, ...]:
        return (_opened, (self.root, self._given_cache, self.epoch))

    def __repr__(self) -> str:
        return f"Store({self.root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    @cached_property
    def _place(self) -> Place:
        return open_place(self.root, self._given_cache)

    def within(self, folder: str) -> Store:
        """Return the store of a folder of this one."""
        return Store(f"{self.root.rstrip('/')}/{_checked(folder)}", cache=self._given_cache, epoch=self.epoch)

    def in_epoch(self, epoch: int) -> Store:
        """Return the same store for a driver of this epoch and its workers."""
        return Store(self.root, cache=self._given_cache, epoch=epoch)

    def host_folder(self, name: str) -> Path:
        """Return a folder on this host that all its processes share, for what is made of this store under a name."""
        return HostCache(self._given_cache).folder_for(f"{self.url()}\n{name}")

    def url(self, name: str = "") -> str:
        """Return what Spark and people call the file or folder."""
        return self._place.url(name)

    # What a batch puts counts when its manifest is there, and a commit settles all its names at once: to sync a folder
    # for each of its files would take most of the time of a small batch.

    def put(self, name: str, write: Write, *, settled: bool | None = None) -> int:
        """Let `write` write a file, put it in its place complete, and return its size in bytes.

        It survives a power cut, but a name that `unique` gave does so after `settle`, unless `settled` says otherwise.
        """
        settled = batch_of(name) is None if settled is None else settled
        with explained(self._called(name), "written"):
            return self._place.put(_checked(name), write, settled=settled).size

    def put_summed(self, name: str, write: Write) -> Entry:
        """Do what `put` does, under a name to which the checksum is added; return that name and the size in bytes.

        Whoever reads the file by this name finds out whether it is what was written.
        """
        with explained(self._called(name), "written"):
            return self._place.put(_checked(name), write, with_sum=True, settled=batch_of(name) is None)

    def put_folder(self, name: str, write: Write, *, like: str | None = None) -> int:
        """Let `write` fill a new folder, put it in its place complete, and return the size of its files in bytes.

        Where the place can, what equals a file of the older folder `like` is a link to that.
        """
        with explained(self._called(name), "written"):
            known = None if like is None else _checked(like)
            return self._place.put_folder(_checked(name), write, like=known, settled=batch_of(name) is None)

    def settle(self, names: Iterable[str]) -> None:
        """Have the names of files and folders survive a power cut, with one sync for each folder they are in."""
        with explained(self.root, "written"):
            self._place.settle(names)

    def commit(self, name: str, data: bytes) -> None:
        """Put these bytes in place in one step; StoreConflict if other bytes are there already."""
        with explained(self._called(name), "written"):
            if self._place.create(_checked(name), data) or self._place.read(name) == data:
                return
        raise StoreConflict(
            f"{self._called(name)} is there already, with another content; two runs share this checkpoint: stop one"
        )

    def check_commits(self) -> None:
        """Refuse, by name, a place where two writers could both `commit`."""
        with explained(self.root, "written"):
            self._place.check_commits()

    def move(self, names: Mapping[str, str], *, missing_ok: bool = False) -> None:
        """Give files other names, {old: new}, each in one step where the place can; what had these before is gone.

        With `missing_ok` a file that is not there is passed over: another driver has moved it.
        """
        for old, new in names.items():
            with explained(self._called(old), "moved"), suppress(*([FileNotFoundError] if missing_ok else [])):
                self._place.rename(_checked(old), _checked(new))
        self.settle(names.values())

    def local(self, name: str, *, verify: bool | None = None) -> Path:
        """Return a path of this host under which the file or folder can be mapped.

        `IncompatibleStore` names a file that is not what was written: a file is compared with the checksum in its name,
        a folder with the list of its contents, as `check_contents` does with `verify`.
        """
        called = self._called(name)
        with explained(called, "read"):
            path = self._place.local(_checked(name))
            try:
                _check(path, called, verify)
            except IncompatibleStore:
                if not self._place.let_go(path):
                    raise
                path = self._place.local(name)  # the copy that was downloaded may be to blame, not what is there
                _check(path, called, verify)
            return path

    def read_bytes(self, name: str) -> bytes:
        """Return the content of a file; `IncompatibleStore` if it is not that of the checksum in its name."""
        with explained(self._called(name), "read"):
            data = self._place.read(_checked(name))
        crc = sum_in_name(name)
        if crc is not None and crc != sum_of_bytes(data).crc:
            raise damaged(self._called(name), _OTHER_CONTENT)
        return data

    def exists(self, name: str) -> bool:
        """Tell whether the file, or the complete folder, is there."""
        with explained(self._called(name), "read"):
            sizes = self._place.sizes_within(_checked(name))
            return sizes is not None and ("" in sizes or CONTENTS in sizes)

    def sizes(self, prefix: str = "", *, with_hidden: bool = False) -> dict[str, int]:
        """Return the names that begin so, sorted, with their bytes: files, and folders that were put as one."""
        with explained(self._called(prefix), "listed"):
            found = dict(self._place.entries(prefix))
        return {name: found[name] for name in sorted(found) if with_hidden or not _is_hidden(name)}

    def sizes_of(self, names: Iterable[str]) -> dict[str, int]:
        """Return what `sizes` does of some names, without those that are not there; a path is not listed for it."""
        with explained(self.root, "listed"):
            return dict(self._place.sizes_of(names))

    def list(self, prefix: str = "") -> list[str]:
        """Return the names that begin so, sorted: of files, and of folders that were put as one."""
        return [*self.sizes(prefix)]

    def delete(self, names: Iterable[str]) -> None:
        """Remove files and folders; those that are not there are fine."""
        for name in names:
            with explained(self._called(name), "deleted"):
                self._place.delete(_checked(name))

    def problem(self, name: str, size: int | None = None) -> str | None:
        """Return what is wrong with a file or folder, such as "is missing"; None if it is complete.

        A folder is compared with the list of its contents, a file with `size` if given.
        """
        with explained(self._called(name), "read"):
            sizes = self._place.sizes_within(_checked(name))
        if sizes is None:
            return "is missing"
        if "" in sizes:
            expected = {} if size is None else {"": size}
        elif CONTENTS not in sizes:
            return "is not complete"
        else:
            try:
                listed = read_contents(self.read_bytes(f"{name}/{CONTENTS}"), CONTENTS)
            except IncompatibleStore:
                return f"is damaged: {CONTENTS} in it is cut off or was edited"
            expected = {file: each.size for file, each in listed.items()}
        for file, wanted in expected.items():
            if file not in sizes:
                return f"lacks {file}"
            if sizes[file] != wanted:
                at = f"{file} in it " if file else ""
                return f"is damaged: {at}has {sizes[file]:,} bytes, not {wanted:,}"
        return None

    def unique(self, kind: str, batch: int, partition: int | None = None, suffix: str = "") -> str:
        """Return a name that no other attempt gets, such as deltas/00000012-0003-e1-1f2e3d4c.npz."""
        of = "" if partition is None else f"-{partition:04d}"
        return f"{kind}/{batch:08d}{of}-e{self.epoch}-{secrets.token_hex(4)}{suffix}"

    def _called(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}".rstrip("/")


_OTHER_CONTENT = "its content is not what was written (CRC-32)"


def _check(path: Path, called: str, verify: bool | None) -> None:
    """Compare a file with the checksum in its name, or a folder with the list of its contents."""
    if path.is_dir():
        if not (path / CONTENTS).exists():
            raise damaged(called, f"{CONTENTS} is missing in it")
        listed = read_contents((path / CONTENTS).read_bytes(), f"{called}/{CONTENTS}")
        check_contents(path, listed, verify, called=called)
        return
    crc = sum_in_name(path.name)
    if crc is not None and crc != sum_of(path).crc:
        raise damaged(called, _OTHER_CONTENT)


def batch_of(name: str) -> int | None:
    """Return the batch in a name that `Store.unique` gave, or in a name below it; None for any other name."""
    found = _UNIQUE.match(name)
    return None if found is None else int(found[1])


def draft_of(name: str) -> str | None:
    """Return the name in whose place a draft is to be put; None for what is no draft."""
    found = _DRAFT.fullmatch(name)
    return None if found is None else f"{found[1]}{found[2]}"


def epoch_of(name: str) -> int:
    """Return the epoch in a name that `Store.unique` gave, or in a name below it; 0 for any other name."""
    found = _EPOCH.search(name)
    return 0 if found is None else int(found[1])


def with_epoch(name: str, epoch: int) -> str:
    """Return a name that `Store.unique` gave in another epoch as it would be in this one."""
    return _EPOCH.sub(f"-e{epoch}-", name, count=1)


def _opened(root: str, cache: str | None, epoch: int) -> Store:
    return Store(root, cache=cache, epoch=epoch)


def _checked(name: str) -> str:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or str(path) != name:
        raise InvalidInput(f"{name!r} is no name in a store; expected a relative path such as deltas/00000012.npz")
    return name


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))
