"""Benchmarks of subscribers that move."""
