"""What newcomers get wrong with the server: misspelt parameters, wrong folders, copies that fail."""

from __future__ import annotations

import pytest

from nearcast import Hub, InvalidInput
from nearcast.cli import main
from nearcast.durable import DurableHub, check
from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.server import data_folders
from nearcast.server.run import make_server
from support.http_server import circle, running, settings_for


@pytest.mark.parametrize(
    ("method", "path", "name", "hint"),
    [
        ("POST", "/v1/subscriptions?validateonly=true", "validateonly", "did you mean validateOnly?"),
        ("GET", "/v1/subscriptions?subscribr=anna", "subscribr", "did you mean subscriber?"),
        ("DELETE", "/v1/subscriptions/kept?dry_run=1", "dry_run", "expected no parameters"),
        ("GET", "/v1/subscriptions?limit=0", "limit", "expected 1 or more"),
        ("GET", "/v1/subscriptions?limit=many", "limit", "limit: Input should be a valid integer"),
    ],
)
def test_misspelt_parameters(client, method, path, name, hint):
    """A parameter that a route does not know is refused by name, and nothing is stored or deleted."""
    client.put("/v1/subscriptions/kept", json=circle("kept"))
    answer = client.request(method, path, json=circle("typo") if method == "POST" else None)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, f"?{name}")
    assert hint in answer.json()["detail"]
    assert client.get("/v1/subscriptions/typo").status_code == 404
    assert client.get("/v1/subscriptions/kept").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/subscribers/anna/ack", {"cursor": 5}, "cursor is 5; expected the cursor of an event, as text"),
        ("/v1/subscribers/anna/ack", {}, "cursor is missing"),
        ("/v1/estimate", {"subscription": "kept"}, "subscription is 'kept'; expected an object"),
        ("/v1/estimate", {}, "subscription is missing"),
        ("/v1/estimate", {"id": 1, "text": "tea"}, "'id' means nothing here; expected subscription, sample"),
    ],
)
def test_bodies_of_another_shape(client, path, body, told):
    """The problem says what was given, and what the route takes."""
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


def test_data_that_is_no_folder_of_a_server(tmp_path):
    """A file, and the folder of a hub, are refused before anything is written there."""
    (tmp_path / "file").write_text("")
    Hub("plane").save(tmp_path / "saved")
    DurableHub(tmp_path / "durable", "plane").close()
    for name, reason in (("file", "which is a file"), ("saved", "a hub of its own"), ("durable", "a hub of its own")):
        with pytest.raises(InvalidInput, match=reason):
            make_server(settings_for(tmp_path / name))
    assert not list(tmp_path.glob("*/tokens.db"))


def test_a_space_that_there_is_not(tmp_path):
    """`--set hub.space=mars` is one line, and makes no folder."""
    with pytest.raises(InvalidInput, match=r"hub\.space is 'mars'; expected earth or plane"):
        make_server(settings_for(tmp_path / "data", hub={"space": "mars"}))
    assert not (tmp_path / "data").exists()


def test_a_copy_that_fails_leaves_nothing(tmp_path):
    """A backup of a folder in use leaves the target as it was: new, or empty; another backup there is kept."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with running(data), pytest.raises(NearcastError, match="in use"):
        data_folders.backup_data(data, copy)
    assert not list(copy.rglob("*.db"))
    data_folders.backup_data(data, copy)
    with pytest.raises(FileExistsError):
        data_folders.backup_tenant(data / "tenants/default/hub", data / "tenants/default", copy / "tenants/default")
    assert data_folders.check_data(copy) == []


def test_doctor_writes_nothing(tmp_path, capsys):
    """A look at a folder that holds something else leaves no file there, and says what was expected."""
    with pytest.raises(IncompatibleStore, match="holds no durable hub"):
        check(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileExistsError, match=r"holds notes\.txt"):
        DurableHub(tmp_path, "plane")
    for command in (["doctor", str(tmp_path)], ["backup", str(tmp_path), str(tmp_path / "copy")]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 2
        assert "neither the data of a server nor a durable hub" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_a_retention_as_text(tmp_path):
    """`retention="7d"` is refused when the hub is made, and makes no folder."""
    with pytest.raises(
        InvalidInput, match=r"""retention is '7d'; expected a Retention, such as Retention\(age="7d"\)"""
    ):
        DurableHub(tmp_path / "city", "plane", retention="7d")
    assert not (tmp_path / "city").exists()
