"""What several mechanisms compute: marginals to measure, model sizes, merged codes, public priors,
rows."""
