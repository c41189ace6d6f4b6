"""Creates, changes and deletes datastores with the client proxmoxer, and checks the answers.

Arguments: the port, the path of the server's certificate, the id and the secret of an API token of the administrator, and a directory for the new
datastores. If another member of a fleet serves the datastore `main`, the last argument is `elsewhere`.

Prints nothing. If a check fails, the program ends with an error.
"""

import os

from proxmox_api import REST, SECRET, TOKEN, api, refused

PLACE, *ELSEWHERE = REST

admin = api(TOKEN, SECRET)
config = admin.config.datastore

# Creates, reads and changes a datastore, with the properties of Proxmox Backup Server.
path = os.path.join(PLACE, "tank")
config.post(name="tank", path=path, comment="two words", **{"gc-schedule": "daily", "keep-last": 3})
assert os.path.isdir(path)
shown = config("tank").get()
assert (shown["path"], shown["comment"], shown["gc-schedule"]) == (path, "two words", "daily"), shown
assert {store["name"] for store in config.get()} == {"main", "tank"}
assert "already" in refused(400, config.post, name="tank", path=path)
assert "overlaps" in refused(400, config.post, name="other", path=os.path.join(path, "below"))
assert "absolute" in refused(400, config.post, name="other", path="relative")
assert "unknown property" in refused(400, config.post, name="other", path=path + "2", colour="red")
assert "datastore name" in refused(400, config.post, name="x", path=path + "2")
config("tank").put(comment="other words", **{"prune-schedule": "daily"})
config("tank").put(delete="gc-schedule")
shown = config("tank").get()
assert shown["comment"] == "other words" and "gc-schedule" not in shown and shown["keep-last"] == "3", shown
assert "cannot be changed" in refused(400, config("tank").put, path="/elsewhere")
assert "detected modified" in refused(400, config("tank").put, comment="late", digest="0" * 64)

# Reads the status of the datastore.
status = admin.admin.datastore("tank").status.get()
assert status["total"] >= status["used"] + status["avail"] > 0, status
assert admin.admin.datastore("tank")("active-operations").get() == {"read": 0, "write": 0}
listed = {store["store"]: store for store in admin.admin.datastore.get()}
assert listed["tank"]["mount-status"] == "nonremovable" and listed["tank"]["maintenance"] is None, listed

# Sets and ends maintenance modes.
config("tank").put(**{"maintenance-mode": "type=offline,message=new disks"})
listed = {store["store"]: store for store in admin.admin.datastore.get()}
assert "offline" in listed["tank"]["maintenance"], listed
assert admin.admin.datastore("tank").status.get()["total"] > 0, "a lookup is no reading"
assert "not known" in refused(400, config("tank").put, **{"maintenance-mode": "type=raed-only"})
config("tank").put(delete="maintenance-mode")
config("tank").put(**{"maintenance-mode": "type=delete"})
refused(503, admin.admin.datastore("tank").status.get)
assert "cannot be ended" in refused(400, config("tank").put, delete="maintenance-mode")
assert "cannot be ended" in refused(400, config("tank").put, **{"maintenance-mode": "type=offline"})
# The error of a datastore does not affect the other datastores in the list.
usage = {store["store"]: store for store in admin.status("datastore-usage").get()}
assert "error" in usage["tank"], usage
if ELSEWHERE:
    assert "served by member `a`" in usage["main"]["error"], usage
else:
    assert usage["main"]["total"] > 0, usage

# A caller without the privilege does not learn which datastores exist.
admin.access.users.post(userid="eve@local")
made = admin.access.users("eve@local").token("work").post()
eve = api("eve@local!work", made["value"])
assert eve.config.datastore.get() == [] and eve.admin.datastore.get() == []
assert eve.status("datastore-usage").get() == []
there = refused(403, eve.admin.datastore("main").status.get)
assert there.replace("main", "") == refused(403, eve.admin.datastore("none").status.get).replace("none", "")
refused(403, eve.config.datastore.post, name="mine", path=path + "3")
refused(403, eve.config.datastore("main").put, comment="mine")
refused(403, eve.config.datastore("main").delete)
# An API token has a role only if the role is assigned to the token and to its owner.
for authid in ("eve@local", "eve@local!work"):
    admin.access.acl.put(path="/datastore/main", role="DatastoreAudit", **{"auth-id": authid})
assert [store["store"] for store in eve.admin.datastore.get()] == ["main"]
assert eve.admin.datastore("main").status.get()["total"] > 0
refused(403, eve.config.datastore("main").put, comment="mine")

assert "does not delete content" in refused(400, config("tank").delete, **{"destroy-data": 1})
config("tank").delete()
assert {store["name"] for store in config.get()} == {"main"}
assert os.path.isdir(path), "what is in it stays"
