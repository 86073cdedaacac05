"""The HTTP server: hubs of tenants behind routes, streams and tokens (`nearcast serve`).

`app` puts it together, `run` serves it by uvicorn, `settings` has all that can be set. `tenants` are worlds of their
own: a `DurableHub` and a `server_db` each. `access` says who calls (`tokens`, `hosts`, `rates`), `bodies` reads what
they send, `problems` is how they are refused. `publisher` publishes what waits together, `feeds` wakes those who wait
for events, `cloud_events` is the form of an event. The other modules hold routes, each named for its resource.
"""
