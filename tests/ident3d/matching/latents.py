"""Latents for the tests of the pair index, and a slow search to compare with."""

import numpy as np


def rows(n, width=10, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, width)).astype(np.float32)


def slow_match(latents, queries, exclude=None, scale=1.0):
    """Every distance in float64; of equal ones the lowest id."""
    held = (latents / np.asarray(scale)).astype(np.float32).astype(np.float64)
    asked = (queries / np.asarray(scale)).astype(np.float32).astype(np.float64)
    ids, distances = [], []
    for q, query in enumerate(asked):
        squared = np.zeros(len(held))
        for column in range(held.shape[1]):
            squared += (held[:, column] - query[column]) ** 2
        if exclude is not None:
            squared[exclude[q]] = np.inf
        ids.append(int(squared.argmin()))
        distances.append(np.sqrt(squared.min()))
    return np.array(ids), np.array(distances, dtype=np.float32)


def anchors_and_targets(latents, n=200, sigma=0.1, seed=1):
    rng = np.random.default_rng(seed)
    anchors = rng.integers(0, len(latents), n)
    return anchors, (latents[anchors] + rng.normal(0, sigma, (n, latents.shape[1]))).astype(np.float32)
