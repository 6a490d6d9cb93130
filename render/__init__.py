"""Latents to pictures: renders 3DIdent with Blender. Run as ``python -m render``."""
