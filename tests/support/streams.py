"""Random streams of changes and messages, and what a hub fed in the same order delivers."""

import json
import random
from datetime import UTC, datetime, timedelta

from nearcast import Hub, delivery_id
from nearcast.errors import NearcastError
from nearcast.geo import Box

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = [f"w{i}" for i in range(8)]
COLUMNS = ("subscription_id", "message_id", "change", "score", "rank", "cause_id", "time", "delivery_id", "version")


def values_in(row):
    """Return a row of deliveries in `COLUMNS`; its name is made from its key, and no other than the one it may have."""
    name = delivery_id(row["step"], row["arrival"], row["change"], row["subscription_id"])
    assert row.get("delivery_id", name) == name
    return tuple((row | {"delivery_id": name})[each] for each in COLUMNS)


def moment(seconds):
    return (BEGIN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


class World:
    """Makes subscriptions, changes and messages with a seed."""

    def __init__(self, seed, *, kinds=("within", "similar", "topk"), earth=False, with_times=True):
        self.random = random.Random(seed)
        self.kinds, self.earth, self.with_times = kinds, earth, with_times
        self.seconds = 0.0
        self.n_messages = 0

    def place(self):
        r = self.random
        if self.earth:
            return {"lon": r.choice([-180.0, 180.0, r.uniform(-180, 180)]), "lat": r.uniform(-90, 90)}
        return {"x": float(r.randint(0, 10)), "y": float(r.randint(0, 10))}

    def words(self, low, high):
        return [self.random.choice(WORDS) for _ in range(self.random.randint(low, high))]

    def subscription(self, id_):
        r = self.random
        kind = r.choice(self.kinds)
        row = {"id": id_, "kind": kind}
        if kind == "within":
            words = self.words(1, 3)
            query = r.choice([" AND ", " OR "]).join(words)
            if r.random() < 0.2:
                query += f" AND NOT {r.choice(WORDS)}"
            row["query"] = query
            if r.random() < 0.8:
                row |= self.region()
        else:
            row |= {"query": " ".join(self.words(1, 3)), "text_weight": r.choice([0.0, 1.0, 0.5, r.random()])}
            row |= self.place()
            row["max_distance_m" if self.earth else "max_distance"] = 3e6 if self.earth else 5.0
            row |= {"k": r.choice([1, 2, 3])} if kind == "topk" else {"threshold": r.choice([0.3, 0.6, 0.9])}
        if r.random() < 0.15 and self.with_times:
            row["expires"] = moment(self.seconds + r.uniform(0, 30))
        return row

    def region(self):
        r, at = self.random, self.place()
        if r.random() < 0.5:
            return at | ({"radius_m": r.uniform(0, 5e6)} if self.earth else {"radius": float(r.randint(0, 4))})
        if self.earth:
            south = r.uniform(-90, 80)
            north, west, east = r.uniform(south, 90), r.uniform(-180, 180), r.uniform(-180, 180)
            return {"west": west, "south": south, "east": east, "north": north}
        x, y = at["x"], at["y"]
        return {"x_min": x, "y_min": y, "x_max": x + r.randint(0, 5), "y_max": y + r.randint(0, 5)}

    def change(self, ids):
        r = self.random
        op = r.choice(["subscribe", "subscribe", "unsubscribe", "move", "move"])
        id_ = r.choice(ids)
        row = {"op": op, "id": id_}
        if op == "subscribe":
            row |= self.subscription(id_)
        elif op == "move":
            row |= self.place()
        if self.with_times:
            row["time"] = moment(self.seconds + r.choice([0, 1, 2, 3]))
        return row

    def message(self):
        r = self.random
        self.n_messages += 1
        row = {"id": self.n_messages, "text": " ".join(self.words(0, 5))} | self.place()
        if r.random() < 0.1 and not self.earth:
            row |= {"x_max": row["x"] + 1, "y_max": row["y"] + 2}
        if self.with_times:
            row["time"] = moment(self.seconds + r.choice([0, 0, 1, 2]))
        return row

    def batch(self, n_messages, n_changes, ids):
        """Return {file name: rows} of one batch."""
        self.seconds += self.random.choice([0, 1, 4])
        messages = [self.message() for _ in range(n_messages)]
        cut = self.random.randint(0, n_messages)
        files = {"messages-a": messages[:cut], "messages-b": messages[cut:]}
        files["changes-a"] = [self.change(ids) for _ in range(n_changes)]
        return {name: rows for name, rows in files.items() if rows}


def as_delivered(delivery, number):
    row = [getattr(delivery, name) for name in COLUMNS]
    return (number, *row)


class Oracle:
    """A hub that is fed row by row, and tells what a batch delivers on balance."""

    def __init__(self, hub: Hub):
        self.hub, self.rejected = hub, 0
        self._registered, self._next = {}, 0

    def begin(self, rows):
        self.hub.subscribe_many(rows)
        for row in rows:
            self._register(row["id"])
        assert not list(self.hub.poll())

    def _register(self, id_):
        self._registered[id_] = self._next
        self._next += 1

    def run(self, files, told=(), beat=None):
        """Return the deliveries of a batch in order, after those `told` before its rows, net for topk.

        `beat`, in microseconds, ends it.
        """
        told = self._numbered(told)
        for _, is_message, _, _, row in sorted(self._in_order(files), key=lambda each: each[:4]):
            deliveries = self._publish(row) if is_message else self._change(row)
            told += self._numbered(deliveries)
        if beat is not None:
            told += self._numbered(self.hub.advance(datetime.fromtimestamp(0, UTC) + timedelta(microseconds=beat)))
        return net(told)

    def _numbered(self, deliveries):
        return [(self._registered[d.subscription_id], d) for d in deliveries]

    def _in_order(self, files):
        for name, rows in files.items():
            for number, row in enumerate(rows):
                yield row.get("time") or "", name.startswith("messages"), name, number, row

    def _publish(self, row):
        found = self.hub.publish_many([row])
        self.rejected += len(found.rejected)
        return list(found)

    def _change(self, row):
        try:
            if row["op"] == "subscribe":
                known = row["id"] in self.hub
                self.hub.subscribe({name: value for name, value in row.items() if name not in ("op", "time")})
                if not known:
                    self._register(row["id"])
                return list(self.hub.poll())
            if row["op"] == "unsubscribe":
                self.hub.unsubscribe(row["id"])
                return []
            place = (row["lon"], row["lat"]) if "lon" in row else (row["x"], row["y"])
            return list(self.hub.move(row["id"], place, row.get("time")))
        except NearcastError:
            self.rejected += 1
            return []


def net(told):
    """Leave out what a batch undoes: of changes of one message in one top-k only the last counts, if any."""
    last, count = {}, {}
    for at, (registered, d) in enumerate(told):
        if d.rank is not None:
            key = (registered, d.delivery_id.split(":")[1])
            last[key], count[key] = at, count.get(key, 0) + 1
    kept = {at for key, at in last.items() if count[key] % 2}
    return [d for at, (_, d) in enumerate(told) if d.rank is None or at in kept]


def write_files(folder, files):
    """Write a batch as JSON lines; return the paths by name."""
    paths = {}
    for name, rows in files.items():
        paths[name] = folder / f"{name}.jsonl"
        paths[name].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


__all__ = ["COLUMNS", "Box", "Oracle", "World", "as_delivered", "moment", "net", "values_in", "write_files"]
