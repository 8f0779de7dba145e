"""Rows as products over secrets: with a profile of the shared budget the secrets decouple (docs/robust.md, 3 to 6).

One small linear programme for each secret, tied by the common length T alone, whatever the number of secrets: starts
for every table, and whole designs where rows cannot be listed.
"""
