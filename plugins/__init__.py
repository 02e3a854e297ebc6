"""Operator and form builder that the workflow files share; installed as `hudi_ops.plugins`."""
