# Keystone's tests of its API: which role on which scope may make which call, and the extensions.
exec sh "$JUDGES/identity.sh" keystone_tempest_plugin.tests
