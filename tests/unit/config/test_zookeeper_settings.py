"""Settings for ZooKeeper: from the file and the environment, complete or refused, and never shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hudi_ops.config.tables_file import load_tables
from hudi_ops.config.zookeeper_settings import zookeeper_settings
from hudi_ops.errors import InvalidRequest, Unavailable
from hudi_ops.redaction import redacted, remember_secret

DECLARED = {"auth": "digest", "user": "hudi", "password": "from-the-file", "tls": True, "tls_ca": "certs/ca.pem"}


def test_the_environment_wins_and_files_are_relative_to_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_OPS_ZOOKEEPER_PASSWORD", "from-outside")
    monkeypatch.setenv("HUDI_OPS_ZOOKEEPER_TLS_CHECK_HOSTNAME", "false")
    settings = zookeeper_settings(DECLARED, Path("/etc/tables"))
    assert settings.password is not None
    assert settings.password.get_secret_value() == "from-outside"
    assert (settings.tls_ca, settings.tls_check_hostname) == ("/etc/tables/certs/ca.pem", False)
    assert "from-" not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"auth": "digest", "user": "hudi"}, "digest needs user and password"),
        ({"auth": "sasl", "password": "hidden-word"}, "sasl needs user and password"),
        ({"auth": "plain"}, "auth"),
        ({"pasword": "hidden-word"}, "pasword"),  # codespell:ignore pasword
        ({"password": ["hidden-word"]}, "password"),
        ({"tls_ca": "ca.pem"}, "tls is not true"),
        ({"auth": "digest", "user": "a:b", "password": "hidden-word"}, "colon"),
        ({"tls": "hidden-word"}, "tls"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_without_its_value(declared: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as refused:
        zookeeper_settings(declared, Path())
    assert "hidden-word" not in f"{refused.value} {refused.value.as_dict()} {refused.value!r}"
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zookeeper://user:pw@host:2181/locks", "zookeeper://***@host:2181/locks"),
        ("s3://KEY:SEC/RET@bucket/t", "s3://***@bucket/t"),
        ("s3://KEY:1234/SECRET@b/x", "s3://***@b/x"),
        ("s3a://KEY:12,34/S@CRET@b/x", "s3a://***@b/x"),
        ("zookeeper://me:pa/ss@host:2181/locks", "zookeeper://***@host:2181/locks"),
        ("zookeeper://me:12,34@host:2181/me@home", "zookeeper://***@host:2181/me@home"),
        ("https://user:8080@host/x", "https://***@host/x"),
        ("hdfs://nn:8020/data@2024", "hdfs://nn:8020/data@2024"),
        ("http://[::1]:9000/bucket/x@y", "http://[::1]:9000/bucket/x@y"),
        ("AWS_ENDPOINT_URL=http://user:p@w@host:9000/x", "AWS_ENDPOINT_URL=http://***@host:9000/x"),
        ("('http://user:pw@h', 's3://a:b@c')", "('http://***@h', 's3://***@c')"),
        ("abfss://container@account.dfs.core.windows.net/t", "abfss://container@account.dfs.core.windows.net/t"),
        ("zookeeper://a:2181,b:2181/locks/me@home", "zookeeper://a:2181,b:2181/locks/me@home"),
        ("http://127.0.0.1:9000/bucket/x@y", "http://127.0.0.1:9000/bucket/x@y"),
        ("file:///data/a:b@c", "file:///data/a:b@c"),
        ("no address: a:b@c", "no address: a:b@c"),
    ],
)
def test_passwords_in_uris_are_masked_and_nothing_else(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_a_short_secret_is_masked_as_a_whole_word_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_ops.redaction._known", set())
    remember_secret("hudi")
    remember_secret("word-of-eight")
    remember_secret("the")
    said = redacted("hudi-ops, hudi_ops and the Ahudis: (user:hudi), 'hudi'. xword-of-eighty")
    assert said == "hudi-ops, hudi_ops and the Ahudis: (user:***), '***'. x***y"


def test_errors_mask_what_they_are_given_in_every_field() -> None:
    remember_secret('known "secret"')
    for text in ("s3://KEY:SECRET@bucket", 'of known "secret" here'):
        error = Unavailable(text, expected=text, found=text, next_step=text, table=text, deep=[{"key": (text,)}])
        again = pickle.loads(pickle.dumps(error))
        said = f"{error} {error!r} {error.as_dict()} {error.args} {again} {again.as_dict()}"
        assert "SECRET" not in said
        assert "secret" not in said


def test_a_table_with_credentials_in_its_uri_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tables.yaml"
    for line in ("path: 's3://KEY:SECRET@bucket/t'", "path: t, source: 's3://KEY:SECRET@bucket/in'"):
        file.write_text(f"tables:\n  t: {{{line}, record_key: [id]}}\n")
        with pytest.raises(InvalidRequest, match="must hold no user and password") as refused:
            load_tables(file)
        assert "SECRET" not in str(refused.value)
