"""The checks, one a module: the facts of a service, and their judgement."""
