"""Match a DataFrame of messages against a DataFrame of subscriptions.

Importing this loads nothing of Spark.
"""

from __future__ import annotations

import atexit
import math
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import SIMILAR, Subscriptions
from nearcast.delivery_ids import DELIVERY_ID
from nearcast.errors import InvalidInput, NearcastError, NotSupported
from nearcast.pipeline.store.places import is_uri, local_root
from nearcast.pipeline.store.store import Store
from nearcast.spark.dataframe import frames, stored_index
from nearcast.spark.dataframe.matcher import MatchMessages, MatchRoutedMessages, RouteMessages
from nearcast.spark.dataframe.stored_index import IndexFolder, PlanPlacement, TermEncoding
from nearcast.spark.runner import SparkRunner
from nearcast.spark.session import refuse_connect
from nearcast.spark.shared_folders import check_seen, is_embedded
from nearcast.tables import Rejected, read_messages, read_subscriptions
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nearcast.geo import Space

#: Messages that a plan is learned from.
_SAMPLE = 20_000


def match(
    messages: DataFrame,
    subscriptions: DataFrame,
    *,
    plan: str | None = None,
    partitions: int | None = None,
    space: str | Space | None = None,
    index: str = "trigger",
    vocabulary: Vocabulary | None = None,
    max_distance: float | None = None,
    analyzer: Analyzer | None = None,
    store: str | Path | None = None,
    rejected: Rejected | None = None,
    delivery_ids: bool = False,
) -> DataFrame:
    """Return who gets which message: a DataFrame of deliveries, in no order, worked out when it is asked for.

    Both have the interchange columns. Subscriptions are of the kinds `within` and `similar`: what a `topk` gets depends
    on the order of messages, and a DataFrame has none. They are collected and indexed here and now; workers map the
    indexes from a folder, one of this machine that is removed when this process ends, or `store`, a new folder that all
    machines of a cluster see, or the URI of one in an object store. Those that cannot be used are added to `rejected`;
    without it a warning counts them. So it is with columns whose names are nearly right. Messages that cannot be used
    deliver nothing; `rejected_messages` returns them.

    Every worker sees all subscriptions, and messages stay where they are. With a `plan` ("hash", "location", "keyword",
    "prefix", "space-first", "keyword-first", "trigger") subscriptions are spread over `partitions`, as many as there
    are slots unless given, and messages are sent where they are needed. Words weigh by `vocabulary`; where there is
    none, but a `similar`, it is learned from all messages by a job that runs now.

    `step` and `arrival` are the message's column `seq`, of integers, else Spark's `monotonically_increasing_id`, which
    depends on how the messages are partitioned. With `delivery_ids` there is that column, too. `time` is that of the
    message. A subscription that `expires` gets messages with an earlier `time` and those without.
    """
    refuse_connect(messages, subscriptions)
    for name, frame in (("messages", messages), ("subscriptions", subscriptions)):
        frames.check_frame(frame, name)
    resolved = frames.space_of_frames(messages, subscriptions, space)
    named = Rejected() if rejected is None else rejected
    read = frames.message_columns(messages, resolved, rejected=named)
    columns = frames.subscription_columns(subscriptions, resolved, rejected=named)
    if rejected is None:
        for line in named.warnings:
            warnings.warn(line, stacklevel=2)
    _check_options(max_distance, partitions, plan)
    folder = _folder(messages, store)
    encoding = TermEncoding(
        resolved, analyzer or Analyzer(), WordTable(), Vocabulary() if vocabulary is None else vocabulary
    )
    subscribed = _collected(columns, encoding, max_distance, rejected)
    if vocabulary is None and (subscribed.kind == SIMILAR).any():
        if messages.isStreaming:
            raise NotSupported("messages are a stream, and no vocabulary can be learned from it; give vocabulary=")
        encoding = encoding._replace(vocabulary=frames.learned_vocabulary(read, resolved, encoding.analyzer))
    encoding = encoding._replace(vocabulary=encoding.vocabulary.snapshot())
    placed = None if plan is None else _placed(plan, partitions, read, subscribed, encoding)
    stored = _stored(folder, subscribed, encoding, index, placed)
    ids = frames.id_type(columns)
    found = _deliveries(_matched(read, stored, ids, is_routed=plan is not None), stored.version)
    return _with_delivery_ids(found, ids) if delivery_ids else found


def match_against(subscriptions: DataFrame, **options: Any) -> Callable[[DataFrame], DataFrame]:
    """Return what `messages.transform` takes to match messages against these subscriptions; options as for `match`."""
    return lambda messages: match(messages, subscriptions, **options)


def rejected_messages(messages: DataFrame, *, space: str | Space | None = None) -> DataFrame:
    """Return the messages that `match` cannot use: their `seq`, `id`, the `field` to blame and the `reason`."""
    refuse_connect(messages)
    resolved = frames.space_of_frames(messages, None, space)
    return frames.message_columns(messages, resolved).mapInArrow(frames.RejectedRows(resolved), frames.REJECTED_SCHEMA)


