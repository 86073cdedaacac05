"""What a stream between topics must deliver: the batches that Spark made of the records, through a hub."""

import json

from support.spark_files import as_rows, rows_of


def batches_in(checkpoint, sent):
    """Return {source: rows} of each batch, cut where Spark noted that it ends.

    `sent` are the records by topic and partition; what is no row of a table is left out.
    """
    notes = checkpoint / "spark" / "offsets"
    begin, batches = {}, []
    for number in sorted(int(path.name) for path in notes.iterdir() if path.name.isdigit()):
        _, _, *sources = (notes / str(number)).read_text().splitlines()
        end = {
            (topic, int(partition)): offset
            for source in sources
            for topic, offsets in json.loads(source).items()
            for partition, offset in offsets.items()
        }
        found = {place: sent.get(place, [])[begin.get(place, 0) : offset] for place, offset in end.items()}
        batches.append({f"{topic}/{partition:05d}": _rows(rows) for (topic, partition), rows in found.items()})
        begin = end
    return batches


def _rows(records):
    return [each for each in records if isinstance(each, dict)]


def expected_of(oracle, checkpoint, sent):
    """Return the deliveries of a hub, in order, by subscription."""
    rows = [row for files in batches_in(checkpoint, sent) for row in as_rows(oracle.run(files))]
    return _by_subscription(rows)


def _by_subscription(rows):
    found = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def delivered_in(records):
    """Return what a topic holds, by subscription, and how many records repeat an earlier one.

    Fails unless a subscription is the key of its records, has them in one partition, and repeats them as they were.
    """
    seen, kept, partition_of = {}, [], {}
    for record in records:
        delivery = json.loads(record.value)
        assert record.key == str(delivery["subscription_id"])
        assert partition_of.setdefault(record.key, record.partition) == record.partition
        first = seen.setdefault(delivery["delivery_id"], record.value)
        assert first == record.value
        if first is record.value:
            kept.append(delivery)
    return _by_subscription(rows_of(kept)), len(records) - len(kept)
