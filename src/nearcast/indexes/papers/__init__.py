"""Indexes of the papers, and their baselines: for comparison; each registers itself under its name."""
