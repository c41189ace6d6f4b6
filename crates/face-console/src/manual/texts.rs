//! The texts of the manual: the documentation of this version. The texts are compiled into the program, so the manual needs no files and no network.

/// A page of the documentation.
pub(super) struct Text {
    /// The path in the source of this version.
    pub(super) file: &'static str,
    /// The text, in Markdown.
    pub(super) markdown: &'static str,
}

macro_rules! page {
    ($file:literal) => {
        Text { file: $file, markdown: include_str!(concat!("../../../../", $file)) }
    };
}

/// Every page. The first page lists the other pages.
pub(super) const TEXTS: [Text; 46] = [
    page!("docs/README.md"),
    page!("docs/access.md"),
    page!("docs/applications.md"),
    page!("docs/backup.md"),
    page!("docs/benchmarks.md"),
    page!("docs/campaigns.md"),
    page!("docs/commands.md"),
    page!("docs/configuration.md"),
    page!("docs/console.md"),
    page!("docs/content.md"),
    page!("docs/datastore.md"),
    page!("docs/endings.md"),
    page!("docs/files.md"),
    page!("docs/fleet-protocol.md"),
    page!("docs/fleet.md"),
    page!("docs/freshness.md"),
    page!("docs/identity-v3.md"),
    page!("docs/identity.md"),
    page!("docs/install.md"),
    page!("docs/integrate/caddy.md"),
    page!("docs/integrate/envoy.md"),
    page!("docs/integrate/haproxy.md"),
    page!("docs/integrate/nginx.md"),
    page!("docs/integrate/traefik.md"),
    page!("docs/internals.md"),
    page!("docs/keystone.md"),
    page!("docs/limits.md"),
    page!("docs/metrics.md"),
    page!("docs/operations.md"),
    page!("docs/proxies.md"),
    page!("docs/proxmox.md"),
    page!("docs/refusals.md"),
    page!("docs/reliability.md"),
    page!("docs/routes.md"),
    page!("docs/threat-model.md"),
    page!("docs/tls.md"),
    page!("docs/troubleshooting.md"),
    page!("docs/tutorials/backup-provider.md"),
    page!("docs/tutorials/openstack-cloud.md"),
    page!("docs/tutorials/protected-applications.md"),
    page!("docs/tutorials/small-office.md"),
    page!("README.md"),
    page!("CHANGELOG.md"),
    page!("GLOSSARY.md"),
    page!("SECURITY.md"),
    page!("packaging/README.md"),
];
