"""Random calls of a hub for property tests: each once as a user makes it, and once as the input that a log holds."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from nearcast import Area, Box, Circle, NearcastError, Similar, TopK, Vocabulary, Within
from nearcast.durable import calls
from nearcast.tables import Rejected

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["tea", "ramen", "beer", "soup"]
QUERIES = ["tea", "tea AND ramen", "ramen OR soup", "tea AND NOT beer", '"tea ramen"', "NOT beer", "tea AND NOT tea"]
EARTH = [(179.0, 0.0), (-179.0, 0.0), (180.0, 0.0), (-180.0, 1.0), (0.0, 90.0), (178.0, -1.0), (179.3, 0.1)]
PLANE = [(0.0, 0.0), (1.0, 0.0), (2.0, 1.0), (3.0, 0.0), (0.0, 2.0), (0.1, 0.3), (1 / 3, 2 / 3)]
OVER_DATELINE = {"type": "Polygon", "coordinates": [[(179, -1), (-179, -1), (-179, 1), (179, 1), (179, -1)]]}
TRIANGLE = {"type": "Polygon", "coordinates": [[(0, 0), (2, 0), (1 / 3, 2), (0, 0)]]}

TEXTS = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
IDS = st.sampled_from(["a", "b", "c", "d", 7, 8])
TEXT_IDS = st.sampled_from(["a", "b", "c", "d"])
SECONDS = st.none() | st.integers(0, 12)
PLACES = st.integers(0, 6)


def moment(second):
    return None if second is None else BEGIN + timedelta(seconds=second)


def place(at, is_earth):
    return (EARTH if is_earth else PLANE)[at]


def shape(at, size, is_earth):
    x, y = place(at, is_earth)
    if size == 0:
        return Circle(x, y, 111_200.0 if is_earth else 1.0)
    if size == 1:
        return Box(178.0, -1.0, -179.0, 1.0) if is_earth else Box(0.0, 0.0, 2.0, 1.0)
    if size == 2:
        return Area(OVER_DATELINE if is_earth else TRIANGLE)
    return Box(-1.0, -1.0, 1 / 3, 1.0)


def columns(at, is_earth):
    return dict(zip(("lon", "lat") if is_earth else ("x", "y"), place(at, is_earth), strict=True))


@st.composite
def subscriptions(draw, is_earth, ids=IDS):
    id_, at, expires = draw(ids), draw(PLACES), moment(draw(st.none() | st.none() | st.integers(2, 14)))
    min_move, far = draw(st.sampled_from([None, None, 0.5])), 300_000.0 if is_earth else 3.0
    more = {"expires": expires, "min_move": min_move}
    kind = draw(st.sampled_from(["within", "within", "similar", "topk"]))
    if kind == "within":
        query, size = draw(st.sampled_from(QUERIES)), draw(st.integers(-1, 3))
        is_anywhere = size < 0 and not query.startswith("NOT")
        return Within(id_, query, None if is_anywhere else shape(at, max(size, 0), is_earth), **more)
    words = draw(st.sampled_from(["tea", "tea ramen", "soup beer tea"]))
    if kind == "topk":
        return TopK(id_, words, place(at, is_earth), k=draw(st.integers(1, 2)), max_distance=far, **more)
    terms, similarity = draw(st.sampled_from([None, ("soup",)])), draw(st.sampled_from(["tsim", "jaccard", "cosine"]))
    threshold = draw(st.sampled_from([0.2, 0.5, 0.8]))
    return Similar(
        id_,
        words,
        place(at, is_earth),
        terms=terms,
        threshold=threshold,
        similarity=similarity,
        max_distance=far,
        **more,
    )


def one_of_each_kind(is_earth):
    """Return subscriptions that the calls find there, so that moves have something to move."""
    far, at = 300_000.0 if is_earth else 3.0, place(0, is_earth)
    return [
        Within("a", "tea OR ramen", shape(0, 0, is_earth)),
        Within("b", "tea AND NOT beer", shape(0, 1, is_earth)),
        Similar("c", "tea ramen", at, threshold=0.2, max_distance=far),
        TopK("d", "tea soup", at, k=2, max_distance=far),
    ]


@st.composite
def messages(draw, is_earth):
    time, life = draw(SECONDS), draw(st.none() | st.integers(-1, 5))
    found = {
        "id": draw(st.integers(0, 99)),
        "text": draw(TEXTS),
        "time": moment(time),
        **columns(draw(PLACES), is_earth),
    }
    if life is not None:
        found["expires"] = moment((time or 0) + life)
    kind = draw(st.integers(0, 5))
    if kind == 0:  # a rectangle, and things that only travel along
        far = {"lon_max": found["lon"], "lat_max": 90.0} if is_earth else {"x_max": 3.5, "y_max": 3.0}
        found |= far | {"price": 3, "shop": {"open": True}}
    return found | {"terms": ["soup"]} if kind == 1 else found


@st.composite
def moves(draw, is_earth):
    row = {"id": draw(TEXT_IDS), "time": moment(draw(SECONDS))}
    if draw(st.integers(0, 3)):
        return row | columns(draw(PLACES), is_earth)
    return row | {"region": shape(draw(PLACES), draw(st.integers(0, 3)), is_earth)}


@st.composite
def vocabularies(draw):
    vocabulary = Vocabulary()
    vocabulary.learn_tokens(draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=3), max_size=4)))
    return vocabulary


def call_lists(is_earth, max_size=12):
    """Return a strategy of lists of calls: (method, *arguments)."""
    subscription, message, move = subscriptions(is_earth), messages(is_earth), moves(is_earth)
    bad_message, bad_subscription = {"id": 1, "text": "tea"}, {"id": "a", "query": "(tea"}
    single_moves = st.tuples(
        st.just("move"),
        IDS,
        PLACES.map(lambda at: place(at, is_earth))
        | st.tuples(PLACES, st.integers(0, 3)).map(lambda drawn: shape(*drawn, is_earth)),
        SECONDS.map(moment),
    )
    return st.lists(
        st.one_of(
            st.tuples(st.just("subscribe"), subscription),
            st.tuples(
                st.just("subscribe_many"),
                st.lists(subscriptions(is_earth, TEXT_IDS) | st.just(bad_subscription), max_size=4),
            ),
            st.tuples(st.just("subscribe_many"), st.just("to_table")),
            st.tuples(st.just("publish"), message),
            st.tuples(st.just("publish"), message),
            st.tuples(st.just("publish_many"), st.lists(message | st.just(bad_message), max_size=5)),
            st.tuples(st.just("publish_many"), st.lists(message, min_size=2, max_size=5)),
            single_moves,
            st.tuples(st.just("move_many"), st.lists(move | st.just({"id": "a", "lon": 3}), max_size=5)),
            st.tuples(st.just("unsubscribe"), IDS),
            st.tuples(st.just("unsubscribe_many"), st.lists(IDS | st.none(), max_size=3)),
            st.tuples(st.just("advance"), st.integers(0, 14).map(moment)),
            st.tuples(st.just("use_vocabulary"), vocabularies()),
        ),
        min_size=3,
        max_size=max_size,
    )


def prepared(hub, call):
    """Return a call whose table of subscriptions, if it is that of the hub, is there."""
    return ("subscribe_many", hub.to_table()) if call[1:] == ("to_table",) else call


def input_of(hub, call):
    """Return the input of a call, None where it is refused before it is logged."""
    method, *given = call
    space, rejected = hub.space, Rejected()
    try:
        if method.endswith("_many") and method != "unsubscribe_many":
            return getattr(calls, method)(*given, space, "rows", rejected, is_strict=False)
        if method in ("advance", "unsubscribe", "unsubscribe_many", "use_vocabulary"):
            return getattr(calls, method)(*given)
        return getattr(calls, method)(*given, space)
    except NearcastError:
        return None


def outcome(hub, call):
    """Return what a call and the poll after it deliver and reject, or the error it raises."""
    try:
        found = call()
    except NearcastError as error:
        return type(error).__name__, str(error)
    delivered = [*found] if hasattr(found, "tables") else []
    rejected = getattr(found, "rejected", found)
    reasons = [row.reason for row in rejected] if isinstance(rejected, Rejected) else []
    return [fields_of(each) for each in [*delivered, *hub.poll()]], reasons


def fields_of(delivery):
    """Return the fields of a delivery but its message, which only the call that published it knows."""
    return tuple(getattr(delivery, name) for name in delivery.__slots__ if name != "message")


def contents_of(hub):
    """Return all that a hub answers by and counts."""
    current = {}
    for id_ in hub:
        try:
            current[id_] = [fields_of(each) for each in hub.current(id_)]
        except NearcastError:
            current[id_] = None
    stats, held = hub.stats(), hub._state
    counts = {name: stats[name] for name in ("now", "published", "delivered", "rejected", "late")}
    values = [hub.get(id_) for id_ in hub]
    reports = held.movers.of(held.ids.in_use()).tolist()
    return values, current, counts, held.next_step, held.vocabulary.version, str(reports), held.next_expiry
