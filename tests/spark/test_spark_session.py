"""A session, and tasks run as Spark jobs: in order, each payload once, errors in one line."""

import os
import sys
from pathlib import Path

import pytest

from nearcast.errors import InvalidColumns, InvalidQuery, NearcastError
from nearcast.pipeline.runner import LocalRunner
from nearcast.spark.claims import Claims
from nearcast.spark.failures import in_one_line
from nearcast.spark.runner import SparkRunner

# Tasks: importable, so that workers find them.


def double(payload):
    return 2 * payload


def refuse(payload):
    if payload >= 2:
        raise InvalidColumns(f"payload {payload}: there is no column", field="id")
    return payload


def misquery(payload):
    raise InvalidQuery("a bracket is not closed", query="(tea", line=1, column=5)


def divide(payload):
    return 1 / payload


def leave(payload):
    """Note the run of a payload; die in the middle of the first run of those marked."""
    folder, name, dies = payload
    runs = Path(folder) / name
    with runs.open("a") as file:
        file.write(f"{os.getpid()}\n")
    if dies and len(runs.read_text().splitlines()) == 1:
        os._exit(3)
    return name


def die(payload):
    os._exit(3)


_held: set[int] = set()


def hold(payload):
    """Return whether this worker had the payload before."""
    had = payload in _held
    _held.add(payload)
    return had, os.getpid()


def held(payloads):
    return [at for at, payload in enumerate(payloads) if payload in _held]


@pytest.fixture(params=["local", "spark"])
def runner(request):
    return LocalRunner() if request.param == "local" else SparkRunner(request.getfixturevalue("spark"))


def test_results_are_in_the_order_of_payloads(runner):
    assert [0, 2, 4, 6, 8] == runner.map(double, [0, 1, 2, 3, 4])
    assert [] == runner.map(double, [])


def test_an_error_of_nearcast_comes_back_as_it_was(runner):
    """The first in the order of payloads, with its field."""
    with pytest.raises(InvalidColumns, match=r"^payload 2: there is no column$") as caught:
        runner.map(refuse, [0, 2, 3])
    assert "id" == caught.value.field
    with pytest.raises(InvalidQuery, match="a bracket is not closed") as query:
        runner.map(misquery, [0])
    assert (1, 5) == (query.value.line, query.value.column)


def test_another_error_is_told_in_one_line(spark):
    with pytest.raises(NearcastError) as caught:
        SparkRunner(spark).map(divide, [1, 0])
    assert "divide failed in a worker of Spark: ZeroDivisionError: division by zero" == str(caught.value)
    assert "in divide" in str(caught.value.__cause__)
    assert "\tat " not in str(caught.value.__cause__)


