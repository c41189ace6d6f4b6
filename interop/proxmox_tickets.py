"""Logs in with a password through the client proxmoxer, and changes users with the login ticket.

Arguments: the port, the path of the server's certificate, the userid of the administrator, and the password.

Prints the first login ticket and its CSRF token as JSON.
"""

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
# The server refuses a change without the right CSRF token. A page of another site can make a browser send the ticket, but not the CSRF token.
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
