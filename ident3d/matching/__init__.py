"""Matching: which stored latents are nearest to a target."""
