"""Blender: the worker processes that it runs in, and the pool that feeds them."""
