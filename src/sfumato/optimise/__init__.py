"""The search for mechanisms: one engine for rows under a promise, and the problems that truly differ.

`linear` (with the best mixture of listed points) and `conic` speak to the solvers, `arrays` makes an answer private,
`budget` says how long a search may take. What truly differs: `loss`, `funnel`, `saddle`.
"""
