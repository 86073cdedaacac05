"""Rules of a subscriber that are set anew: cool-down, counts and what is held go on."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from hook_receivers import HookReceiver, ListedEvents, ManualClock, page_of

from nearcast.server.webhooks.addresses import AddressPolicy
from nearcast.server.webhooks.attempts import AttemptStore
from nearcast.server.webhooks.dispatcher import Dispatcher
from nearcast.server.webhooks.quiet import QuietFilter, QuietRules
from nearcast.server.webhooks.signing import new_secret
from nearcast.server.webhooks.sink import HookSink
from nearcast.server.webhooks.transport import HookTransport

NOW = 1_800_000_000.0
HOUR = timedelta(hours=1)


def _told(handover):
    return [notice.event["subject"] for notice in handover.notices]


def test_a_cool_down_goes_on_when_settings_are_put_again(tmp_path: Path) -> None:
    """Also with another URL; the notice after it says how many were held back before and after."""

    async def test() -> None:
        clock, source, first, second = ManualClock(), ListedEvents(2), HookReceiver(), HookReceiver()
        store = AttemptStore(tmp_path / "webhooks.db")
        transport = HookTransport(AddressPolicy.allowing(["127.0.0.0/8"]))
        dispatcher = Dispatcher(store, source, transport, clock=clock)
        async with asyncio.timeout(600), first.running(), second.running():
            for receiver in (first, second):
                sink = HookSink(f"http://127.0.0.1:{receiver.port}/", (new_secret(),))
                dispatcher.put("anna", sink, QuietRules(cooldown=HOUR))
                await clock.settle()
            assert dispatcher.held_back("anna") == 1
            source.add()
            dispatcher.wake(["anna"])
            await clock.settle()
            assert (dispatcher.held_back("anna"), len(first.requests), len(second.requests)) == (2, 1, 0)
            clock.advance(3601)
            source.add()
            dispatcher.wake(["anna"])
            await second.take(1)
            assert b'"heldback":2' in second.requests[0].body
            await dispatcher.close()
        store.close()

    asyncio.run(test())


def test_another_cool_down_counts_from_the_last_notice() -> None:
    """A shorter one ends sooner, and none at all at once."""
    source = ListedEvents(5)
    one, two, three, four, five = source.listed
    quiet = QuietFilter(QuietRules(cooldown=HOUR))
    assert ["1"] == _told(quiet.take(page_of([one, two]), NOW))
    quiet = quiet.with_rules(QuietRules(cooldown=timedelta(minutes=1)))
    assert [] == _told(quiet.take(page_of([three]), NOW + 59))
    assert ["4"] == _told(quiet.take(page_of([four]), NOW + 61))
    quiet = quiet.with_rules(QuietRules())
    assert ["5"] == _told(quiet.take(page_of([five]), NOW + 62))


def test_what_a_digest_holds_is_told_when_there_is_none_any_more() -> None:
    """Each event for itself, once; while there is one, its time goes on."""
    source = ListedEvents(3)
    quiet = QuietFilter(QuietRules(digest=HOUR, once_per_message=True))
    assert [] == quiet.take(page_of(source.listed[:2]), NOW).notices
    kept = quiet.with_rules(QuietRules(digest=2 * HOUR, once_per_message=True))
    assert (NOW + 7200, "1-0") == (kept._digest_due, kept._through())
    quiet = kept.with_rules(QuietRules(once_per_message=True))
    assert "1-0" == quiet._through()
    found = quiet.take(page_of(source.listed[2:]), NOW + 5)
    assert (["1", "2", "3"], "3-1") == (_told(found), found.through)


def test_what_is_debounced_is_held_by_other_rules_as_well() -> None:
    """It lasts as long as they say, and is told once."""
    source = ListedEvents()
    event = source.add()
    event.event["time"] = "2027-01-15T08:00:00Z"
    quiet = QuietFilter(QuietRules(enter=HOUR))
    assert [] == _told(quiet.take(page_of([event]), NOW))
    quiet = quiet.with_rules(QuietRules(enter=HOUR, cooldown=HOUR))
    assert [] == _told(quiet.take(page_of([]), NOW + 3599))
    quiet = quiet.with_rules(QuietRules(enter=timedelta(minutes=1), cooldown=HOUR))
    assert ["1"] == _told(quiet.take(page_of([]), NOW + 3599))
    assert [] == _told(quiet.take(page_of([]), NOW + 9000))


def test_a_notice_that_was_not_sent_begins_no_cool_down() -> None:
    """Its event is read again after the disk failed, and must not be held back for its own sake."""
    source = ListedEvents(2)
    quiet = QuietFilter(QuietRules(cooldown=HOUR))
    assert ["1"] == _told(quiet.take(page_of(source.listed[:1]), NOW))
    again = quiet.begun_again()
    assert ["1"] == _told(again.take(page_of(source.listed[:1]), NOW + 10))
    again.take(page_of([]), NOW + 11)
    assert [] == _told(again.begun_again().take(page_of(source.listed[1:]), NOW + 12))
