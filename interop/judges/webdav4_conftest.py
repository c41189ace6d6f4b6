"""Replaces the fixtures of webdav4's tests. With these fixtures, each test uses a new directory in the datastore of a running server.

The environment variables `URL` and `STORE` contain the URL and the path of the datastore. `LOGIN` and `PASSWORD` contain the user and the password.
"""

import os
import uuid
from pathlib import Path

import pytest
from webdav4 import retry
from webdav4.client import Client
from webdav4.fsspec import WebdavFileSystem
from webdav4.urls import URL

from .utils import TmpDir

retry.BACKOFF = 0.001


@pytest.fixture
def auth():
    return os.environ["LOGIN"], os.environ["PASSWORD"]


@pytest.fixture
def storage_dir():
    root = Path(os.environ["STORE"]) / uuid.uuid4().hex
    root.mkdir()
    return TmpDir(root)


@pytest.fixture
def server():
    return None


@pytest.fixture
def server_address(storage_dir):
    return URL(os.environ["URL"] + "/" + storage_dir.name)


@pytest.fixture
def client(auth, server_address):
    return Client(server_address, auth=auth)


@pytest.fixture
def fs(client, server_address):
    return WebdavFileSystem(server_address, client=client)
