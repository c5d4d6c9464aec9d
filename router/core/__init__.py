"""Pure decisions of the router: no I/O, no clock and no randomness of their own.

The aiohttp router and the simpy model drive the same objects, so the two can differ only in their surroundings.
"""
