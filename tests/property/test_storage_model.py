"""Goal: memory and local storage are the same dict. Method: random calls against both and a dict, by Hypothesis."""

import tempfile
from pathlib import Path

from hypothesis import given, settings, strategies as st

from hudi_ops.errors import AlreadyExists, InvalidRequest, NotFound
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.paths import check_path
from hudi_ops.storage.protocol import Storage
from tests.bounds import examples

# Folders and files differ by their names, since a disk cannot have both under one name.
FOLDERS = st.lists(st.sampled_from(["d", "d-", "d=1", "d%2F", ".hoodie", "ü d"]), max_size=3)
PATHS = st.builds(lambda folders, name: "/".join([*folders, name]), FOLDERS, st.sampled_from(["f", "f.", "é", "0"]))
CALLS = st.tuples(st.sampled_from(["put", "put_if_absent", "delete"]), PATHS, st.binary(max_size=20))


def apply(storage: Storage, call: str, path: str, body: bytes) -> str:
    try:
        storage.delete(path) if call == "delete" else getattr(storage, call)(path, body)
    except AlreadyExists:
        return "exists"
    return "done"


def expected(model: dict[str, bytes], call: str, path: str, body: bytes) -> str:
    if call == "delete":
        model.pop(path, None)
    elif call == "put_if_absent" and path in model:
        return "exists"
    else:
        model[path] = body
    return "done"


def assert_shows(storage: Storage, model: dict[str, bytes], folders: list[str]) -> None:
    assert [(info.path, info.size_bytes) for info in storage.list()] == [(p, len(model[p])) for p in sorted(model)]
    assert all(storage.get(path) == body for path, body in model.items())
    for folder in folders:
        lead = f"{folder}/" if folder else ""
        below = [path.removeprefix(lead) for path in sorted(model) if path.startswith(lead)]
        assert [info.path.removeprefix(lead) for info in storage.list(folder)] == below
        shown = storage.list_folder(folder)
        assert [info.name for info in shown.files] == [path for path in below if "/" not in path]
        known = frozenset({*[path for path in below if "/" not in path][::2], "absent"})
        news = storage.list_new(folder, known)
        assert [*news.files] == [info for info in shown.files if info.name not in known]
        assert news.gone == known - {info.name for info in shown.files}
        assert list(shown.folders) == sorted({path.partition("/")[0] for path in below if "/" in path})


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(CALLS, max_size=25), st.lists(FOLDERS.map("/".join), max_size=4))
def test_every_backend_is_a_dict(calls: list[tuple[str, str, bytes]], folders: list[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        model: dict[str, bytes] = {}
        storages: list[Storage] = [MemoryStorage(), LocalStorage(root)]
        for call in calls:
            outcome = expected(model, *call)
            assert [apply(storage, *call) for storage in storages] == [outcome] * 2
        for storage in storages:
            assert_shows(storage, model, ["", *folders])


@settings(max_examples=examples(300), deadline=None)
@given(st.text(st.sampled_from("/.a\0é ="), max_size=8))
def test_no_path_leaves_the_root(path: str) -> None:
    root = Path("/root-of-storage")
    try:
        check_path(path)
    except InvalidRequest:
        return
    assert str(root / path) == f"{root}/{path}"
    assert (root / path).is_relative_to(root)
    assert ".." not in path.split("/")


@settings(max_examples=examples(100), deadline=None)
@given(PATHS)
def test_nothing_is_found_in_an_empty_storage(path: str) -> None:
    storage = MemoryStorage()
    assert storage.head(path) is None
    try:
        storage.get(path)
    except NotFound:
        return
    raise AssertionError("found something")
