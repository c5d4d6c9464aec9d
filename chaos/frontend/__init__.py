"""A fake frontend of an inference pool: a process of its own that answers chat completions and logs what it saw.

Laws
1. The whole body is read before anything is answered; what was received is logged before it is acted upon.
2. Every byte of a streamed answer is known in advance (wire.py), so a fault can cut after a given event.
3. Text and timing come from `scenarios.world` and the scenario's `Pool` alone, as in the model.

    wire.py        the bytes of answers
    connection.py  HTTP/1.1 on one socket, parsed by h11
    service.py     what the frontend does with a request
    desk.py        slots and queue on the loop's clock
    control.py     how the harness changes its mode and looks at its state
    log.py         the log of events, written off the loop
    __main__.py    the process
"""
