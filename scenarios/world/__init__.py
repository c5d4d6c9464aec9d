"""Pure parts of the world that the real run and the models share: nothing here has a clock, a socket or a loop.

streams.py       named random streams, one a purpose
blocks.py        the same for millions of draws, in blocks of numpy
arrivals.py      when operations arrive and what they ask
replay.py        arrivals from a trace
service.py       how much work a request is
job.py           one entry of a pool
pool_server.py   slots, queue, cancellation, load that re-times what runs
prefix_cache.py  sessions whose prompts need no second prefill
station.py       all of that as one frontend of a scenario's pool
condition.py     what a frontend can do while a fault of its pool is on
answers.py       what it says
sdk_schedule.py  when an SDK sends again
"""
