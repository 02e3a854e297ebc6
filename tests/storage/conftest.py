"""Stores of the tests' own: buckets of S3 and containers of Azure, each kind on one server that lives as long as the session."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
import pytest

from hudi_ops.storage.object_store import ObjectStorage
from tests.storage.servers import AZURE_SETTINGS, S3_SETTINGS, azurite, create_container, moto
from tests.storage.tampering import Rules, door


@dataclass(frozen=True)
class Store:
    """A kind of object store: how to make storages in it, where its server is, and the variable that leads there."""

    make: Callable[[], ObjectStorage]
    endpoint: str
    variable: str


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server that lives as long as the session."""
    with moto(tmp_path_factory.mktemp("s3")) as url:
        yield url


@pytest.fixture(scope="session")
def azure_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an account that lives as long as the session."""
    with azurite(tmp_path_factory.mktemp("azure")) as url:
        yield url


@pytest.fixture
def s3_settings(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets the environment variables that lead to the server; gives its URL."""
    for name, value in {**S3_SETTINGS, "AWS_ENDPOINT_URL": s3_endpoint}.items():
        monkeypatch.setenv(name, value)
    return s3_endpoint


@pytest.fixture
def azure_settings(azure_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets the environment variables that lead to the account; gives its URL."""
    for name, value in {**AZURE_SETTINGS, "AZURE_STORAGE_ENDPOINT": azure_endpoint}.items():
        monkeypatch.setenv(name, value)
    return azure_endpoint


@pytest.fixture
def make_s3(s3_settings: str) -> Callable[[], ObjectStorage]:
    """Makes storages below a prefix of a new bucket each."""
    client = boto3.client("s3", endpoint_url=s3_settings)

    def make() -> ObjectStorage:
        name = f"contract-{uuid4().hex}"
        client.create_bucket(Bucket=name)
        return ObjectStorage(f"s3://{name}/tables/trips")

    return make


@pytest.fixture
def make_azure(azure_settings: str) -> Callable[[], ObjectStorage]:
    """Makes storages below a prefix of a new container each."""

    def make() -> ObjectStorage:
        name = f"contract-{uuid4().hex}"
        create_container(azure_settings, name)
        return ObjectStorage(f"az://{name}/tables/trips")

    return make


@pytest.fixture(params=["s3", "azure"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of object store."""
    endpoint = request.getfixturevalue(f"{request.param}_settings")
    variable = {"s3": "AWS_ENDPOINT_URL", "azure": "AZURE_STORAGE_ENDPOINT"}[request.param]
    return Store(request.getfixturevalue(f"make_{request.param}"), endpoint, variable)


@pytest.fixture
def behind_door(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Rules], ObjectStorage]]:
    """Makes a storage whose requests, and those of every storage after it, pass through a door with these rules."""
    with ExitStack() as stack:

        def make(rules: Rules) -> ObjectStorage:
            storage = store.make()
            url = stack.enter_context(door(store.endpoint, rules))
            monkeypatch.setenv(store.variable, url + urlsplit(store.endpoint).path)
            return storage

        yield make
