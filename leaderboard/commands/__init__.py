"""The commands of ``python -m leaderboard``: a data class of options each, with the work in ``run``."""
