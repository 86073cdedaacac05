"""Examples of streams that share the session of all tests: a Java of its own would take ten times as long."""

import runpy

import pytest

from test_examples import EXAMPLES, IN_THE_SESSION, PRINTED


@pytest.mark.parametrize("name", IN_THE_SESSION)
def test_an_example_prints_what_it_shows(spark, capsys, monkeypatch, tmp_path, name):
    """It runs in any folder, to its end, without a warning."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    assert PRINTED[name] == capsys.readouterr().out
