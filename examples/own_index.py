"""An index of your own: posting lists in about fifty lines, used in a hub and checked against `scan`.

Run it: python examples/own_index.py (needs hypothesis, for the check)
"""

import numpy as np
from hypothesis import given, settings

from nearcast import Box, Hub, Message, Within
from nearcast.indexes import Matches, create, register
from nearcast.indexes.scan import ScanIndex
from nearcast.testing import check_index, replay, scripts


@register("posting-lists", kinds=("within",), paper="none: an example")
class PostingLists(ScanIndex):
    """A posting list for each word: every clause of a query is listed under the first word that it requires.

    `ScanIndex` stores the subscriptions as rows of a table and takes changes. This class adds the lists and searches
    them: a message reads the lists of its own words, and only these candidates are verified.
    """

    def __init__(self, space):
        super().__init__(space)
        self._rows_renumbered()

    def _rows_renumbered(self):
        """Forget the lists: rows have other numbers from now on, or a change was undone."""
        self._postings = {}  # term -> rows; None -> rows of clauses that require no word, such as NOT used
        self._n_listed = 0

    def _list_new_rows(self):
        """List the rows that came since the last message; a changed subscription is a new row."""
        table = self._table()
        for row in range(self._n_listed, len(table)):
            for clause in range(table.clause_start[row], table.clause_start[row + 1]):
                code = table.code[table.code_start[clause] : table.code_start[clause + 1]]
                term = int(code[0]) if len(code) and code[0] >= 0 else None
                self._postings.setdefault(term, []).append(row)
        self._n_listed = len(table)

    def match(self, messages, *, threads=1):
        """Search the messages one by one, on one core whatever `threads` says."""
        with self.lock:
            self._undo.roll_back()  # a change that was interrupted, if any
            self._list_new_rows()
            candidates = [self._candidates(messages.terms_of(i)) for i in range(len(messages))]
            found = [self._verified(slots, messages.take([i])) for i, slots in enumerate(candidates)]
        start = np.cumsum([0, *map(len, found)])
        slots = np.concatenate([np.empty(0, np.int32), *found])
        n = sum(map(len, candidates))
        return Matches(start, slots, np.ones(len(slots)), candidates=n, verified=n)

    def _candidates(self, terms):
        """Return the live slots that are listed under one of these terms, ascending."""
        rows = set(self._postings.get(None, ())).union(*(self._postings.get(term, ()) for term in terms.tolist()))
        slots = self._slot_of[sorted(rows)]
        return np.sort(slots[slots >= 0])  # -1: the row was removed or replaced

    def _verified(self, slots, message):
        """Return those of the slots that the message matches, words and place: a scan over the few of them."""
        few = ScanIndex(self.space)
        few.insert(self.subscriptions(slots))
        return slots[few.match(message).slots]


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(scripts())
def check_agrees_with_scan(script):
    """Whatever is inserted, removed, replaced and moved: the answers are those of `scan`, the definition."""
    mine = create("posting-lists", script.space)
    assert replay(create("scan", script.space), script) == replay(mine, script)
    check_index(mine)


if __name__ == "__main__":
    hub = Hub("plane", index="posting-lists")
    for number in range(300):
        hub.subscribe(Within(number, f"word{number % 100}", Box(number, 0, number + 10, 10)))
    print("message 1 reaches", [each.subscription_id for each in hub.publish(Message(1, "word7 word8", (208, 5)))])
    print(hub.explain(Message(2, "word7", (250, 5)), 207).reason)

    check_agrees_with_scan()
    print("20 random scripts: the answers are those of scan")
