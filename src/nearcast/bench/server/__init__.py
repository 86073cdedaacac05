"""`nearcast bench server`: a real server on loopback under load from another process, beside the aims of the project.

workload         circles of one word for subscribers, and messages, as tables and as bodies of requests
data_folders     a data folder with all subscriptions, with a snapshot and without
server_process   `nearcast serve` as a process: started, killed, its memory
loopback_http    a plain HTTP/1.1 client and a reader of streams, on asyncio
hook_receiver    the endpoints of webhooks, on the same loop
load             the load generator's jobs, one for each kind of traffic
load_process     runs a job in a process of its own
answers          events of a sample of subscribers beside those of a hub in memory
rows             the rows of the report
run              all of them in order
soak             minutes of steady load: memory, disk, and what was dropped
soak_load        the traffic of a soak
"""
