"""Calls of the Proxmox API for the scripts in this directory. Arguments of each script: port, certificate, token id, secret, and further arguments."""

import sys

from proxmoxer import ProxmoxAPI
from proxmoxer.core import ResourceException

PORT, CERTIFICATE, TOKEN, SECRET, *REST = sys.argv[1:]


def api(token, secret):
    user, name = token.split("!")
    return ProxmoxAPI(
        "127.0.0.1", port=int(PORT), user=user, token_name=name, token_value=secret,
        verify_ssl=CERTIFICATE, service="PBS", timeout=30,
    )


def refused(status, call, *arguments, **parameters):
    try:
        call(*arguments, **parameters)
    except ResourceException as why:
        assert why.status_code == status, (why.status_code, str(why))
        return str(why)
    raise AssertionError("it was not refused")
