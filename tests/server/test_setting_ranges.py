"""Settings that no server could have are one line at the start: what was given, from where, and what is expected."""

import dataclasses

import pytest

from nearcast.cli import main
from nearcast.errors import InvalidInput
from nearcast.server.setting_ranges import _RANGES
from nearcast.server.settings import Settings, load_settings

#: A setting as it is given, and what the line says.
BAD = {
    "limits.x=-1": "there is no setting limits.x",
    "limits.batch=-1": "limits.batch is '-1'; expected 1 to",
    "limits.batch=": "limits.batch is ''; expected int",
    "limits.query_words=0": "limits.query_words is '0'; expected 1 to 1,000",
    "limits.query_depth=65": "limits.query_depth is '65'; expected 1 to 64",
    "limits.vertices=100001": "limits.vertices is '100001'; expected 1 to 100,000",
    "limits.stall_seconds=nan": "limits.stall_seconds is 'nan'; expected 0.001 to",
    "limits.wait_seconds=inf": "limits.wait_seconds is 'inf'; expected 0 to",
    "limits.body_bytes=999999999999999999999": "limits.body_bytes is '999999999999999999999'",
    "limits.rate=often": "limits.rate is 'often'; expected a number above 0 and a time, like '1000/second'",
    "limits.rate=0/second": "limits.rate is '0/second'; expected a number above 0",
    "server.port=70000": "server.port is '70000'; expected 0 to 65,535",
    "server.host=": "server.host is ''; expected a name",
    "server.allowed_hosts=[a,b": "server.allowed_hosts is '[a,b'; expected names with commas between",
    "hub.beat_seconds=-1": "hub.beat_seconds is '-1'; expected 0 to",
    "hub.max_distance=0": "hub.max_distance is '0'",
    "hub.space=mars": "hub.space is 'mars'; expected earth or plane",
    "hub.index=bogus": "there is no index 'bogus'",
    "hub.window=-3": "window is '-3'; expected a number of messages",
    "hub.lifetime=soon": "lifetime is 'soon'; expected",
    "hub.retention_age=never": "age is 'never'; expected a time",
    "webhooks.allow=[10.0.0.0/33]": "allowed host is '10.0.0.0/33'; expected a name, an address or a network",
    "webhooks.timeout_seconds=0": "webhooks.timeout_seconds is '0'",
}


@pytest.mark.parametrize("given", BAD)
def test_a_setting_out_of_range_is_one_line(tmp_path, capsys, given):
    """And nothing was made."""
    with pytest.raises(SystemExit) as left:
        main(["serve", "--data", str(tmp_path / "data"), "--port", "0", "--set", given])
    told = capsys.readouterr().err
    assert left.value.code in (1, 2)
    assert BAD[given] in told
    assert 1 == len(told.strip().splitlines())
    assert not (tmp_path / "data").exists()


def test_the_line_says_where_a_setting_came_from(tmp_path):
    """The file, the environment, or the command line."""
    file = tmp_path / "nearcast.toml"
    file.write_text("[limits]\nbatch = -1\n")
    with pytest.raises(InvalidInput, match=r"nearcast.toml: limits.batch is -1; expected 1 to"):
        load_settings(file, {})
    with pytest.raises(InvalidInput, match=r"the environment: limits.batch is '-1'; expected 1 to"):
        load_settings(None, {"NEARCAST_LIMITS__BATCH": "-1"})
    with pytest.raises(InvalidInput, match=r"cannot be read \(Is a directory\); give a file of settings"):
        load_settings(tmp_path, {})


@pytest.mark.parametrize(
    "given", ["10.0.0.0/8, hooks.internal", '["10.0.0.0/8", "hooks.internal"]', "[10.0.0.0/8,'hooks.internal']"]
)
def test_a_list_may_be_in_brackets(given):
    """As in the file, or without quotes."""
    found = load_settings(None, {}, {"webhooks": {"allow": given}})
    assert ("10.0.0.0/8", "hooks.internal") == found.webhooks.allow
    assert () == load_settings(None, {"NEARCAST_WEBHOOKS__ALLOW": "[]"}).webhooks.allow


@pytest.mark.parametrize("given", ["[::1],[fe80::1]", "example.com, [fd00::5]"])
def test_brackets_may_be_those_of_addresses(given):
    """Each name has its own then."""
    found = load_settings(None, {}, {"server": {"allowed_hosts": given}})
    assert tuple(given.replace(" ", "").split(",")) == found.server.allowed_hosts


def test_every_number_has_a_range_that_its_default_lies_in():
    """A new setting without one would take -1."""
    numbers = {}
    for section in dataclasses.fields(Settings):
        values = getattr(Settings(), section.name)
        for each in dataclasses.fields(values):
            if "int" in each.type or "float" in each.type:
                numbers[f"{section.name}.{each.name}"] = getattr(values, each.name)
    assert numbers.keys() == _RANGES.keys()
    for name, value in numbers.items():
        assert value is None or _RANGES[name][0] <= value <= _RANGES[name][1]
