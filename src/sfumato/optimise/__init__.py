"""The search for mechanisms: one engine for rows under a promise, and the problems that truly differ.

`linear` and `conic` speak to the solvers, `budget` says how long a search may take.
"""
