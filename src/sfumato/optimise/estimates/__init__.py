"""Estimates: the private mechanism from which a table, or what is asked of it, is estimated best (docs/comparing.md).

With rows v of mean p·v = 1 and weights θ = P(y), the efficient unbiased estimate of p from n rows has covariance
(J⁻¹ − ppᵀ)/n, J = Σ θ v vᵀ. So min tr(C J⁻¹) subject to Σ θ v = 1 is convex in θ, and its slope in θ_y, −vᵀJ⁻¹CJ⁻¹v, is
convex and homogeneous in an unscaled row, like the gain of mutual information: the same moves make new rows.
"""
