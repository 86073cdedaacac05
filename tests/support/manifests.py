"""Manifests for tests of what is around them."""

from nearcast.pipeline.store.manifest import Manifest
from nearcast.pipeline.store.manifest_entries import PlanEntry, VocabularyEntry


def small_manifest(batch, **fields):
    """Return the manifest of a batch that names no file but those in `fields`."""
    needed = {
        "plan": PlanEntry("trigger", 1, "", (), ""),
        "vocabulary": VocabularyEntry("", ""),
        "directory": "",
        "directory_batch": -1,
        "partitions": (),
    }
    return Manifest(batch, **(needed | fields))
