"""An acknowledgement that comes while its subscriber is erased."""

from nearcast.durable import DurableHub

TEA = {"id": "tea", "query": "tea", "lon": 13.4, "lat": 52.5, "radius_m": 800}
MESSAGE = {"id": 1, "text": "tea", "lon": 13.4, "lat": 52.5}


def test_an_acknowledgement_that_an_erasure_overtook_leaves_no_row(tmp_path):
    """It was on its way to the writer when the subscriber was erased; the next transaction takes its row away."""
    with DurableHub(tmp_path / "hub", "earth") as hub:
        hub.subscribe(TEA, subscriber="anna")
        hub.publish(MESSAGE)
        cursor, run = hub.events("anna").cursor, hub._writer.run

        def erased_first(call):
            hub._writer.run = run
            hub.erase("anna")
            return run(call)

        hub._writer.run = erased_first
        hub.ack("anna", cursor)
        hub.subscribe(TEA, subscriber="ben")
        assert [] == list(hub._log.acks())
        hub.publish(MESSAGE)
        hub.ack("ben", hub.events("ben").cursor)
        assert 1 == len(list(hub._log.acks()))
