"""Training on images: from a recipe and a dataset to an encoder in a run folder."""