def test_a_worker_that_always_dies_is_told(spark):
    with pytest.raises(NearcastError, match="died at every attempt") as caught:
        SparkRunner(spark).map(die, [0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("with_claims", [False, True])
def test_a_worker_that_dies_is_replaced(spark, tmp_path, with_claims):
    """Each payload has one result, and only those whose worker died ran twice."""
    names = [f"p{i}" for i in range(6)]
    payloads = [(str(tmp_path), name, name in ("p1", "p4")) for name in names]
    claims = str(tmp_path / "claims") if with_claims else None
    assert names == SparkRunner(spark).map(leave, payloads, claims=claims, prefer=backwards)
    runs = {name: len((tmp_path / name).read_text().splitlines()) for name in names}
    assert {name: 2 if name in ("p1", "p4") else 1 for name in names} == runs
    assert not (tmp_path / "claims").exists()


def backwards(payloads):
    return list(range(len(payloads)))[::-1]


def test_claims_send_a_payload_to_the_worker_that_holds_it(spark, tmp_path):
    """After the first round most payloads are run where they were."""
    runner, n, rounds = SparkRunner(spark), 2, 12
    had = []
    for round_ in range(rounds):
        outcome = runner.map(hold, list(range(100, 100 + n)), claims=str(tmp_path / f"job-{round_}"), prefer=held)
        had += [was_held for was_held, _ in outcome]
    assert sum(had) >= n * (rounds - 4)


class TestClaims:
    def test_preferred_then_own_then_any(self, tmp_path):
        claims = Claims(tmp_path, 4)
        assert 3 == claims.take(0, False, [3, 1])
        assert 1 == claims.take(2, False, [3, 1])
        assert 0 == claims.take(1, False, [7, -1])
        assert 2 == claims.take(3, False, [])
        assert ["0", "1", "2", "3"] == sorted(path.name for path in tmp_path.iterdir())

    def test_a_task_that_is_run_again_has_what_it_had(self, tmp_path):
        claims = Claims(tmp_path, 2)
        assert 1 == claims.take(0, False, [1])
        assert 1 == claims.take(0, True, [0])
        assert 0 == claims.take(1, True, [])  # it died before it claimed anything

    def test_a_second_copy_of_a_task_has_what_the_first_has(self, tmp_path):
        claims = Claims(tmp_path, 1)
        assert 0 == claims.take(0, False, [])
        assert 0 == claims.take(0, False, [])


def test_failures_without_python_are_told_in_one_line():
    text = "An error occurred while calling o1.x.\n: java.io.IOException: No space left on device\n\tat a.b(C.java)\n"
    error = in_one_line(RuntimeError(text), "matching")
    assert "matching: Spark failed: : java.io.IOException: No space left on device" == str(error)


def test_an_error_of_nearcast_is_found_in_text():
    """As where an action on a DataFrame fails."""
    text = (
        "x: An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "a.py", line 1, in f\nnearcast.errors.IncompatibleStore: /a is missing; save it again\n\n\tat java\n'
    )
    error = in_one_line(RuntimeError(text), "matching")
    assert ("IncompatibleStore", "/a is missing; save it again") == (type(error).__name__, str(error))


def test_the_active_session_is_used(spark):
    from nearcast.spark import session

    assert spark is session("local[7]")
    assert "nearcast.spark.daemon" == spark.conf.get("spark.python.daemon.module")
    assert "UTC" == spark.conf.get("spark.sql.session.timeZone")


def test_checkpoints_on_a_local_disk_commit_by_rename(spark):
    from nearcast.spark.session import use_checkpoint

    name = "spark.sql.streaming.checkpointFileManagerClass"
    use_checkpoint(spark, "/data/k")
    assert "FileSystemBased" in spark.conf.get(name)
    use_checkpoint(spark, "s3a://bucket/k")
    assert spark.conf.get(name, None) is None


def test_a_query_that_nobody_computes_interprets_its_plans(spark):
    """The session is afterwards as it was: what its user has set stays, what nobody set is not set."""
    from nearcast.spark.session import interpreting_plans

    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")

    def seen():
        return [spark.conf.get(name) for name in names]

    usual = seen()
    with interpreting_plans(spark, True):
        assert ["false", "NO_CODEGEN"] == seen()
    assert usual == seen()
    with interpreting_plans(spark, False):
        assert usual == seen()
    spark.conf.set(names[1], "CODEGEN_ONLY")
    try:
        with interpreting_plans(spark, True):
            pass
        assert [usual[0], "CODEGEN_ONLY"] == seen()
    finally:
        spark.conf.unset(names[1])


@pytest.mark.parametrize(
    ("master", "slots"), [("local", 1), ("local[3]", 3), ("local[5,4]", 5), ("local-cluster[2,3,1024]", 6)]
)
def test_slots_of_a_local_master(master, slots):
    from nearcast.spark.session import settings_for

    assert str(slots) == settings_for(master)["spark.sql.shuffle.partitions"]


def test_a_cluster_keeps_its_own_ways():
    from nearcast.spark.session import settings_for

    assert not {"spark.driver.host", "spark.driver.memory", "spark.ui.enabled"} & set(settings_for("yarn"))


def test_what_spark_submit_was_given_counts(spark, monkeypatch):
    from nearcast.spark.session import _submitted

    assert {} == _submitted()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as it is in a process that spark-submit starts
    assert "local[2,4]" == _submitted()["spark.master"]


def test_without_pyspark_the_error_says_what_to_install(monkeypatch):
    from nearcast.spark.session import session

    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(NearcastError, match=r"pip install 'nearcast\[spark\]'"):
        session()


def test_an_old_pyspark_is_warned_of(monkeypatch):
    import pyspark

    from nearcast.spark.session import _check_pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.warns(UserWarning, match=r"PySpark 3\.5\.1 is older than 4\.1"):
        _check_pyspark()
