"""Runs Keystone with a SQLite database, for the tests of `identity.py`.

Argument: an empty directory for the configuration, keys, database and log. The environment variable `ADMINISTRATOR` contains the administrator's
password.

Prints the URL of the Identity API, and then serves requests until the standard input ends.
"""

import os
import subprocess
import sys
import threading
import warnings
from wsgiref.simple_server import WSGIRequestHandler, make_server

warnings.simplefilter("ignore")
place = sys.argv[1]
config = os.path.join(place, "keystone.conf")
os.environ["OS_KEYSTONE_CONFIG_FILES"] = config


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def manage(*words):
    program = "from keystone.cmd.manage import main; main()"
    subprocess.run([sys.executable, "-c", program, "--config-file", config, *words], check=True, stdout=sys.stderr)


# The tests need the rules in `security_compliance`. The cache and the fast password hashes make the run shorter.
with open(config, "w") as file:
    file.write(f"""[DEFAULT]
log_file = {place}/keystone.log
[database]
connection = sqlite:///{place}/keystone.db
[fernet_tokens]
key_repository = {place}/fernet
[credential]
key_repository = {place}/credentials
[cache]
enabled = true
backend = dogpile.cache.memory
[identity]
password_hash_rounds = 4
[security_compliance]
lockout_failure_attempts = 3
lockout_duration = 5
unique_last_password_count = 2
""")
for directory in ("fernet", "credentials"):
    os.mkdir(os.path.join(place, directory), 0o700)
manage("db_sync")
for keys in ("fernet_setup", "credential_setup"):
    manage(keys, "--keystone-user", "root", "--keystone-group", "root")
server = make_server("127.0.0.1", 0, None, handler_class=Quiet)
url = f"http://127.0.0.1:{server.server_port}/v3"
password = os.environ["ADMINISTRATOR"]
manage("bootstrap", "--bootstrap-password", password, "--bootstrap-public-url", url, "--bootstrap-region-id", "RegionOne")

import sqlalchemy.pool
from oslo_db.sqlalchemy import engines
from sqlalchemy import event
from sqlalchemy.engine import Engine

# These changes make Keystone faster: connections stay open, threads do not yield, and SQLite does not sync. They are permitted here, because only one
# thread uses the database, and because nobody needs the database after a crash.
sqlalchemy.pool.NullPool = sqlalchemy.pool.QueuePool
engines._thread_yield = lambda *_: None


@event.listens_for(Engine, "connect")
def without_sync(connection, _):
    connection.execute("PRAGMA synchronous=OFF")


sys.argv = sys.argv[:1]
from keystone.server.wsgi import initialize_public_application

server.set_app(initialize_public_application())
threading.Thread(target=server.serve_forever, daemon=True).start()
print(url, flush=True)
sys.stdin.read()
