"""Reads records and verdicts; writes one page, pictures and CSV files."""
