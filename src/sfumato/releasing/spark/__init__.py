"""Releases on a Spark cluster: rows stay there, and noise repeats with every task that is run again."""
