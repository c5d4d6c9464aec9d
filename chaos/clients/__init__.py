"""The programs that ask: raw aiohttp without retries, and the real OpenAI SDK with its own.

Both are open loop (an answer that is late never delays the next operation), make the ids, and measure every HTTP
request by the same means (exchange.py). Times are absolute on the loop's monotonic clock.
"""
