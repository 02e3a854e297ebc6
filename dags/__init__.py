"""Workflow files of the services, for a scheduler; installed as `hudi_ops.dags`."""