def _check_options(max_distance: float | None, partitions: int | None, plan: str | None) -> None:
    if max_distance is not None and not 0 < max_distance < math.inf:
        raise InvalidInput(f"max_distance is {max_distance!r}; expected a finite number above 0", field="max_distance")
    if plan is None and partitions is not None:
        raise InvalidInput("partitions are given without a plan; give both or none", field="partitions")


def _folder(messages: DataFrame, given: str | Path | None) -> str:
    """Return an empty folder for indexes, or the URI of one; one of our own is removed when this process ends."""
    context = messages.sparkSession.sparkContext
    master = str(context.master)
    if given is not None:
        store = Store(given)
        if store.sizes(with_hidden=True):
            raise InvalidInput(f"store {store.root} is not empty; give a new folder", field="store")
        path = local_root(store.root)
        if path is None:
            return store.root
        Path(path).mkdir(parents=True, exist_ok=True)
        if not is_embedded(master):
            check_seen(SparkRunner(messages.sparkSession), [path], context.defaultParallelism)
        return path
    if not master.startswith("local"):
        raise NearcastError(f"Spark runs on {master}; give store=, a new folder that all its machines see")
    folder = tempfile.mkdtemp(prefix="nearcast-match-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _stored(
    folder: str, subscriptions: Subscriptions, encoding: TermEncoding, index: str, placed: PlanPlacement | None
) -> IndexFolder:
    """Write the indexes into a folder, or elsewhere as one folder that workers download."""
    if not is_uri(folder):
        return stored_index.store(Path(folder), subscriptions, encoding, index, placed)
    written: list[IndexFolder] = []
    Store(folder).put_folder(
        stored_index.INDEXES,
        lambda here: written.append(stored_index.store(here, subscriptions, encoding, index, placed)),
    )
    return replace(written[0], folder=folder)


def _collected(
    columns: DataFrame, encoding: TermEncoding, max_distance: float | None, rejected: Rejected | None
) -> Subscriptions:
    """Return the subscriptions that can be used."""
    table = columns.toArrow()
    frames.refuse_topk(table)
    space, analyzer, words, _ = encoding
    refused = Rejected() if rejected is None else rejected
    found = read_subscriptions(table, space, words, analyzer, max_distance=max_distance, rejected=refused)
    if rejected is None and len(refused):
        first = next(iter(refused))
        warnings.warn(
            f"{len(refused):,} of {table.num_rows:,} subscriptions cannot be used, the first with id {first.id}:"
            f" {first.reason}; rejected=Rejected() collects them",
            stacklevel=3,
        )
    return found


def _placed(
    plan: str, partitions: int | None, read: DataFrame, subscriptions: Subscriptions, encoding: TermEncoding
) -> PlanPlacement:
    """Return where a plan, learned from these subscriptions and some of the messages, puts the subscriptions."""
    from nearcast.plans import learn, parse_spec

    partitions = partitions or read.sparkSession.sparkContext.defaultParallelism
    parse_spec(plan, partitions)
    space, analyzer, words, vocabulary = encoding
    weights = TermWeights(words, vocabulary).from_term(0)
    sample = frames.one_row_of_nulls(read).slice(1) if read.isStreaming else read.limit(_SAMPLE).toArrow()
    messages = read_messages(sample, space, words, analyzer, rejected=Rejected())
    learned = learn(plan, partitions, space, words, subscriptions, messages, weights)
    return PlanPlacement(learned, learned.place(subscriptions, np.arange(len(subscriptions)), weights))


def _matched(read: DataFrame, stored: IndexFolder, ids: str, *, is_routed: bool) -> DataFrame:
    """Return a row for each match: as narrow as can be, for it travels from Python to Spark."""
    schema = f"subscription_id {ids}, message_id {frames.id_type(read)}, score double, time timestamp, step long"
    if not is_routed:
        return read.mapInArrow(MatchMessages(stored), schema)
    routed = read.mapInArrow(RouteMessages(stored), RouteMessages.SCHEMA).repartitionById(stored.partitions, "p")
    return routed.mapInArrow(MatchRoutedMessages(stored), schema)


def _deliveries(matched: DataFrame, version: str) -> DataFrame:
    """Return matches in the columns of deliveries; Spark leaves out those nobody asks for."""
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

    return matched.select(
        "subscription_id",
        "message_id",
        F.lit("+").alias("change"),
        "score",
        F.lit(None).cast("int").alias("rank"),
        matched["message_id"].alias("cause_id"),
        "time",
        "step",
        matched["step"].alias("arrival"),
        F.lit(version).alias("version"),
    )


def _with_delivery_ids(found: DataFrame, ids: str) -> DataFrame:
    """Return deliveries with the names that `nearcast.delivery_id` gives them, all ids being of one type."""
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

    mark = ":" if ids == "string" else ""
    subscription = F.concat(F.lit(mark), found["subscription_id"].cast("string"))
    step, arrival = found["step"].cast("string"), found["arrival"].cast("string")
    name = F.concat_ws(":", step, arrival, F.concat(found["change"], subscription)).alias(DELIVERY_ID)
    at = found.columns.index("arrival") + 1
    return found.select(*found.columns[:at], name, *found.columns[at:])
