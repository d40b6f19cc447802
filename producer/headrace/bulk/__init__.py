"""Bulk jobs: a corpus is read, embedded by the fleet and kept in a sink, whatever ends a part of that meanwhile."""
