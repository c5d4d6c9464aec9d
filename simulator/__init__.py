"""The modelled run of a scenario: simpy drives the same decisions as the router; see README.md for what it knows."""
