"""Rendering a dataset: what is asked for, the plan of its images, the folder, and the run that fills it."""
