"""Uploads, downloads, copies, moves, locks and deletes files with the client webdavclient3 in an empty datastore, and checks the results.

Arguments: the URL of the datastore, the user, the user's secret, and a local directory for temporary files.

Prints nothing. If a check fails, the program ends with an error.
"""

import os
import sys

from webdav3.client import Client
from webdav3.exceptions import RemoteResourceNotFound, WebDavException

url, user, secret, scratch = sys.argv[1:]
host, root = url.split("/dav/", 1)
options = {"webdav_hostname": host, "webdav_root": f"/dav/{root}", "webdav_login": user, "webdav_password": secret}
client = Client(options)

up, down = os.path.join(scratch, "up.bin"), os.path.join(scratch, "down.bin")
content = bytes(n * 7 % 251 for n in range(300_000))
with open(up, "wb") as file:
    file.write(content)

assert client.check("/") and not client.check("/gone")
client.mkdir("/d")
client.upload_sync(remote_path="/d/file", local_path=up)
assert client.list("/d") == ["file"], client.list("/d")
assert int(client.info("/d/file")["size"]) == len(content)
client.download_sync(remote_path="/d/file", local_path=down)
with open(down, "rb") as file:
    assert file.read() == content
client.copy(remote_path_from="/d/file", remote_path_to="/d/copy")
client.move(remote_path_from="/d/copy", remote_path_to="/d/moved")
assert sorted(client.list("/d")) == ["file", "moved"]
client.set_property("/d/file", {"namespace": "urn:x", "name": "color", "value": "red"})
assert client.get_property("/d/file", {"namespace": "urn:x", "name": "color"}) == "red"
with client.lock("/d/file") as locked:
    locked.upload_sync(remote_path="/d/file", local_path=up)
client.clean("/d")
assert client.list("/") == []
try:
    client.download_sync(remote_path="/d/file", local_path=down)
    raise SystemExit("it should be gone")
except (RemoteResourceNotFound, WebDavException):
    pass
