"""Benchmarks of the stream: against the local engine, of plans, and over long times."""
