"""Small contingency tables as facts, and rows that have exactly their counts."""

from sfumato.datasets.counts import adult, adult_pairs, rows, sample

__all__ = ["adult", "adult_pairs", "rows", "sample"]
