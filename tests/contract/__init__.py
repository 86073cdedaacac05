"""The contract suite: what every registered index must do."""
