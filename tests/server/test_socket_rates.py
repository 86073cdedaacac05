"""What a client sends over a WebSocket counts as its requests do."""

import json

from websockets.sync.client import connect

from support.http_server import circle, make_token, running
from support.waiting import PATIENCE_S


def test_frames_are_limited_as_requests_are(tmp_path):
    """Opening the socket and two frames are all that the token may; what comes then changes nothing, and is told so."""
    token = make_token(tmp_path, scopes=("subscribe", "location"), subscriber="anna")
    with running(tmp_path, limits={"rate": "3/hour"}) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna"))
        url = server.url.replace("http", "ws") + "/v1/subscribers/anna/ws"
        with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as socket:
            answers = []
            for frame in ({"ack": "0-0"}, {"location": {"lon": 1, "lat": 2}}, {"location": {"lon": 5, "lat": 6}}):
                socket.send(json.dumps(frame))
                answers.append(json.loads(socket.recv(PATIENCE_S)))
        assert [{"acked": "0-0"}, {"moved": 1, "stayed": []}] == answers[:2]
        assert (429, "urn:nearcast:problem:too-many-requests") == (
            answers[2]["problem"]["status"],
            answers[2]["problem"]["type"],
        )
        moved = client.get("/v1/subscriptions/tea").json()
        assert (1, 2) == (moved["lon"], moved["lat"])
