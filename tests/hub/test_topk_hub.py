"""Top-k subscriptions in a hub, case by case."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from nearcast import Hub, InvalidInput, Message, Similar, TopK, Vocabulary, Within
from nearcast.errors import IncompatibleStore, InvalidMessage, InvalidSubscription, UnknownIndex
from nearcast.window import Window

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return BEGIN + timedelta(seconds=seconds)


def hub_of(window, **options):
    return Hub("plane", window=window, max_distance=10, index="scan", **options)


def post(id_, text="tea", x=0.0, y=0.0, **more):
    return Message(id_, text, (x, y), **more)


def told(deliveries):
    return [(d.change, d.subscription_id, d.message_id, d.rank) for d in deliveries]


def current(hub, id_):
    return [d.message_id for d in hub.current(id_)]


# --- the order of things ------------------------------------------------------------------------------------------


def test_of_equal_scores_the_newer_ranks_first_and_the_oldest_leaves():
    hub = hub_of(10)
    hub.subscribe(TopK("s", "tea", (0, 0), k=2))
    assert [("+", "s", 1, 1)] == told(hub.publish(post(1)))
    assert [("+", "s", 2, 1)] == told(hub.publish(post(2)))
    assert [("-", "s", 1, 2), ("+", "s", 3, 1)] == told(hub.publish(post(3)))
    assert [3, 2] == current(hub, "s")


def test_expiry_and_arrival_are_one_step():
    """What leaves the window and what takes its place are told together, by the message that caused it."""
    hub = hub_of(2)
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    hub.publish_many([post(1, x=0), post(2, x=5)])
    found = list(hub.publish(post(3, "coffee")))
    assert [("-", "s", 1, 1), ("+", "s", 2, 1)] == told(found)
    assert [3, 3] == [d.cause_id for d in found]
    assert [1.0, 0.75] == [d.score for d in found]


def test_a_message_that_is_best_and_expires_at_once_in_a_window_of_one():
    hub = hub_of(1)
    hub.subscribe(TopK("s", "tea", (0, 0), k=5))
    assert [("+", "s", 1, 1)] == told(hub.publish(post(1)))
    assert [("-", "s", 1, 1)] == told(hub.publish(post(2, "coffee")))
    assert [] == hub.current("s")


def test_a_word_in_common_is_needed_even_on_the_spot():
    hub = hub_of(5)
    hub.subscribe(TopK("s", "tea", (0, 0), k=3, text_weight=0))
    assert [] == list(hub.publish(post(1, "coffee")))
    assert [1.0] == [d.score for d in hub.publish(post(2, "tea and much else"))]


def test_words_alone_and_place_alone():
    hub = hub_of(5)
    hub.subscribe(TopK("words", "tea time", (0, 0), k=1, text_weight=1))
    hub.subscribe(TopK("place", "tea time", (0, 0), k=1, text_weight=0))
    hub.publish_many([post(1, "tea time", x=9), post(2, "tea", x=1)])
    assert [1] == current(hub, "words")
    assert [2] == current(hub, "place")
    assert [1.0] == [d.score for d in hub.current("words")]


def test_repeated_words_count():
    """tf is the count in the message: cosine of (1, 1) and (2, 1) is 3 / √10."""
    hub = hub_of(5)
    hub.subscribe(TopK("s", "tea time", (0, 0), k=1, text_weight=1))
    (found,) = hub.publish(post(1, "tea tea time"))
    assert found.score == pytest.approx(3 / 10**0.5)


def test_order_among_subscriptions_and_kinds_is_that_of_registration():
    hub = hub_of(2)
    hub.subscribe(TopK("c", "tea", (0, 0), k=1))
    hub.subscribe(Within("b", "tea"))
    hub.subscribe(TopK("a", "tea", (0, 0), k=1))
    hub.subscribe(Similar("d", "tea", (0, 0), threshold=0.5))
    hub.publish(post(1, x=1))
    assert [
        ("-", "c", 1, 1),
        ("+", "c", 2, 1),
        ("+", "b", 2, None),
        ("-", "a", 1, 1),
        ("+", "a", 2, 1),
        ("+", "d", 2, None),
    ] == told(hub.publish(post(2)))


def test_a_mere_change_of_rank_is_no_delivery():
    hub = hub_of(5)
    hub.subscribe(TopK("s", "tea", (0, 0), k=3))
    hub.publish(post(1, x=1))
    assert [("+", "s", 2, 1)] == told(hub.publish(post(2)))


# --- changes of subscriptions ---------------------------------------------------------------------------------------


def test_a_new_subscription_gets_what_is_there():
    """It comes first in what the next call returns, or by `poll`; no message caused it."""
    hub = hub_of(5)
    hub.publish_many([post(1, x=2), post(2, x=1), post(3, "coffee")])
    hub.subscribe(TopK("s", "tea", (0, 0), k=2))
    assert [("+", "s", 2, 1), ("+", "s", 1, 2), ("-", "s", 1, 2), ("+", "s", 4, 1)] == told(hub.publish(post(4)))
    hub.subscribe(TopK("t", "coffee", (0, 0), k=2))
    found = list(hub.poll())
    assert [("+", "t", 3, 1)] == told(found)
    assert [None] == [d.cause_id for d in found]
    assert [] == list(hub.poll())


def test_a_new_subscription_finds_words_that_nobody_had_asked_for():
    hub = hub_of(5)
    hub.publish(post(1, "unheard of"))
    hub.subscribe(TopK("s", "unheard", (0, 0), k=2))
    assert [("+", "s", 1, 1)] == told(hub.poll())


def test_k_words_and_place_can_be_changed():
    hub = hub_of(9)
    hub.publish_many([post(1, x=1), post(2, x=2), post(3, "coffee", x=3)])
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    assert [("+", "s", 1, 1)] == told(hub.poll())
    hub.subscribe(TopK("s", "tea", (0, 0), k=2))
    assert [("+", "s", 2, 2)] == told(hub.poll())
    hub.subscribe(TopK("s", "tea coffee", (3, 0), k=2))
    assert [("-", "s", 1, 1), ("+", "s", 3, 1)] == told(hub.poll())
    assert [3, 2] == current(hub, "s")
    assert [("-", "s", 3, 1), ("+", "s", 1, 1)] == told(hub.move("s", (1, 0)))


def test_a_subscription_can_become_one_of_another_kind():
    hub = hub_of(9)
    hub.publish(post(1))
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    hub.subscribe(Within("s", "tea"))
    assert [("+", "s", 1, 1)] == told(hub.poll())
    with pytest.raises(InvalidSubscription, match="'s' is not of kind 'topk'"):
        hub.current("s")
    assert [("+", "s", 2, None)] == told(hub.publish(post(2)))
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    assert [("+", "s", 2, 1)] == told(hub.poll())


def test_an_expired_subscription_hears_no_more():
    hub = hub_of(1)
    hub.subscribe(TopK("s", "tea", (0, 0), k=1, expires=at(5)))
    assert [("+", "s", 1, 1)] == told(hub.publish(post(1, time=at(4))))
    assert [] == list(hub.publish_many([post(2, time=at(5)), post(3, time=at(6))]))
    assert 0 == len(hub)


def test_a_new_vocabulary_delivers_the_difference():
    hub = hub_of(9)
    hub.subscribe(TopK("s", "tea cake", (0, 0), k=1, text_weight=1))
    hub.publish_many([post(1, "tea here"), post(2, "cake there")])
    assert [2] == current(hub, "s")
    learned = Vocabulary()
    learned.learn_tokens([["cake"]] * 50 + [["here"]] * 50)
    found = list(hub.use_vocabulary(learned))
    assert [("-", "s", 2, 1), ("+", "s", 1, 1)] == told(found)
    assert {learned.version} == {d.version for d in found}


@pytest.mark.parametrize("k", [1, 1000])
def test_k_from_1_to_1000(k):
    hub = hub_of(3000)
    hub.subscribe(TopK("s", "tea", (0, 0), k=k))
    hub.publish_many([post(i, x=i % 10) for i in range(2500)])
    best = sorted(range(2500), key=lambda i: (i % 10, -i))[:k]
    assert best == current(hub, "s")


# --- windows --------------------------------------------------------------------------------------------------------


def test_a_time_window_reaches_back_from_the_latest_time():
    """now - L < time ≤ now: what is exactly L old is gone."""
    hub = hub_of("10s")
    hub.subscribe(TopK("s", "tea", (0, 0), k=3))
    hub.publish_many([post(1, time=at(0)), post(2, time=at(1))])
    assert [("-", "s", 1, 2), ("+", "s", 3, 1)] == told(hub.publish(post(3, time=at(10))))
    found = list(hub.advance(at(11)))
    assert [("-", "s", 2, 2)] == told(found)
    assert (None, at(11)) == (found[0].cause_id, found[0].time)
    assert [] == list(hub.advance(at(5)))


def test_a_late_message_joins_at_its_own_time_and_an_older_one_does_not_join():
    hub = hub_of("10s")
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    hub.publish(post(1, time=at(20)))
    assert [] == told(hub.publish(post(2, time=at(15))))  # as good, but older
    found = hub.publish_many([post(3, time=at(10)), post(4, time=at(30)), post(5, "coffee", time=at(29))])
    assert 0 == len(found.rejected)
    assert ["messages came too late for the window of 10s"] == [each.split(";")[0] for each in found.rejected.warnings]
    assert [("-", "s", 1, 1), ("+", "s", 4, 1)] == told(found)
    assert [] == told(hub.publish(post(6, time=at(20))))
    with pytest.raises(InvalidMessage, match="time is not given; a window of 10s"):
        hub.publish(post(7))
    assert (6, 2) == (hub.stats()["published"], hub.stats()["late"])


def test_a_late_message_leaves_before_those_that_came_earlier():
    hub = hub_of("10s")
    hub.subscribe(TopK("s", "tea", (0, 0), k=2))
    hub.publish_many([post(1, time=at(9)), post(2, time=at(2))])
    assert [1, 2] == current(hub, "s")
    assert [("-", "s", 2, 2)] == told(hub.advance(at(12)))
    assert [("-", "s", 1, 1)] == told(hub.advance(at(19)))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (100_000, Window(100_000, None)),
        ("100000", Window(100_000, None)),
        ("30s", Window(None, 30_000_000)),
        ("15m", Window(None, 900_000_000)),
        ("2h", Window(None, 7_200_000_000)),
        ("7d", Window(None, 604_800_000_000)),
        (timedelta(milliseconds=1500), Window(None, 1_500_000)),
    ],
)
def test_windows_count_messages_or_time(given, expected):
    assert expected == Window.of(given)


@pytest.mark.parametrize("text", ["100000", "30s", "15m", "2h", "7d"])
def test_a_window_says_what_it_is(text):
    assert text == str(Window.of(text))


@pytest.mark.parametrize(
    "given", [0, -1, "0", "0s", "", "s", "5w", "1.5h", True, None.__class__, timedelta(0), "9" * 30]
)
def test_what_is_no_window_is_refused(given):
    with pytest.raises(InvalidInput, match="expected a number of messages like 100000, or a time like 30s"):
        Window.of(given)


@pytest.mark.parametrize("given", [(0, None), (None, 0), (None, None), (1, 1)])
def test_a_window_is_one_thing(given):
    with pytest.raises(InvalidInput, match="a count or a length above 0"):
        Window(*given)


# --- batches, files, memory -----------------------------------------------------------------------------------------


def stream(n):
    """Messages whose scores rise and fall, so that buffers run dry now and then."""
    return [post(i, f"tea w{i % 7}", x=(i * 37 % 100) / 10 * (1 + (i // 50) % 2), time=at(i)) for i in range(n)]


@pytest.mark.parametrize(
    ("buffer", "window"), [("cskyband", 20), ("cskyband", "20s"), ("skyband", "20s"), ("kmax", 20)]
)
def test_where_a_batch_ends_is_nobodys_business(window, buffer):
    def run(portions):
        hub = Hub("plane", window=window, max_distance=10, index=f"scan:buffer={buffer},kmax=4")
        for i in range(5):
            hub.subscribe(TopK(f"s{i}", f"tea w{i}", (i, 0), k=3, text_weight=i / 4))
        messages, found = stream(200), []
        while messages:
            size = portions.pop(0) if portions else 1
            found += hub.publish_many(messages[:size])
            messages = messages[size:]
        return found

    whole = run([200])
    assert whole == run([7, 1, 50, 60])
    assert whole == run([])
    assert {"+", "-"} == {d.change for d in whole}


def test_rows_have_the_columns_of_deliveries():
    """Ids of messages keep their type, also where both occur."""
    hub = hub_of(1)
    hub.subscribe_many(pa.table({"id": [7], "kind": ["topk"], "query": ["tea"], "x": [0.0], "y": [0.0], "k": [2]}))
    names = ["subscription_id", "message_id", "change", "score", "rank", "cause_id", "delivery_id", "time"]
    first = hub.publish(post(1, time=at(0))).to_table(delivery_ids=True).select(names)
    second = hub.publish(post("two", time=at(1))).to_table(delivery_ids=True).select(names)
    assert [dict(zip(names, [7, 1, "+", 1.0, 1, 1, "1:1:+7", at(0)], strict=True))] == first.to_pylist()
    assert [
        dict(zip(names, [7, 1, "-", 1.0, 1, "two", "2:1:-7", at(1)], strict=True)),
        dict(zip(names, [7, "two", "+", 1.0, 1, "two", "2:2:+7", at(1)], strict=True)),
    ] == second.to_pylist()


@pytest.mark.parametrize("window", [30, "30s"])
@pytest.mark.parametrize("index", ["scan", "scan:buffer=kmax", "scan:messages=ir-tree"])
def test_a_saved_hub_goes_on_as_if_nothing_had_happened(tmp_path, window, index):
    hub = Hub("plane", window=window, max_distance=10, index=index)
    for i in range(6):
        hub.subscribe(TopK(i, f"tea w{i}", (i, 0), k=3))
    hub.subscribe(Within("w", "w3"))
    messages = stream(250)
    hub.publish_many(messages[:120])
    hub.unsubscribe(2)
    hub.save(tmp_path / "saved")
    other = Hub.open(tmp_path / "saved")
    assert hub.window == other.window
    assert [hub.current(i) for i in (0, 1, 3)] == [other.current(i) for i in (0, 1, 3)]
    assert list(hub.publish_many(messages[120:])) == list(other.publish_many(messages[120:]))
    for each in (hub, other):
        each.subscribe(TopK("new", "tea w2", (3, 0), k=4))
    assert list(hub.poll()) == list(other.poll())
    assert hub.stats()["published"] == other.stats()["published"]


def test_what_cannot_be_saved_or_opened_is_said(tmp_path):
    hub = hub_of(5)
    hub.publish(post(1))
    hub.subscribe(TopK("s", "tea", (0, 0)))
    with pytest.raises(ValueError, match="poll"):
        hub.save(tmp_path / "a")
    hub.poll()
    hub.save(tmp_path / "a")
    (tmp_path / "a" / "hub.json").write_text("{")
    with pytest.raises(IncompatibleStore, match=r"hub\.json is damaged: it was cut off or edited"):
        Hub.open(tmp_path / "a")
    (tmp_path / "a" / "hub.json").unlink()
    with pytest.raises(IncompatibleStore, match="no saved hub"):
        Hub.open(tmp_path / "a")


def test_words_of_messages_that_are_gone_are_forgotten(monkeypatch):
    """A stream of ever new words does not fill memory, and what is left is still found."""
    monkeypatch.setattr("nearcast.topk.keeper._SPARE_WORDS", 20)
    hub = hub_of(10)
    hub._state.topk._word_limit = 20
    hub.subscribe(TopK("s", "tea", (0, 0), k=3))
    for i in range(300):
        hub.publish(post(i, f"tea new{i}"))
        assert len(hub._state.topk.word_table) < 100
    hub.subscribe(TopK("t", "new295", (0, 0), k=3))
    assert [("+", "t", 295, 1)] == told(hub.poll())
    assert [299, 298, 297] == current(hub, "s")


def test_words_are_not_forgotten_between_the_messages_of_one_call(monkeypatch):
    """All of them are encoded before the first is published."""
    monkeypatch.setattr("nearcast.topk.keeper._SPARE_WORDS", 20)
    hub = hub_of(10)
    hub._state.topk._word_limit = 20
    hub.publish_many([post(i, f"tea new{i} other{i}") for i in range(2000)])
    hub.subscribe(TopK("t", "new1995 other1996", (0, 0), k=3))
    assert [("+", "t", 1996, 1), ("+", "t", 1995, 2)] == told(hub.poll())


@pytest.mark.parametrize("buffer", ["cskyband", "skyband", "kmax"])
def test_buffers_stay_short_over_a_long_stream(buffer):
    """Also those that began on an empty window, when everything was welcome."""
    hub = Hub("plane", window=500, max_distance=10, index=f"scan:buffer={buffer}")
    for i in range(20):
        hub.subscribe(TopK(i, "tea", (i % 5, 0), k=2))
    hub.publish_many(stream(4000))
    topk = hub.stats()["topk"]
    assert topk["entries"] <= 20 * 72
    assert topk["bytes"] < 20 * 4000
    assert 500 == topk["messages"]


def test_wrong_options_of_buffers_are_refused():
    for index, reason in (
        ("scan:buffer=deep", "there is no buffer=deep; choose one of kmax, skyband, cskyband"),
        ("scan:messages=none", "there is no messages=none"),
        ("scan:kmax=0", "choose 1 or more"),
        ("scan:ratio=2", "choose above 0, up to 1"),
        ("stamp:buffer=kmax", "no option"),
    ):
        with pytest.raises(UnknownIndex, match=reason):
            Hub("plane", index=index)


def test_an_interrupted_subscribe_leaves_nothing_behind(monkeypatch):
    hub = hub_of(5)
    hub.publish(post(1))
    with monkeypatch.context() as patch:
        patch.setattr(hub._state.topk, "_search", interrupt)
        with pytest.raises(KeyboardInterrupt):
            hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    assert "s" not in hub
    assert [] == list(hub.publish(post(2)))
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    assert [("+", "s", 2, 1)] == told(hub.poll())


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("window", [4, "4s"])
def test_an_interrupted_publish_can_be_made_again(monkeypatch, window):
    """The message of the torn call never arrived; published again it tells what it would have told."""
    hub = Hub("plane", window=window, max_distance=10, index="scan:buffer=kmax,kmax=1")
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    hub.publish_many([post(i, x=i, time=at(i)) for i in range(4)])
    with monkeypatch.context() as patch:
        patch.setattr(hub._state.topk, "_search_for_short", interrupt)
        with pytest.raises(KeyboardInterrupt):
            hub.publish(post(4, x=9, time=at(4)))
    assert [("-", "s", 0, 1), ("+", "s", 1, 1)] == told(hub.publish(post(4, x=9, time=at(4))))
    assert [("-", "s", 1, 1), ("+", "s", 2, 1)] == told(hub.publish(post(5, x=9, time=at(5))))
    assert [("-", "s", 2, 1), ("+", "s", 6, 1)] == told(hub.publish(post(6, x=1, time=at(6))))


def test_many_equal_messages_find_room():
    """Searches that find tens of thousands, in buffers of all lengths."""
    hub = Hub("plane", window=60_000, max_distance=10, index="scan:buffer=skyband")
    sizes = {"a": 5000, "b": 4500, "c": 4000, "d": 40_000}
    words = [word for word, n in sizes.items() for _ in range(n)]
    table = {"id": list(range(len(words))), "text": words, "x": [0.0] * len(words), "y": [0.0] * len(words)}
    hub.publish_many(pa.table(table))
    for word in sizes:
        hub.subscribe(TopK(word, word, (0, 0), k=1000))
    last = {word: max(i for i, each in enumerate(words) if each == word) for word in sizes}
    assert last == {word: current(hub, word)[0] for word in sizes}
    assert hub.stats()["topk"]["bytes"] < 4 * 1200 * 16 + 100_000


def test_ids_of_both_types_meet_in_a_window():
    hub = hub_of(1000)
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    hub.publish(post("old"))
    more = [post(i, "coffee") for i in range(1100)]
    found = hub.publish_many([*more[:600], post(2000), *more[600:]]).to_table()
    assert [("old", 2000), (2000, 2000)] == list(
        zip(found["message_id"].to_pylist(), found["cause_id"].to_pylist(), strict=True)
    )


def test_messages_in_any_order_of_time():
    """The newest first: all but the first are late, and each joins at its own time."""
    hub = hub_of("1h")
    hub.subscribe(TopK("s", "tea", (0, 0), k=2))
    hub.publish_many([post(i, time=at(3000 - i)) for i in range(3000)])
    assert [0, 1] == current(hub, "s")
    hub.advance(at(3000 + 3600 - 1))
    assert [0] == current(hub, "s")


# --- why --------------------------------------------------------------------------------------------------------------


def steps_of(hub, message, id_="s"):
    return {step.name: step for step in hub.explain(message, id_).steps}


def test_explain_says_at_which_rank_a_message_would_enter():
    hub = hub_of(9)
    hub.subscribe(TopK("s", "tea cake", (0, 0), k=2))
    found = hub.explain(post(9, "tea cake"), "s")
    assert found.matched
    assert "enters at rank 1 among 0 of 2 so far" in str(found)
    hub.publish_many([post(1, "tea cake"), post(2, "tea", x=1)])
    steps = steps_of(hub, post(9, "tea cake", x=0.5))
    assert (2, 2) == (steps["rank"].values["rank"], steps["rank"].values["k"])
    assert "enters at rank 2 among the best 2; rank 2 leaves" in steps["rank"].detail
    assert [] == list(hub.poll())  # nothing was published by asking


def test_explain_sees_what_the_message_would_push_out_of_the_window():
    hub = hub_of(1)
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    hub.publish(post(1))
    assert hub.explain(post(2, x=9), "s").matched
    assert [("-", "s", 1, 1), ("+", "s", 2, 1)] == told(hub.publish(post(2, x=9)))
    late = hub_of("10s")
    late.subscribe(TopK("s", "tea", (0, 0), k=1))
    late.publish_many([post(1, time=at(0)), post(2, x=5, time=at(5))])
    rank = steps_of(late, post(3, x=4, time=at(10)))["rank"]
    assert (1, 0.75) == (rank.values["rank"], rank.values["needed"])


def test_explain_adds_no_words_to_the_window():
    hub = hub_of(5)
    hub.subscribe(TopK("s", "tea", (0, 0), k=1))
    before = len(hub._state.topk.word_table)
    hub.explain(post(1, "never seen"), "s")
    assert before == len(hub._state.topk.word_table)


def test_explain_says_what_it_would_take_and_that_is_true():
    hub = hub_of(9)
    hub.subscribe(TopK("s", "tea cake", (0, 0), k=1))
    hub.publish(post(1, "tea cake", x=2))
    rank = steps_of(hub, post(9, "tea", x=3))["rank"]
    assert rank.passed is False
    assert "would enter if with the word 'cake' as well" not in rank.detail  # too far away for that
    near = steps_of(hub, post(9, "tea cake", x=2.5))["rank"]
    assert "would enter if within 1.99" in near.detail
    assert steps_of(hub, post(9, "tea cake", x=2))["rank"].passed
    words = steps_of(hub, post(9, "tea", x=0))["rank"]
    assert "with the word 'cake' as well" in words.detail
    assert steps_of(hub, post(9, "tea cake", x=0))["rank"].passed


def test_explain_says_that_a_word_is_needed_and_that_a_message_is_late():
    hub = hub_of("10s")
    hub.subscribe(TopK("s", "tea", (0, 0), k=1, text_weight=0))
    hub.publish(post(1, time=at(50)))
    found = hub.explain(post(9, "coffee", time=at(50)), "s")
    assert not found.matched
    assert "no word in common" in found.reason
    late = hub.explain(post(9, time=at(1)), "s")
    assert not late.matched
    assert "came too late" in late.reason
    tie = steps_of(hub, post(9, time=at(45)))["rank"]
    assert (2, False) == (tie.values["rank"], tie.passed)  # as good as the one there, but older
