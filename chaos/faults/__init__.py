"""Faults that are done to one frontend of a pool: each inject, clear, and a proof that it is really on."""
