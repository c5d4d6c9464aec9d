"""Routers under test: how each is started and told of its pools."""
