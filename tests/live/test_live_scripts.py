"""Whatever happens to a store, in whatever order, it answers as `indexes.scan` does from the messages it must hold."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.live import stored
from nearcast.live.cells.store import CellLiveStore
from nearcast.live.registry import LIVE_STORES
from nearcast.testing import scripts
from nearcast.testing.values import is_scored, moved, region_of
from support.live_model import LiveModel

pytestmark = pytest.mark.modes


class Play:
    """Plays a script: what it matches arrives here, and its changes of subscriptions are steps that tell a difference.

    Time passes by one at each step; messages live for one to six steps.
    """

    def __init__(self, name, script, folder):
        self.model, self.folder = LiveModel(name, script.space), folder
        self.held, self.n_saved = [], 0
        arrives = [step for step in script.steps if step.verb == "match"]
        self.steps = [*arrives[-1:], *script.steps]

    def run(self):
        for number, step in enumerate(self.steps):
            getattr(self, f"_{step.verb}", self._quiet)(step)
            self._pass_time(number)
        self.model.relevant(self.held)
        safe = self.model.safe_distance(self.held)
        assert all(distance >= 0.0 for distance in safe)

    def _pass_time(self, number):
        """Forget what is over at every other step; at the others it is still there, and does not count."""
        now = self.model.now + 1
        if number % 2:
            self.model.drop(now)
        else:
            self.model.relevant(self.held, [now] * len(self.held))
            self.model.now = now

    def _match(self, step):
        said = [(tuple(tokens), place) for tokens, place in step.said]
        self.model.append(said, [self.model.now + 1 + len(tokens) % 6 for tokens, _ in said])

    def _insert(self, step):
        self.held += step.wanted
        self.model.relevant(step.wanted)

    def _remove(self, step):
        gone = {pick % len(self.held) for pick in step.picks} if self.held else set()
        self.held = [each for at, each in enumerate(self.held) if at not in gone]

    def _pairs(self, step):
        picks = dict.fromkeys(pick % len(self.held) for pick in step.picks) if self.held else {}
        return list(zip(picks, step.wanted, strict=False))

    def _replace(self, step):
        pairs = self._pairs(step)
        self.model.difference([self.held[at] for at, _ in pairs], [each for _, each in pairs])
        for at, each in pairs:
            self.held[at] = each

    def _move(self, step):
        pairs = self._pairs(step)
        old = [self.held[at] for at, _ in pairs]
        regions = [self._goes_to(self.held[at], each) for at, each in pairs]
        self.model.moved(old, regions)
        for (at, _), region in zip(pairs, regions, strict=True):
            self.held[at] = moved(self.held[at], region)

    def _goes_to(self, held, like):
        """Return where a subscription moves to; a query that is true without any word stays if that is anywhere."""
        region = region_of(like, scored=is_scored(held))
        return held[1] if region is None and not is_scored(held) and held[0].needs_region else region

    def _reweigh(self, step):
        self.model.reweigh(step.weights)

    def _settle(self, _):
        mark = self.model.store.mark()
        self.model.store.tidy()
        self.model.relevant(self.held)
        if self.n_saved % 2:
            self.model.store.rewind(mark)

    def _renumber(self, _):
        """Save and open, as any store; subscriptions and words get other terms."""
        self.n_saved += 1
        self.model.reopen(self.folder / str(self.n_saved))
        self.model.other_terms()

    def _quiet(self, _):
        """Nothing that concerns a store."""


@pytest.mark.parametrize(
    ("name", "filed"), [(name, filed) for name in LIVE_STORES for filed in (0, 512) if filed or name != "scan"]
)
@settings(max_examples=min(15, settings().max_examples))
@given(script=scripts(kinds=("within", "similar", "topk"), max_steps=12), spare=st.sampled_from([0, 1000]))
def test_store_follows_a_script(name, filed, script, spare):
    folder = Path(tempfile.mkdtemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CellLiveStore, "unfiled_rows", filed)
        patch.setattr(stored, "_SPARE_ROWS", spare)
        patch.setattr(stored, "_SPARE_WORDS", spare)
        try:
            Play(name, script, folder).run()
        finally:
            shutil.rmtree(folder)
