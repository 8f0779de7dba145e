"""The funnel at one distribution: extreme posteriors, their best mixture, and products of mechanisms."""
