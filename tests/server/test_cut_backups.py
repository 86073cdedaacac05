"""Copies of a data folder with several tenants that `kill -9` cuts short: at every moment whole, or refused by name."""

import os
import select
import signal
import sys

import pytest

from nearcast.errors import IncompatibleStore
from nearcast.server.data_folders import backup_data, backup_tenant, check_data, restore_data
from nearcast.server.run import make_server
from support.http_server import circle, make_token, running, settings_for
from support.waiting import PATIENCE_S

#: Events of the interpreter (`sys.addaudithook`) that come before a file or a folder is touched.
TOUCHES = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir")
#: Moments at which a copy is killed, beside the first and the last ones.
N_MOMENTS = 5


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return the data folder of a server that has stopped, with two tenants and tokens."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    token = make_token(folder, tenant="red")
    with running(folder) as server:
        for each in (None, token):
            with server.client(each) as client:
                client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
    return folder


def touches_of(work, most):
    """Do some work in a process that is killed when it touches files once more than `most`; return how often it did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def hook(event, _):
            nonlocal count
            if event not in TOUCHES:  # the kill itself, say
                return
            count += 1
            if count > most:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            work()
            os.write(writing, b"%d" % count)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        if not select.select([told], [], [], PATIENCE_S)[0]:
            os.kill(child, signal.SIGKILL)
        found = told.read()
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), "it failed by itself"
    return int(found) if found else None


def moments_of(n):
    """Return some moments of a work that touches files so often, the first and the last among them."""
    return sorted({0, 1, 2, 3, *range(4, n, max(1, n // N_MOMENTS)), n - 2, n - 1})


@pytest.mark.parametrize("copy_into", [backup_data, restore_data])
def test_a_copy_that_was_killed_is_whole_or_refused_by_name(data, tmp_path, copy_into):
    """By check, restore, backup and serve, unless nothing was made yet."""
    n = touches_of(lambda: copy_into(data, tmp_path / "whole"), sys.maxsize)
    _check_whole(tmp_path / "whole")
    n_refused = 0
    for moment in moments_of(n):
        copy = tmp_path / f"copy-{moment}"
        assert touches_of(lambda copy=copy: copy_into(data, copy), moment) is None
        if not copy.exists() or not any(copy.iterdir()):
            continue
        if not (copy / "unfinished").exists():
            _check_whole(copy)
            continue
        n_refused += 1
        assert "cut short" in check_data(copy)[0]
        for refused in (restore_data, backup_data):
            with pytest.raises(IncompatibleStore, match="cut short"):
                refused(copy, tmp_path / "again")
        with pytest.raises(IncompatibleStore, match="cut short"):
            make_server(settings_for(copy))
        assert not (tmp_path / "again").exists()
    assert n_refused >= N_MOMENTS


def _check_whole(copy):
    assert [] == check_data(copy)
    assert {"default", "red"} == {each.name for each in (copy / "tenants").iterdir()}
    assert (copy / "tokens.db").exists()


def test_a_tenant_that_was_killed_while_it_was_copied_is_refused(data, tmp_path):
    """As the server copies it, beside others that are whole."""
    red, default = (data / "tenants" / name for name in ("red", "default"))
    backup_tenant(red / "hub", red, tmp_path / "copy/tenants/red")
    assert [] == check_data(tmp_path / "copy")
    target = tmp_path / "copy/tenants/default"
    n = touches_of(lambda: backup_tenant(default / "hub", default, tmp_path / "whole"), sys.maxsize)
    assert touches_of(lambda: backup_tenant(default / "hub", default, target), n // 2) is None
    (problem,) = check_data(tmp_path / "copy")
    assert str(target) in problem
    with pytest.raises(IncompatibleStore, match="cut short"):
        restore_data(tmp_path / "copy", tmp_path / "again")


def test_a_copy_that_failed_can_be_made_again(data, tmp_path, monkeypatch):
    """Nothing is left of it."""

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("nearcast.durable.backup", full)
        with pytest.raises(OSError, match="No space"):
            backup_data(data, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    backup_data(data, tmp_path / "copy")
    _check_whole(tmp_path / "copy")
