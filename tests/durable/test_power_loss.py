"""A durable hub and power cuts at every sync: what was answered is there, whatever else the disk kept or tore."""

from power_cut import WAYS, PowerCuts, restored

from nearcast import Circle, Hub, TopK, Within
from nearcast.durable import DurableHub
from support.hub_calls import contents_of

OPTIONS = {"window": 3, "index": "scan"}  # few files, which is what time goes to


def message(number, **more):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0, **more}


CALLS = [
    ("subscribe", Within("a", "tea", Circle(0, 0, 5)), "anna"),
    ("subscribe", TopK("k", "tea", (0, 0), k=2, max_distance=3)),
    ("publish", message(1)),
    ("snapshot",),
    ("publish_many", [message(2), message(3)]),
    ("move", "a", (1, 1)),
    ("snapshot",),
    ("publish", message(4, text="tea " * 2000)),
    ("snapshot",),
    ("unsubscribe", "k"),
]


def expected_contents():
    """Return what a hub in memory holds before the first call and after each."""
    memory = Hub("plane", **OPTIONS)
    found, waiting = [(contents_of(memory), [])], []
    for name, *arguments in CALLS:
        if name != "snapshot":
            delivered = getattr(memory, name)(*arguments[: 2 if name == "move" else 1])
            waiting += [each.delivery_id for each in delivered or () if name != "subscribe" and is_annas(each)]
            memory.poll()
        found.append((contents_of(memory), list(waiting)))
    return found


def is_annas(delivery):
    return delivery.subscription_id == "a"


def found_in(hub):
    """Return what a hub holds, and the deliveries that wait for the subscriber."""
    return contents_of(hub), [each.delivery.delivery_id for each in hub.events("anna")]


def cuts_of(folder, monkeypatch, **options):
    """Make the calls, and return the images of power cuts with the number of calls that were answered, -1: no hub."""
    answered = [-1]
    root = folder / "disk"
    root.mkdir()
    with (
        PowerCuts(root, lambda: answered[0]).recording(monkeypatch) as cuts,
        DurableHub(root / "new" / "hub", "plane", **OPTIONS, **options) as hub,
    ):
        answered[0] = 0
        for name, *arguments in CALLS:
            more = {"subscriber": "anna"} if arguments[1:] == ["anna"] else {}
            getattr(hub, name)(*(arguments[:1] if more else arguments), **more)
            hub.poll()
            answered[0] += 1
    return cuts.images


def opened(folder, answered):
    """Open a hub, or make it where the cut came before it was made."""
    return DurableHub.open(folder) if answered >= 0 else DurableHub(folder, "plane", **OPTIONS)


def test_no_call_that_was_answered_is_lost_by_a_power_cut(tmp_path, monkeypatch):
    """Every other image is opened: it has what was answered, and at most the call under way besides; it goes on."""
    expected, images = expected_contents(), cuts_of(tmp_path, monkeypatch)[::2]
    for at, (way, answered, image) in enumerate(images):
        with restored(image, tmp_path / "cut") as folder, opened(folder / "new" / "hub", answered) as hub:
            found, allowed = found_in(hub), expected[max(answered, 0) : answered + 2]
            assert found in allowed, f"image {at} ({way}) after {answered} calls"
            if at % 10 == 0:
                hub.publish(message(99))
    assert len(CALLS) <= max(answered for _, answered, _ in images)
    assert set(WAYS) == {way for way, _, _ in images}


def test_the_cuts_do_take_what_was_not_synced(tmp_path, monkeypatch):
    """With relaxed durability calls are lost, but only the last ones, and every image can be opened."""
    expected, images, n_lost = expected_contents(), cuts_of(tmp_path, monkeypatch, durability="relaxed"), 0
    for at, (_, answered, image) in enumerate(images):
        if answered < 0 or at % 4:
            continue
        with restored(image, tmp_path / "cut") as folder, opened(folder / "new" / "hub", answered) as hub:
            found = found_in(hub)
        assert found in expected[: answered + 2]
        n_lost += found not in expected[answered:]
    assert n_lost
