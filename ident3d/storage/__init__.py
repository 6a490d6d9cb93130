"""Datasets on disk: the native Parquet layout, the published layout, and the decoded cache."""
