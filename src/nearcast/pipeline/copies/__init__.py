"""Copies of top-k subscriptions in other partitions than their home: they only detect candidates."""
