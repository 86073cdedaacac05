"""Immutable files of a stream, put in place in one step, and the manifests that name them."""
