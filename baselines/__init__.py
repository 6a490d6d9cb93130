"""Encoders, losses and training of the papers' baselines. Run as ``python -m baselines``."""
