"""Mechanisms: laws with labels and promises, their closed forms and their file."""

from sfumato.mechanism.bundle import Bundle, Promise
from sfumato.mechanism.cells import Cells, Conditional, Constant
from sfumato.mechanism.file import known, load, load_counts, load_mechanism, save, save_counts
from sfumato.mechanism.law import Atoms, Law, Rows, Spikes, Subsets
from sfumato.mechanism.mechanism import Claim, Mechanism, Tabular
from sfumato.mechanism.product import Factor, Product
from sfumato.mechanism.subset_laws import Blocks, Unary
from sfumato.mechanism.table import Layout, Table

__all__ = [
    "Atoms", "Blocks", "Bundle", "Cells", "Claim", "Conditional", "Constant", "Factor", "Law", "Layout",
    "Mechanism", "Product", "Promise", "Rows", "Spikes", "Subsets", "Table", "Tabular", "Unary", "known", "load",
    "load_counts", "load_mechanism", "save", "save_counts",
]
