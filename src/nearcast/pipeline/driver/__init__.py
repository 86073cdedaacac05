"""What the driver runs: one batch after the other, from its sources to its manifest."""
