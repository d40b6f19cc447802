"""Corpora that bulk jobs can read, one kind a file."""
