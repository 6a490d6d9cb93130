"""Blender, and the worker processes that it runs in."""
