"""Training on pictures: from a recipe and a dataset to an encoder in a run folder."""
