"""A Spark session with the settings the pipeline was measured with: the one that runs, or one embedded in this process.

Imports pyspark only when called.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nearcast.errors import InvalidInput, NearcastError, NotSupported
from nearcast.pipeline.store.places import spark_url

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

#: All cores of this machine; a task that fails is tried four times, where plain `local[*]` gives up at once.
EMBEDDED = "local[*,4]"
_OLDEST = (4, 1)
_LOGGING = Path(__file__).with_name("log4j2.properties")
_GIB = 1 << 30
_CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_RENAMING_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ENDING_SOURCES = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
#: What has Spark walk through the expressions of a plan, in place of code that it generates and compiles for them.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def refuse_connect(*given: Any) -> None:
    """Raise `NotSupported` for a session or DataFrame of Spark Connect, whose client has no SparkContext."""
    if any(type(each).__module__.startswith("pyspark.sql.connect.") for each in given):
        raise NotSupported(
            "this session is one of Spark Connect, and nearcast needs the driver's own; run by spark-submit, or with"
            " nearcast.spark.session()"
        )


def session(
    master: str | None = None, *, app: str = "nearcast", settings: Mapping[str, Any] | None = None
) -> SparkSession:
    """Return the active Spark session, as it is, or start one; by default embedded, on all cores of this machine.

    `master`, `app` and `settings` are for a session that is started; `settings` are Spark's own and win over ours, as
    does what spark-submit was given. A session that is started here is stopped when this process ends.
    """
    _check_pyspark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        refuse_connect(active)
        return active
    submitted = _submitted()
    master = master or submitted.get("spark.master") or EMBEDDED
    ours = {name: value for name, value in settings_for(master).items() if name not in submitted}
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in {**ours, **_sockets(master), **(settings or {})}.items():
        builder = builder.config(name, str(value))
    with _environment(_variables() | (_java() if SparkContext._gateway is None else {})):
        started = builder.getOrCreate()
    # Otherwise Spark and its workers learn of the end by broken pipes, and leave files behind.
    atexit.register(started.stop)
    return started


def _submitted() -> dict[str, str]:
    """Return the settings that spark-submit was given, none where it did not start this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def settings_for(master: str) -> dict[str, str]:
    """Return our settings for a session with this master, by Spark's names."""
    is_local = master.startswith("local")
    found = {
        # Kernels are loaded once in the process that workers fork from, not once in each worker.
        "spark.python.daemon.module": "nearcast.spark.daemon",
        # A task is a batch of messages: rows by the ten thousand spread the cost of a call.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
        # A job of snapshots then shares the slots with a batch that begins after it.
        "spark.scheduler.mode": "FAIR",
        # Times are UTC in every column we read and write.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in _caches().items():
        found[f"spark.executorEnv.{name}"] = value
    if is_local:
        found |= {
            # It takes a port and time to start; whoever wants to look sets it to true.
            "spark.ui.enabled": "false",
            # Nobody looks: a stream makes some jobs a second, and Spark would keep the last thousand of them in memory.
            "spark.ui.retainedJobs": "100",
            "spark.ui.retainedStages": "100",
            "spark.sql.ui.retainedExecutions": "100",
            # What was listed: a stream asks for no file twice, and Spark would keep up to 250 MB of them.
            "spark.sql.metadataCacheTTLSeconds": "600",
            # An extra task is some 29 ms: as many as there are slots.
            "spark.sql.shuffle.partitions": str(_slots(master)),
            # Works off-line, and where the name of the host leads nowhere.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # The rest is for Python workers and for mapped files.
            "spark.driver.memory": f"{_driver_memory() // (1 << 20)}m",
            # Subscriptions are collected, and millions of them pass the usual limit of 1 GiB.
            "spark.driver.maxResultSize": "0",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        }
    return found


def _sockets(master: str) -> dict[str, str]:
    """Let Spark talk to Python through files, which halves the time of a small job: TCP waits for acknowledgements."""
    if not master.startswith("local"):
        return {}
    folder = tempfile.mkdtemp(prefix="nearcast-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def use_checkpoint(spark: SparkSession, location: str | Path) -> None:
    """Let a stream of this session that has its checkpoint here commit in the cheapest way that is safe there.

    On a local disk with one driver that is a rename, 55 to 75 ms a batch cheaper than Spark's own way, which starts
    processes; everywhere else it is Spark's own.
    """
    is_file = urlsplit(str(location)).scheme in ("", "file")
    is_cheap = is_file and str(spark.sparkContext.master).startswith("local")
    _configure(spark, {_CHECKPOINT_MANAGER: _RENAMING_MANAGER if is_cheap else None})


def work_off_in_batches(spark: SparkSession, wanted: bool) -> None:
    """Let a stream of this session that ends by itself cut its input into batches although the clock is a source.

    Spark makes one batch of everything where a source does not say that it can tell its end ahead. The clock does not
    say so, but it can: its offsets are seconds.
    """
    _configure(spark, {_ENDING_SOURCES: "true" if wanted else None})


@contextmanager
def interpreting_plans(spark: SparkSession, wanted: bool) -> Iterator[None]:
    """Let a query that is started in this block interpret its plans: it runs in a copy of the session, made then.

    Spark plans each batch anew and generates code for it, also where no row of it is ever computed.
    """
    before = {name: spark.conf.get(name, None) for name in _INTERPRETED}
    if wanted:
        _configure(spark, _INTERPRETED)
    try:
        yield
    finally:
        _configure(spark, before)


def _configure(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    """Set these settings of a session; those that are None are set no more."""
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def check_opens(spark: SparkSession, place: str) -> None:
    """Refuse a place elsewhere that Spark lacks the client for; what it then finds there is not looked at."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    context = spark.sparkContext
    path = getattr(context._jvm, "org.apache.hadoop.fs.Path")(spark_url(place))
    try:
        path.getFileSystem(context._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        why = str(error.java_exception.getMessage() or error.java_exception).splitlines()[0]
        raise NotSupported(
            f"{place}: Spark cannot open this place: {why}; give it Hadoop's client, such as the package"
            " org.apache.hadoop:hadoop-aws for S3"
        ) from error


def qualified(spark: SparkSession, place: str) -> str:
    """Return a path or URI as Spark completes it, with the scheme, the host and the working folder it leaves out."""
    path = getattr(spark.sparkContext._jvm, "org.apache.hadoop.fs.Path")(spark_url(place))
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return str(path.getFileSystem(configuration).makeQualified(path).toString())


def warm(spark: SparkSession) -> None:
    """Compile the kernels, or load them, here and in the workers, so that the first batch need not wait for it."""
    from nearcast.spark.runner import SparkRunner
    from nearcast.spark.warmup import warm_kernels

    warm_kernels()
    slots = spark.sparkContext.defaultParallelism
    # Spark keeps the workers of jobs without a DataFrame apart from the others.
    SparkRunner(spark).map(_warm_worker, list(range(slots)))
    spark.range(0, slots, 1, slots).mapInArrow(_warm_rows, "id long").toArrow()


def _warm_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    _warm_worker(0)
    return batches


def _warm_worker(_: int) -> None:
    from nearcast.spark.warmup import warm_kernels

    warm_kernels()


def _check_pyspark() -> None:
    try:
        import pyspark
    except ImportError:
        raise NearcastError("Spark is not installed; run: pip install 'nearcast[spark]'") from None
    found = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if found < _OLDEST:
        warnings.warn(
            f"PySpark {pyspark.__version__} is older than {'.'.join(map(str, _OLDEST))};"
            " run: pip install 'nearcast[spark]'",
            stacklevel=3,
        )


def _slots(master: str) -> int:
    """Return how many tasks run at once under a local master."""
    inside = master.partition("[")[2].rstrip("]").split(",")[0]
    if master.startswith("local-cluster"):
        workers, cores = (int(part) for part in master.partition("[")[2].rstrip("]").split(",")[:2])
        return workers * cores
    if not inside:
        return 1
    return int(inside) if inside.isdigit() else _cores()


def _cores() -> int:
    """Return how many cores this process may use, as Java counts them: by its mask, and by the quota of a container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no container, or one without a quota
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, -(-int(quota) // int(period)))
    return max(cores, 1)


def slots_in(master: str, settings: Mapping[str, str]) -> int:
    """Return how many tasks run at once when all executors have come, by what settings say.

    Spark itself counts those that have come so far, which at the start of an application may be none. InvalidInput
    where no setting says.
    """
    if "spark.default.parallelism" in settings:
        return int(settings["spark.default.parallelism"])
    if master.startswith("local"):
        return _slots(master)
    cores, each = settings.get("spark.cores.max"), int(settings.get("spark.task.cpus", "1"))
    if cores is None and settings.get("spark.dynamicAllocation.enabled", "false") == "false":
        executors, of_one = (settings.get(f"spark.executor.{name}") for name in ("instances", "cores"))
        cores = None if executors is None or of_one is None else str(int(executors) * int(of_one))
    if cores is None:
        raise InvalidInput(
            f"how many tasks {master} runs at once is not known before its executors have come; give partitions, as"
            " many as there are cores for Python workers, or set spark.cores.max, or spark.executor.instances and"
            " spark.executor.cores"
        )
    return max(int(cores) // each, 1)


def slots_of(spark: SparkSession) -> int:
    """Return how many tasks a session runs at once, as `slots_in` tells."""
    conf = spark.sparkContext.getConf()
    return slots_in(str(spark.sparkContext.master), dict(conf.getAll()))


def _driver_memory() -> int:
    """Return bytes for Spark's own process: a quarter of what the machine or the container has, 1 to 8 GiB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or one without a limit
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(max(total // 4, _GIB), 8 * _GIB)


def _caches() -> dict[str, str]:
    """Return where compiled kernels are, as this process was told; executors look in the same place."""
    return {name: os.environ[name] for name in ("NEARCAST_CACHE_DIR", "NUMBA_CACHE_DIR") if os.environ.get(name)}


def _variables() -> dict[str, str]:
    """Return the variables Spark reads when it starts."""
    # Otherwise workers run whichever python3 is on the PATH.
    return {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable}


def _java() -> dict[str, str]:
    from nearcast._java import ensure_java

    return {"JAVA_HOME": str(ensure_java())}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for the time of a block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
