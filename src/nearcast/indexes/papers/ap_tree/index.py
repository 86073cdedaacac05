"""The index `ap-tree` as the registry knows it: its options, and when its tree is built, changed and watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.errors import UnknownIndex
from nearcast.indexes import Matches, register
from nearcast.indexes.papers.ap_tree.construction import PRIORITIES, ApTreeSettings, grown, tasks_of
from nearcast.indexes.papers.ap_tree.divergence import diverging_by_atoms, diverging_by_messages, expect
from nearcast.indexes.papers.ap_tree.layout import ENTRIES, NODES, ROOT, SIZE, empty_tree, without_room
from nearcast.indexes.papers.ap_tree.maintenance import inserted, removed
from nearcast.indexes.papers.ap_tree.model import model_of
from nearcast.indexes.papers.ap_tree.order import ranked_words, ranks_by_frequency, with_later_words
from nearcast.indexes.papers.ap_tree.regrowth import compacted, messages_in, regrown
from nearcast.indexes.papers.ap_tree.sample import MessageSampler, no_sample, sample_of
from nearcast.indexes.papers.ap_tree.search import ApTreeScratch, scratch_for, search_tree
from nearcast.indexes.papers.keyword_first import count_words
from nearcast.indexes.shared.boolean_index import BooleanBatch, BooleanIndex, FoundAtoms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space
    from nearcast.indexes.papers.ap_tree.model import CostModel

_PARTITIONS, _REBUILDS = ("heuristic", "dp"), ("adaptive", "never")
#: Messages are looked at for drift after this many, or after one for every so many subscriptions.
_FEWEST_MESSAGES, _SUBSCRIPTIONS_PER_MESSAGE = 4096, 4
#: Waste is collected when there is as much as there was tree, and this many entries or nodes more.
_LITTLE_WASTE = 4096


@register(
    "ap-tree",
    kinds=("within",),
    paper="AP-Tree (VLDB Journal 2015), section 3: stationary subscriptions",
    options={
        "keyword_partition": "heuristic",
        "priority": "adaptive",
        "fan_out": 200,
        "leaf": 40,
        "rebuild": "adaptive",
        "divergence": 0.001,
        "share": 0.001,
    },
)
class APTreeIndex(BooleanIndex):
    """A tree that parts subscriptions by words or by space, whichever costs less.

    >>> from nearcast.geo import Space
    >>> len(APTreeIndex(Space.plane()))
    0
    """

    #: Whether a word between two cuts widens one of them.
    widens_cuts = True

    def __init__(
        self,
        space: Space,
        keyword_partition: str = "heuristic",
        priority: str = "adaptive",
        fan_out: int = 200,
        leaf: int = 40,
        rebuild: str = "adaptive",
        divergence: float = 0.001,
        share: float = 0.001,
    ):
        name = self.info.name
        options = {
            "keyword_partition": one_of(name, "keyword_partition", keyword_partition, _PARTITIONS),
            "priority": one_of(name, "priority", priority, PRIORITIES),
            "fan_out": at_least(name, "fan_out", fan_out, 2),
            "leaf": at_least(name, "leaf", leaf, 1),
            "rebuild": one_of(name, "rebuild", rebuild, _REBUILDS),
            "divergence": at_least(name, "divergence", divergence, 0.0),
            "share": at_least(name, "share", share, 0.0),
        }
        super().__init__(space, **options)
        is_optimal = keyword_partition == "dp"
        self._settings = ApTreeSettings(fan_out, leaf, is_optimal, PRIORITIES.index(priority), self.widens_cuts)
        self._is_adaptive, self._divergence, self._share = rebuild == "adaptive", divergence, share
        self._sample, self._watch = no_sample(), MessageSampler()
        self._n_changes = 0
        self._rank = np.empty(0, np.int32)
        self._needed = np.empty(0, np.int64)
        self._set_model()
        self._tree = empty_tree(np.zeros(4), 1, leaf)
        self._size_when_packed = (0, 0)
        self._scratch = scratch_for(0, 1, None)

    # What messages are like

    def learn(self, messages: Messages) -> None:
        """Expect messages like these; the tree is built for them at the next search."""
        with self._lock:
            self._undo.roll_back()
            self._sample = sample_of(messages.for_kernels())
            self._is_built = False

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Search every message; one core whatever `threads` says. After many messages, see whether they drift."""
        with self._lock:
            found = super().match(messages, threads=threads)
            if self._is_adaptive:
                self._watch.see(messages)
                if self._watch.n_matched >= max(_FEWEST_MESSAGES, len(self._slot_of) // _SUBSCRIPTIONS_PER_MESSAGE):
                    self._follow_messages()
        return found

    def _follow_messages(self) -> None:
        """Build those parts anew that messages go through otherwise than was expected."""
        seen = self._watch.taken()
        self._rank_later_words()
        drifted = diverging_by_messages(self._tree, self._share, self._divergence, seen, self._rank)
        if len(drifted):
            self._sample = seen
            self._set_model()
            self._is_built = False  # until it is: what is cut short is made up for by building anew
            self._regrow(drifted)
            expect(self._tree, self._share, seen, self._rank)
            self._is_built = True

    # The structure

    def _build(self, atoms: NDArray[np.int32]) -> None:
        columns = self._atoms
        self._rank = ranks_by_frequency(columns, atoms, self._n_weights)
        self._needed = _needed_by_rank(columns, atoms, self._rank)
        self._set_model()
        ranks = ranked_words(columns, atoms, self._rank)
        region = _extent(columns.box[atoms])
        tree = empty_tree(region, 2 * len(atoms) + 1, self._settings.leaf)
        said = messages_in(self._model.point, np.array([-np.inf, -np.inf, np.inf, np.inf]))
        tasks = tasks_of(np.zeros(1, np.int64), [atoms], [said])
        self._tree = without_room(grown(tree, tasks, columns, ranks, self._model, self._settings))
        self._size_when_packed = self._tree_size()
        if len(self._sample):
            expect(self._tree, self._share, self._sample, self._rank)

    def _change_atoms(self, gone: NDArray[np.int32], new: NDArray[np.int32]) -> None:
        """Take atoms out and insert others; only then is what has become too small or too large built anew.

        Of subscriptions that move most come back to where the others left: after each half the tree looks drifted.
        """
        self._rank_later_words()
        small = self._taken_out(gone)
        full = self._put_in(new)
        self._regrow(np.concatenate([small[self._tree.node[small, SIZE] < self._settings.leaf], full]))
        self._changed(len(gone) + len(new))

    def _insert_atoms(self, atoms: NDArray[np.int32]) -> None:
        self._change_atoms(np.empty(0, np.int32), atoms)

    def _remove_atoms(self, atoms: NDArray[np.int32]) -> None:
        self._change_atoms(atoms, np.empty(0, np.int32))

    def _put_in(self, atoms: NDArray[np.int32]) -> NDArray[np.int64]:
        """Put atoms into the leaves that they belong to; return those that are beyond their limit now."""
        ranks = ranked_words(self._atoms, atoms, self._rank)
        self._tree, full = inserted(self._tree, self._atoms, atoms, ranks, self._settings)
        return full

    def _taken_out(self, atoms: NDArray[np.int32]) -> NDArray[np.int64]:
        """Take atoms out of their leaves; return the nodes that have become too small to be parted."""
        ranks = ranked_words(self._atoms, atoms, self._rank)
        return removed(self._tree, self._atoms, atoms, ranks, self._settings)

    def _changed(self, n: int) -> None:
        """See whether atoms drift, when enough of them have come and gone."""
        self._n_changes += n
        if self._is_adaptive and self._n_changes > self._share * self._tree.node[ROOT, SIZE]:
            self._n_changes = 0
            drifted = diverging_by_atoms(self._tree, self._share, self._divergence)
            self._regrow(drifted)
            if len(drifted) and len(self._sample):
                expect(self._tree, self._share, self._sample, self._rank)

    def _regrow(self, nodes: NDArray[np.int64]) -> None:
        if len(nodes):
            self._rebuild(nodes)
        if any(
            now > 2 * then + _LITTLE_WASTE for now, then in zip(self._tree_size(), self._size_when_packed, strict=True)
        ):
            self._compact()
            self._size_when_packed = self._tree_size()

    def _rebuild(self, nodes: NDArray[np.int64]) -> None:
        self._tree = regrown(self._tree, nodes, self._atoms, self._rank, self._model, self._settings)

    def _compact(self) -> None:
        self._tree = compacted(self._tree)

    def _tree_size(self) -> tuple[int, int]:
        return int(self._tree.used[NODES]), int(self._tree.used[ENTRIES])

    def _set_model(self) -> None:
        self._model = self._model_of(self._rank)

    def _model_of(self, rank: NDArray[np.int32]) -> CostModel:
        return model_of(self._sample, rank, self._needed)

    def _rank_later_words(self) -> None:
        """Give ranks to words that came after the tree was built; nothing was known to need them."""
        if self._n_weights > len(self._rank):
            rank = with_later_words(self._rank, self._n_weights)
            self._needed = np.append(self._needed, np.zeros(len(rank) - len(self._needed), np.int64))
            self._model = self._model_of(rank)
            self._rank = rank  # the last of all: its length says that the others are done

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        scratch = self._scratch_of(batch)
        return int(search_tree(self._tree, self._rank, self._atoms, batch, first, found, scratch))

    def _scratch_of(self, batch: BooleanBatch) -> ApTreeScratch:
        """Return scratch for a search, for which all words have ranks by then."""
        self._rank_later_words()
        self._scratch = scratch_for(len(batch.word), int(self._tree.used[NODES]), self._scratch)
        return self._scratch

    def _bytes(self) -> int:
        sample = self._sample
        kept = (*self._tree, *self._model[:3], self._rank, self._needed, sample.term_start, sample.terms, sample.box)
        return sum(array.nbytes for array in kept)


def _needed_by_rank(atoms: Any, chosen: NDArray[np.int32], rank: NDArray[np.int32]) -> NDArray[np.int64]:
    count, needed = np.zeros(len(rank), np.int64), np.empty(len(rank), np.int64)
    count_words(atoms, chosen, count)
    needed[rank] = count
    return needed


def _extent(box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rectangle around all corners that are finite."""
    low, high = np.zeros(2), np.zeros(2)
    for axis in range(2):
        ends = box[:, axis::2]
        ends = ends[np.isfinite(ends)]
        if len(ends):
            low[axis], high[axis] = ends.min(), ends.max()
    return np.concatenate([low, high])


def one_of(index: str, name: str, given: str, known: tuple[str, ...]) -> str:
    """Return the value of an option of an index if it is a known one; else it is `UnknownIndex`."""
    if given not in known:
        raise UnknownIndex(f"option {name} of the index {index!r} is one of {', '.join(known)}, not {given!r}")
    return given


def at_least(index: str, name: str, given: float, least: float) -> float:
    """Return the value of an option of an index if it is large enough; else it is `UnknownIndex`."""
    if not least <= given < 2**31:
        raise UnknownIndex(f"option {name} of the index {index!r} is at least {least} and below 2^31, not {given}")
    return given
