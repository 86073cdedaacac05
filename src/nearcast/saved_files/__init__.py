"""Saved folders: lists of contents with checksums, arrays checked against bounds, saves replaced in one step."""
