"""Encoders, losses and training for the papers' baselines. Run as ``python -m baselines``."""
