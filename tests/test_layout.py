"""The layout of the package: imports point one way, without circles, and private modules stay at home."""

import ast
import re
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
#: The package's own modules that every room may use.
ALLOWED = {"_arrow", "_ids", "_java", "_jit", "_saved"}


def test_rooms_import_none_above_them(monkeypatch, capsys):
    """The contracts in pyproject.toml hold: layers, and no circles between siblings."""
    monkeypatch.chdir(ROOT)

    assert 0 == lint_imports(config_filename="pyproject.toml", cache_dir=None), capsys.readouterr().out


def test_no_module_imports_itself_by_a_way_round():
    """Not even a package and its own modules, which import-linter does not look at."""
    graph = grimp.build_graph("nearcast", exclude_type_checking_imports=True, cache_dir=None)
    left = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while outside := [m for m in left if not left[m] & left.keys() or not any(m in left[other] for other in left)]:
        for module in outside:
            del left[module]

    assert [] == sorted(left)


def imported_by(path):
    """Return the modules a file imports, also what it may import as a name of a package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def private_imports():
    """Return who imports a private module of another room."""
    modules = {".".join(path.relative_to(SOURCES).with_suffix("").parts): path for path in SOURCES.rglob("*.py")}
    private = {name for name in modules if name.rpartition(".")[2].startswith("_") and not name.endswith("__")}
    asked = {name.rpartition(".")[2] for name in private - {f"nearcast.{name}" for name in ALLOWED}}
    named = re.compile(rf"\b({'|'.join(sorted(asked))})\b")
    for module, path in sorted(modules.items()):
        if not named.search(path.read_text()):  # to parse them all takes long
            continue
        for name in imported_by(path):
            found = next((each for each in private if f"{name}.".startswith(f"{each}.")), None)
            if found is None:
                continue
            room, _, last = found.rpartition(".")
            is_own = room == "nearcast" and last in ALLOWED
            if not is_own and module.rpartition(".")[0] != room:
                yield module, found


def test_no_room_imports_a_private_module_of_another():
    """What another room imports is public there."""
    assert [] == list(private_imports())


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_what_is_allowed_is_there(name):
    """The list of exceptions holds no name that is gone."""
    assert (SOURCES / "nearcast" / f"{name}.py").is_file()


def test_no_two_classes_have_one_name():
    """A name is looked up by people, too. Steps of an explanation and of a script are both public, and stay."""
    classes = re.compile(r"^ *class _*(\w+)[(\[:]", re.MULTILINE)  # to parse all files takes long
    names = [name for path in SOURCES.rglob("*.py") for name in classes.findall(path.read_text())]

    assert ["Step"] == sorted({name for name in names if names.count(name) > 1})
