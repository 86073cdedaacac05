"""Random streams whose messages live and whose subscriptions move, and what a hub fed in the same order delivers."""

from nearcast import Hub
from nearcast._delivery_ids import delivery_id
from support.streams import COLUMNS, Oracle, World, moment


class MovingWorld(World):
    """Messages of which some say when they expire; changes of which most are reports of places."""

    def subscription(self, id_):
        row = super().subscription(id_)
        if self.random.random() < 0.2:
            row["min_move_m" if self.earth else "min_move"] = 2e6 if self.earth else 2.0
        return row

    def change(self, ids):
        row, r = super().change(ids), self.random
        if r.random() < 0.5:
            row = {"op": "move", "id": row["id"], "time": row["time"]} | self.place()
        if row["op"] == "move" and r.random() < 0.2:
            row = {"op": "move", "id": row["id"], "time": row["time"]} | self.region()
        if row["op"] == "move" and r.random() < 0.2:
            del row["time"]
        elif row["op"] == "move" and r.random() < 0.1:
            row["time"] = moment(self.seconds - 5)
        return row

    def message(self):
        row, r = super().message(), self.random
        if r.random() < 0.5:
            row["expires"] = moment(self.seconds + r.choice([1, 2, 3, 5, 8]))
        if r.random() < 0.1:
            row["time"] = moment(self.seconds - 6)
        return row


class StepByStep(Oracle):
    """A hub that is fed row by row; moves are reports with a time, to points and to regions."""

    def run(self, files, told=(), beat=None):
        told = self._numbered(told)
        for _, is_message, _, _, row in sorted(self._in_order(files), key=lambda each: each[:4]):
            told += self._numbered(self._publish(row) if is_message else self._change(row))
        assert beat is None
        return [delivery for _, delivery in told]

    def _change(self, row):
        if row["op"] != "move":
            return super()._change(row)
        found = self.hub.move_many([{name: value for name, value in row.items() if name != "op"}])
        self.rejected += len(found.rejected)
        return list(found)


def fed(hub: Hub, rows):
    """Return a hub's oracle that has begun with these subscriptions."""
    oracle = StepByStep(hub)
    oracle.begin(rows)
    return oracle


def values_of(row):
    """Return a row of deliveries in `COLUMNS`; the id of a delivery is made of its key where the row has none."""
    name = row.get("delivery_id")
    if name is None:
        name = delivery_id(row["step"], row["arrival"], row["change"], row["subscription_id"])
    return tuple((row | {"delivery_id": name})[each] for each in COLUMNS)
