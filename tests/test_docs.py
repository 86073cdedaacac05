"""What the documents say is true: their Python runs, their commands run, their links lead somewhere."""

import code
import doctest
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
TUTORIAL = ROOT / "docs" / "tutorial.md"
EVERY_PAGE = sorted({*PAGES, *ROOT.glob("*.md")})
LONGEST_LINE = 120


def programs_of(page):
    """Return the blocks of Python without prompts, each with the text block after it: what it prints."""
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", page.read_text(), re.DOTALL)
    return [(program, expected) for program, expected in blocks if not program.startswith(">>>")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_a_page_gives_the_output_shown(page):
    """Every example can be pasted."""
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)

    assert failed == 0


@pytest.mark.parametrize("page", [page for page in PAGES if page != TUTORIAL], ids=lambda page: page.name)
def test_python_to_paste_prints_what_stands_below_it(page, capsys):
    """A block without prompts is a program of its own; the text block after it is its output."""
    for program, expected in programs_of(page):
        exec(compile(program, page.name, "exec"), {})
        assert expected == capsys.readouterr().out


def test_the_tutorial_can_be_pasted_into_one_session(capsys, monkeypatch, tmp_path):
    """Its blocks are typed line by line into one interactive session, which prints what stands below each of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "displayhook", lambda _: None)  # the page says that echoed values are left out
    session = code.InteractiveConsole()
    programs = [each for each in programs_of(TUTORIAL) if "Client(" not in each[0]]  # tests/test_tutorial_server.py
    assert len(programs) > 10

    for program, expected in programs:
        for line in (*program.splitlines(), ""):
            is_unfinished = session.push(line)
        assert (False, expected, "") == (is_unfinished, *capsys.readouterr())


def test_commands_of_the_readme_run(nearcast, tmp_path, monkeypatch):
    """Every `$ nearcast` line works in an empty folder, one after the other."""
    commands = re.findall(r"^\$ (nearcast .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands

    monkeypatch.chdir(tmp_path)
    for command in commands:
        ran = nearcast(*shlex.split(command)[1:])
        assert (0, command) == (ran.status, command), ran.err


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    """A link to a file of ours names a file that is there."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors_of(page):
    """Return the anchors of the headings of a page, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_links_to_headings_lead_to_one(page):
    """The part of a link behind `#` is a heading of the page it leads to."""
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())

    assert [] == [link for link in links if link[1] not in anchors_of(page.parent / link[0] if link[0] else page)]


def prose_of(page):
    """Return the lines of a page with their numbers, but for tables and what stands between fences."""
    is_fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and not line.lstrip().startswith("|"):
            yield number, line


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_lines_of_prose_fit_into_a_window(page):
    """Text and indented commands end at column 120, so that a change can be read line by line."""
    assert [] == [number for number, line in prose_of(page) if len(line) > LONGEST_LINE]


def is_there(name):
    """Tell whether a dotted name is a module, or an attribute of one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_dotted_names_in_a_page_are_modules_or_their_attributes(page):
    """`nearcast.x.y` in a page is something that can be imported."""
    names = set(re.findall(r"(?<![\w/-])nearcast(?:\.[A-Za-z_]\w*)+", page.read_text()))

    assert [] == sorted(name for name in names if not is_there(name))


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_in_a_page_about_the_code_are_there(name):
    """A path in backticks, `indexes/scan.py` or `trigger/segment`, is the end of a path in the repository."""
    folders = ("src", "tests", "docs", "examples")
    paths = [
        f"/{each.relative_to(ROOT)}" for folder in folders for each in [ROOT / folder, *(ROOT / folder).rglob("*")]
    ]
    paths += [path.removesuffix(".py") for path in paths]
    named = re.findall(r"`((?:[\w-]+/)+(?:[\w-]+(?:\.(?:py|md))?)?)`", (ROOT / name).read_text())
    assert named

    assert [] == [each for each in named if not any(path.endswith(f"/{each.rstrip('/')}") for path in paths)]


@pytest.mark.parametrize("folder", ["", "indexes", "pipeline"])
def test_the_architecture_names_every_room(folder):
    """A room or a module beside rooms that is added is described, too."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    entries = [path for path in (ROOT / "src" / "nearcast" / folder).iterdir() if path.is_dir() or path.suffix == ".py"]
    rooms = {path.stem for path in entries} - {"__init__", "__main__", "__pycache__"}
    assert rooms

    assert [] == sorted(room for room in rooms if not re.search(rf"\b{room}\b", text))


def test_importing_nearcast_loads_neither_numba_nor_spark_nor_the_server():
    """A small program stays small."""
    unwanted = ("numba", "pyspark", "fastapi", "uvicorn", "typer", "pandas")
    code = f"import sys, nearcast; print([m for m in {unwanted} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"


def test_no_file_names_a_machine():
    """Nothing committed holds a path of the machine it was written on."""
    pattern = re.compile(r"(?<![\w.])/(work|root|home|tmp)/")
    here = Path(__file__).name
    pages = [
        p
        for folder in ("src", "tests", "docs", "examples")
        for p in (ROOT / folder).rglob("*")
        if p.suffix in {".py", ".md"}
    ]

    assert [str(p) for p in [*pages, *ROOT.glob("*.md")] if p.name != here and pattern.search(p.read_text())] == []
