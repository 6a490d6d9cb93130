"""The commands of ``python -m render``: a data class of options each, with the work in ``run``."""
