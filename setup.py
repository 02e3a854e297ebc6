"""Add the top-level folders `dags`, `plugins` and `spark_apps` to the package, where an installation finds them."""

from __future__ import annotations

from setuptools import find_packages, setup

FOLDERS = ("dags", "plugins", "spark_apps")

setup(
    packages=[*find_packages(include=["hudi_ops*"]), *(f"hudi_ops.{folder}" for folder in FOLDERS)],
    package_dir={f"hudi_ops.{folder}": folder for folder in FOLDERS},
)
