"""What a machine has and lacks, and what can be done with ident3d because of it: :func:`diagnosis.diagnose`.

:mod:`libraries` loads what ident3d depends on, in processes of their own; :mod:`machine` looks at cores, memory, files
and disks; :mod:`diagnosis` concludes what works here, and what to install for the rest. All of it is written with the
standard library alone, because it has to say what is wrong with everything else.
"""
