"""Stores of live messages of the papers, and of their baselines: each is part of the index whose name it has."""
