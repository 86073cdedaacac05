"""The programs in `examples/`: each runs as a reader would run it, and prints what stands here."""

import sys
from pathlib import Path

import pytest

from support.waiting import run

EXAMPLES = Path(__file__).parents[1] / "examples"

#: What each example prints.
PRINTED = {
    "hub_in_ten_lines.py": """\
anna gets m1
bert gets m1
cleo gets m1
""",
    "own_index.py": """\
message 1 reaches [207, 208]
outside the box (207, 0) to (217, 10) by 33
20 random scripts: the answers are those of scan
""",
    "prometheus_stream.py": """\
nearcast_batches_total 1.0
nearcast_failures{of="hook"} 0.0
nearcast_failures{of="snapshots"} 0.0
nearcast_rows_total{kind="changes"} 0.0
nearcast_rows_total{kind="deliveries"} 3.0
nearcast_rows_total{kind="late"} 0.0
nearcast_rows_total{kind="messages"} 2.0
nearcast_rows_total{kind="rejected"} 1.0
""",
    "stream_from_files.py": """\
deliveries after the morning: 2
deliveries after the evening: 4
08:00 anna gets m1
08:05 bert gets m2
20:00 anna gets m3
20:00 bert gets m3
""",
    "tables.py": """\
[('cleo', 'query')]
anna          Ramen for two
bert Coffee, freshly ground
bert            Ramen again
[('anna', 1), ('bert', 2)]
west Ramen for two POINT (13.401 52.521)
east Coffee, freshly ground POINT (13.449 52.501)
[('anna', 'Ramen for two'), ('bert', 'Coffee, freshly ground'), ('bert', 'Ramen again')]
""",
}

#: Those that run in the Spark session of all tests: `tests/spark/test_stream_example.py`. Another one has its own.
IN_THE_SESSION = {"prometheus_stream.py"}


def test_every_example_is_run_and_says_how():
    """No example is forgotten, and the head of each names the command that runs it."""
    heads = {path.name: path.read_text().split('"""')[1] for path in EXAMPLES.glob("*.py")}

    assert sorted(PRINTED) == sorted(heads)
    assert [] == [name for name, head in heads.items() if f"Run it: python examples/{name}" not in head]


@pytest.mark.parametrize("name", sorted(PRINTED.keys() - IN_THE_SESSION))
def test_an_example_prints_what_it_shows(name, tmp_path):
    """It runs in any folder, to its end, without a warning."""
    ran = run([sys.executable, "-W", "error", EXAMPLES / name], cwd=tmp_path)

    assert (0, PRINTED[name]) == (ran.returncode, ran.stdout), ran.stderr
