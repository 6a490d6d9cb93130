"""Latents to images: renders 3DIdent with Blender. Run as ``python -m render``."""
