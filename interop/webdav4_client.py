"""Uses the WebDAV client webdav4, and fsspec with webdav4, in an empty datastore, and checks the results.

Arguments: the URL of the datastore, the user, and the user's password or secret.

Prints the error of each failed check, and then the number of passed checks. If a check fails, the exit status is 1.
"""

import asyncio
import io
import sys
import traceback

import httpx
from webdav4.client import Client, ClientError, ResourceNotFound
from webdav4.fsspec import WebdavFileSystem

url, user, secret = sys.argv[1:]
auth = (user, secret)
client = Client(url, auth=auth)
fs = WebdavFileSystem(url, auth=auth)
content = bytes(n * 7 % 251 for n in range(300_000))
checks = []


def check(function):
    checks.append(function)
    return function


def raises(kind, call, *arguments):
    try:
        call(*arguments)
    except kind:
        return True
    return False


@check
def nothing_is_there():
    assert client.ls("/") == [] and not client.exists("gone")


@check
def a_file_is_uploaded():
    client.upload_fileobj(io.BytesIO(content), "file")
    assert client.exists("file") and client.isfile("file") and not client.isdir("file")


@check
def it_is_not_written_over_without_a_word():
    assert raises(ClientError, client.upload_fileobj, io.BytesIO(b"x"), "file")
    client.upload_fileobj(io.BytesIO(content), "file", overwrite=True)


@check
def it_comes_back():
    into = io.BytesIO()
    client.download_fileobj("file", into)
    assert into.getvalue() == content


@check
def it_says_what_it_is():
    assert client.content_length("file") == len(content)
    assert client.etag("file") and client.modified("file") and client.created("file")
    assert client.info("file")["type"] == "file"


@check
def a_directory_is_made():
    client.mkdir("dir")
    assert client.isdir("dir") and not client.isfile("dir")


@check
def it_is_not_made_twice():
    assert raises(ClientError, client.mkdir, "dir")


@check
def it_is_not_made_in_nothing():
    assert raises(ClientError, client.mkdir, "gone/dir")


@check
def a_file_is_copied():
    client.copy("file", "dir/copy")
    assert client.content_length("dir/copy") == len(content)


@check
def a_file_is_moved():
    client.move("dir/copy", "dir/moved")
    assert not client.exists("dir/copy") and client.exists("dir/moved")


@check
def a_directory_is_listed():
    assert client.ls("dir", detail=False) == ["dir/moved"]


@check
def a_directory_is_copied_and_removed():
    client.copy("dir", "dir2")
    client.remove("dir2")
    assert not client.exists("dir2")


@check
def nothing_is_not_removed():
    assert raises(ResourceNotFound, client.remove, "gone")


@check
def part_of_a_file_is_read():
    with client.open("file", mode="rb") as file:
        file.seek(1000)
        assert file.read(10) == content[1000:1010]


@check
def fsspec_says_what_is_there():
    assert fs.exists("file") and fs.isfile("file") and fs.isdir("dir") and not fs.exists("gone")


@check
def fsspec_lists():
    assert sorted(fs.ls("/", detail=False)) == ["dir", "file"]
    assert fs.info("file")["size"] == len(content)


@check
def fsspec_writes():
    with fs.open("written", "wb") as file:
        file.write(content)
    assert fs.cat("written") == content


@check
def fsspec_pipes():
    fs.pipe("dir/piped", b"abc")
    assert fs.cat_file("dir/piped", 1, 2) == b"b"


@check
def fsspec_makes_directories():
    fs.makedirs("a/b/c", exist_ok=True)
    fs.makedirs("a/b/c", exist_ok=True)
    assert fs.isdir("a/b/c") and raises(FileExistsError, fs.makedirs, "a/b/c")


@check
def fsspec_walks_and_finds():
    fs.pipe("a/b/c/deep", b"x")
    assert fs.find("a") == ["a/b/c/deep"]
    assert [place for place, _, _ in fs.walk("a")] == ["a", "a/b", "a/b/c"]


@check
def fsspec_copies_and_moves_trees():
    fs.copy("a", "copied", recursive=True)
    fs.mv("copied", "moved", recursive=True)
    assert fs.cat("moved/b/c/deep") == b"x" and not fs.exists("copied")


@check
def fsspec_removes_trees():
    fs.rm("moved", recursive=True)
    assert not fs.exists("moved") and raises(FileNotFoundError, fs.info, "moved")


@check
def whole_trees_are_listed_at_once():
    found = httpx.request("PROPFIND", f"{url}/a", auth=auth, headers={"Depth": "infinity"})
    assert found.status_code == 207 and found.text.count("<D:response>") == 4, found.text


@check
def asynchronous_clients_look_and_upload():
    async def run():
        async with httpx.AsyncClient(auth=auth) as asked:
            path = f"{url}/asynchronous"
            before = await asked.request("PROPFIND", path)
            put = await asked.put(path, content=content)
            after = await asked.request("PROPFIND", path)
            return before.status_code, put.status_code, after.status_code

    assert asyncio.run(run()) == (404, 201, 207)


held = 0
for one in checks:
    try:
        one()
        held += 1
    except Exception:
        print(f"{one.__name__}: {traceback.format_exc()}")
print(f"{held} of {len(checks)}")
sys.exit(held != len(checks))
