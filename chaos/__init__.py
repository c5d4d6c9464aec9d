"""The real run: fake pools, Toxiproxy, clients and the router under test, as processes on loopback only."""
