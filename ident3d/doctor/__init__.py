"""What a machine has and lacks: libraries, devices, limits, and what can be done with ident3d because of it.

Everything here is written with the standard library alone, because it has to say what is wrong with the rest.
"""
