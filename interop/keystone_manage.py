"""Runs the commands in `keystone_manage.cases` with OpenStack's command-line client, and checks their output. The client runs in this process.

Arguments: the URL of the Identity API (…/v3), the path of the server's certificate, and the administrator's password.

Prints `{"held": true}` if every command has the expected output. Otherwise the program ends with an error that lists the failed commands.
"""

import base64
import contextlib
import hashlib
import hmac
import io
import json
import logging
import os
import pathlib
import re
import shlex
import struct
import sys
import tempfile
import time
import warnings

warnings.simplefilter("ignore")
from openstackclient import shell
from osc_lib import clientmanager

directory = tempfile.TemporaryDirectory()
URL, CERTIFICATE, PASSWORD = sys.argv[1:4]
SERVER = ["--os-auth-url", URL, "--os-cacert", CERTIFICATE]
SEED = b"12345678901234567890"
values, clients, errors = {"password": PASSWORD, "seed": base64.b32encode(SEED).decode()}, {}, io.StringIO()
logins = {"admin": ["--os-username", "admin", "--os-password", PASSWORD, "--os-user-domain-name", "Default",
                    "--os-project-name", "admin", "--os-project-domain-name", "Default"]}


def passcode():
    """Returns the current passcode (RFC 6238). The server also accepts the previous passcode, so the passcode is valid long enough for a command."""
    tag = hmac.digest(SEED, struct.pack(">Q", int(time.time()) // 30), hashlib.sha1)
    number, = struct.unpack_from(">I", tag, tag[-1] & 15)
    return f"{(number & 0x7fffffff) % 1000000:06}"


def substituted(found):
    """Returns the text for a placeholder: `{x*N}`, `{passcode}`, `{name}` or `{name.part}`. `name` is a value that an earlier line stored."""
    of, part = found["of"], found["part"]
    if found["times"]:
        return found["text"] * int(found["times"])
    if of == "passcode":
        return passcode()
    if part == "trimmed":
        return values[of].strip()
    return values[of][part] if part else values[of]


def filled(text):
    return re.sub(r"\{(?:(?P<text>[^{}])\*(?P<times>\d+)|(?P<of>[a-z]\w*)(?:\.(?P<part>[\w ]+))?)\}", substituted, text)


def words(text):
    """Splits a line into words, and then replaces the placeholders in each word. In this order, values with spaces need no quotes."""
    return [filled(word) for word in shlex.split(text)]


def openstack(login, command):
    """Runs a command, and returns its status and output. The first command of a login starts a client, and later commands use its session."""
    for cache in vars(clientmanager.ClientManager).values():
        if isinstance(cache, clientmanager.ClientCache):
            cache._handle = None  # Without this line, the command would use the session of the previous login.
    out = io.StringIO()
    errors.seek(0), errors.truncate()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            if login in clients:
                clients[login].stdout = out
                status = clients[login].run_subcommand(command)
            else:
                logging.getLogger().handlers.clear()  # Each client adds a handler for log messages.
                client = shell.OpenStackShell()
                status = client.run(SERVER + logins[login] + command)
                if status == 0:
                    clients[login] = client
        except SystemExit as error:
            status = error.code
    return status, out.getvalue()


def agrees(record, pairs):
    """Returns whether a record has the values of the pairs `KEY=VALUE`. VALUE is JSON or a text. A text also matches a list with only this text."""
    def is_so(shown, value):
        try:
            return shown in (value, [value]) or shown == json.loads(value)
        except ValueError:
            return False

    pairs = [pair.split("=", 1) for pair in pairs]
    return all(is_so(record[key], value) for key, value in pairs)


def is_so(expected, as_text, shown):
    what, *rest = words(expected)
    if what in ("fails", "says", "omits"):
        text = errors.getvalue() + ("" if what == "fails" else as_text)
        return all((one in text) == (what != "omits") for one in rest)
    if what in ("row", "no", "only"):
        has_row = any(agrees(row, rest) for row in shown)
        return has_row == (what != "no") and (what != "only" or len(shown) == 1)
    return agrees(shown, [what, *rest])


def run(line):
    if line.startswith("file "):
        name, text = line.removeprefix("file ").split(" = ", 1)
        values[name] = os.path.join(directory.name, name)
        pathlib.Path(values[name]).write_text(filled(text), encoding="utf-8")
        return
    command, *expected = [part.strip() for part in line.split(" | ")]
    kept, login, sign, command = re.fullmatch(r"(?:(\w+) := )?(?:@(\w+) )?(?:(=) )?(.*)", command).groups()
    login = login or "admin"
    if sign:
        logins[login] = words(command)
        clients.pop(login, None)
        return
    fails = any(one.startswith("fails") for one in expected)
    is_json = kept or not fails and any(not one.startswith(("says", "omits")) for one in expected)
    status, shown = openstack(login, words(command) + ["-f", "json"] * bool(is_json))
    told = f"{words(command)}: {status}\n{shown}\n{errors.getvalue()}"
    assert (status != 0) == fails, told
    record = json.loads(shown) if is_json else None
    for one in expected:
        assert is_so(one, shown, record), f"{one}\n{told}"
    if kept:
        values[kept] = record[0] if isinstance(record, list) else record


names, sections = [], []
for line in pathlib.Path(__file__).with_suffix(".cases").read_text(encoding="utf-8").splitlines():
    if line.startswith("name: "):
        names.append(filled(line.removeprefix("name: ")))
    elif line.startswith("== "):
        sections.append((line, []))
    elif line and not line.startswith("#"):
        sections[-1][1].append(line)
failures = []
for title, lines in sections:
    try:
        for name in names if title.endswith("each name") else names[:1]:
            values |= {"name": name, "short": name[:64], "id": name[:64].replace("/", "")}
            for line in lines:
                run(line)
    except Exception as error:
        failures.append(f"{title}: {name}\n{line}\n{type(error).__name__}: {error}")
assert not failures, "\n\n".join(failures)
print(json.dumps({"held": True}))
