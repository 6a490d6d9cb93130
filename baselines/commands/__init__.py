"""The commands of ``python -m baselines``: a data class of options each, with the work in ``run``."""
