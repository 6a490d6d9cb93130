"""Positive pairs: the index that matches targets to stored latents, and the streams of batches of pairs."""
