"""A dataset while it is rendered: its plan, its folder, and the run that fills it."""
