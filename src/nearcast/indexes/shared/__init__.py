"""What several indexes stand on: predicates, scores, subscription tables, undo logs, R-trees, lists."""
