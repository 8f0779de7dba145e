"""Least loss: distortion under privacy of a secret, and Hamming budgets under privacy of the input."""
