"""A script with proxmoxer that uses a password. Arguments: port, certificate, user, password. Prints the ticket."""

import json
import sys

from proxmoxer import ProxmoxAPI
from proxmoxer.backends.https import AuthenticationError
from proxmoxer.core import ResourceException

PORT, CERTIFICATE, USER, PASSWORD = sys.argv[1:]


def api(user, password):
    return ProxmoxAPI("127.0.0.1", port=int(PORT), user=user, password=password, verify_ssl=CERTIFICATE, service="PBS", timeout=30)


for wrong in ((USER, "wrong"), ("nobody@local", PASSWORD)):
    try:
        api(*wrong)
    except AuthenticationError:
        continue
    raise AssertionError(wrong)
admin = api(USER, PASSWORD)
assert any(row["userid"] == USER for row in admin.access.users.get())
admin.access.users.post(userid="carol@local")
admin.access.users("carol@local").delete()
ticket, csrf = admin.get_tokens()
# A page of another site could make the browser send a change with the ticket, but without the CSRF token.
backend = admin._store["session"].auth
backend.csrf_prevention_token = csrf[:-1] + ("0" if csrf[-1] != "0" else "1")
try:
    admin.access.users.post(userid="mallory@local")
    raise AssertionError("a change without the right CSRF token")
except ResourceException as why:
    assert why.status_code == 401, why
assert len(admin.access.users.get()) == 1
# The client exchanges its ticket for a new ticket.
backend._get_new_tokens(password=ticket)
admin.access.users.post(userid="dave@local")
print(json.dumps({"ticket": ticket, "csrf": csrf}))
