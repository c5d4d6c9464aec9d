"""What is known of layered retries without running anything: pure functions over plain numbers, each with its source.

| file | what it holds |
| --- | --- |
| attempts.py | nested layers multiply; a cap over the chain bounds the product |
| amplification.py | what each kind of retry budget allows at most, at this rate |
| latency.py | the longest that a caller waits for nothing |
| queueing.py | safe utilisation, bounds on queues, time to recover, capacity with one pool lost |

Symbols: lambda (`rate_rps`) operations a second, mu (`capacity_rps`) what the pools can serve, p the chance that one
attempt fails, T (`timeout_s`) the client's patience, A (`amplification`) sends for each operation.
"""
