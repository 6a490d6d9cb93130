"""The commands of ``ident3d``: a data class of options each, with the work in ``run``."""
