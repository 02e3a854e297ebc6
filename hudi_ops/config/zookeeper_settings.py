"""Read credentials and TLS settings for ZooKeeper from `tables.yaml` and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from hudi_ops.config.requests import PathText
from hudi_ops.errors import InvalidRequest
from hudi_ops.redaction import remember_secret

PREFIX = "HUDI_OPS_ZOOKEEPER_"
"""Each setting has a variable of this prefix and its name in capitals, for example `HUDI_OPS_ZOOKEEPER_PASSWORD`."""

_FILES = ("tls_ca", "tls_certificate", "tls_key")
_SWITCHES = {"true": True, "false": False, "1": True, "0": False}


class ZooKeeperSettings(BaseModel):
    """Credentials and TLS for ZooKeeper. Secrets are never printed; only the server gets them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    auth: Literal["none", "digest", "sasl"] = Field(default="none", description="How to authenticate.")
    user: str | None = Field(default=None, min_length=1, description="For digest, and SASL by DIGEST-MD5.")
    password: SecretStr | None = Field(default=None, min_length=1, description="Better in the environment.")
    mechanism: Literal["DIGEST-MD5", "GSSAPI"] = Field(default="DIGEST-MD5", description="Of SASL.")
    principal: str | None = Field(default=None, min_length=1, description="For GSSAPI: whose tickets are used.")
    service: str = Field(default="zookeeper", min_length=1, description="For SASL: the server's service name.")
    tls: bool = Field(default=False, description="Connect by TLS; the port must be the server's secure one.")
    tls_ca: PathText | None = Field(default=None, min_length=1, description="PEM file of those who sign servers.")
    tls_certificate: PathText | None = Field(default=None, min_length=1, description="PEM file of our own certificate.")
    tls_key: PathText | None = Field(default=None, min_length=1, description="PEM file of its key.")
    tls_key_password: SecretStr | None = Field(default=None, min_length=1, description="Better in the environment.")
    tls_check_hostname: bool = Field(default=True, description="Whether the server's certificate must name its host.")
    shares_credentials: bool = Field(
        default=False, description="Apache Hudi's writers of these tables use the same credentials."
    )

    @model_validator(mode="after")
    def _is_complete(self) -> ZooKeeperSettings:
        needs_user = self.auth == "digest" or (self.auth == "sasl" and self.mechanism == "DIGEST-MD5")
        if needs_user and (self.user is None or self.password is None):
            raise ValueError(f"{self.auth} needs user and password")
        if self.user is not None and ":" in self.user:
            raise ValueError("a user must not hold a colon")
        if not self.tls and any(getattr(self, name) for name in (*_FILES, "tls_key_password")):
            raise ValueError("files for TLS are given, and tls is not true")
        return self

    def model_post_init(self, context: Any, /) -> None:
        """Register the secrets, which are masked from now on."""
        for secret in (self.password, self.tls_key_password):
            if secret is not None:
                remember_secret(secret.get_secret_value())

    @property
    def has_credentials(self) -> bool:
        """Whether this client logs in to the server."""
        return self.auth != "none"


def zookeeper_settings(declared: Mapping[str, Any] | None, folder: Path) -> ZooKeeperSettings:
    """Return the settings in force: those of the environment, then those of `tables.yaml`.

    Args:
        declared: the mapping `zookeeper` of `tables.yaml`; None where it has none.
        folder: what files in it are relative to.

    Raises:
        InvalidRequest: an unknown setting, or one that is not allowed; names it, and no value.
    """
    values = dict(declared or {})
    for name in _FILES:
        if isinstance(values.get(name), str):
            values[name] = os.path.normpath(folder / values[name])
    for name in ZooKeeperSettings.model_fields:
        text = os.environ.get(PREFIX + name.upper())
        if text:
            is_switch = ZooKeeperSettings.model_fields[name].annotation is bool
            values[name] = _SWITCHES.get(text.lower(), text) if is_switch else text
    for name in ("password", "tls_key_password"):
        if isinstance(values.get(name), str):
            remember_secret(values[name])
    try:
        return ZooKeeperSettings.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'zookeeper'}: {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors(include_input=False)
        )
        # Not `from error`: its text may hold the given values, such as a password.
        raise InvalidRequest(
            f"the settings for ZooKeeper are not valid: {problems}",
            next_step=f"correct `zookeeper` in tables.yaml, or the environment variables {PREFIX}*",
        ) from None
