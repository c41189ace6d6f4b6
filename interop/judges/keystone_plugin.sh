# Runs Keystone's tests of its API: the permitted calls for each role and scope, and the extensions.
exec sh "$JUDGES/identity.sh" keystone_tempest_plugin.tests
