"""Small contingency tables as facts, and rows that have exactly their counts."""

from sfumato.datasets.census import adult, adult_pairs
from sfumato.datasets.synthesis import rows, sample

__all__ = ["adult", "adult_pairs", "rows", "sample"]
