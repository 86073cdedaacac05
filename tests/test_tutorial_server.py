"""The tutorial's way through the server can be pasted: its shell blocks and its Python, in the order of the page."""

import code
import os
import re
import sys
from pathlib import Path

from support.http_server import running
from support.waiting import run

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.md"
_SERVE = ".venv/bin/nearcast serve --data town\n"


def section():
    """Return the blocks of the part about the server: language and text of each."""
    part = TUTORIAL.read_text().split("## A server, and a page to watch it")[1].split("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL)


def with_nearcast(folder):
    """Make a folder look like the one of the tutorial: its environment has the command."""
    command = folder / ".venv" / "bin" / "nearcast"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m nearcast "$@"\n')
    command.chmod(0o755)


def test_the_way_through_the_server_can_be_pasted(tmp_path, capsys, monkeypatch):
    """Curl, the client and `tail` speak with one server; only its port is another one than the page's."""
    monkeypatch.setattr(sys, "displayhook", lambda _: None)
    with_nearcast(tmp_path)
    blocks = section()
    assert ("sh", _SERVE) == blocks[0]
    session = code.InteractiveConsole()
    session.push("from nearcast import Circle, Message, Within")
    with running(tmp_path / "town") as server:
        port = server.url.rpartition(":")[2]
        for language, text in blocks[1:]:
            text = text.replace("8080", port)
            if language == "sh":
                text = text.replace("nearcast tail", f"nearcast tail --url {server.url}")
                done = run(["bash", "-ec", text], cwd=tmp_path, env={**os.environ, "no_proxy": "*"})
                assert 0 == done.returncode, done.stderr
                assert "anna" in done.stdout
            elif language == "python":
                is_unfinished = [session.push(line) for line in (*text.splitlines(), "")][-1]
                printed = capsys.readouterr()
                assert (False, "") == (is_unfinished, printed.err)
            else:
                assert text == printed.out
        session.push("client.close()")
