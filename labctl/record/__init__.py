"""The record of one run: append-only evidence on disk, written by one process at a time."""
