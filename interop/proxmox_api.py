"""Functions with which the scripts in this directory call the Proxmox API.

This module reads the arguments of the script that imports it: the port, the path of the server's certificate, the id and the secret of an API token,
and further arguments of the script. The module prints nothing.
"""

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
