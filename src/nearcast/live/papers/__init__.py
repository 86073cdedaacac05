"""Live stores that are part of the papers' indexes, each of the name of its index."""
