"""Entries, their ranking and the page that shows them. Run as ``python -m leaderboard``."""
