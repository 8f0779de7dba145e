"""Estimates: the private mechanism from which a table, or what is asked of it, is estimated best (docs/comparing.md).

min tr(C J⁻¹), J = Σ θ v vᵀ, subject to Σ θ v = 1, for rows v of mean p·v = 1 and weights θ = P(y): its slope in θ_y,
−vᵀJ⁻¹CJ⁻¹v, is convex and homogeneous in an unscaled row, like the gain of mutual information: the same moves do.
"""
