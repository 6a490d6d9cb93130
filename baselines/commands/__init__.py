"""The commands of ``python -m baselines``, one a module."""
