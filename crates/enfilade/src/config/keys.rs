//! Every key of `enfilade.toml` except the limits: section, type, default, effect and meaning. The parser, SIGHUP and the reference
//! (`enfilade reference configuration`) all use this table.

use super::collector::CollectorUrl;
use super::datastore_names::DatastoreNames;
use super::fleet::{EtcdUrls, LogPrefix, MemberAddress, MemberName, ProofMillis};
use super::url_origin::UrlOrigin;
use super::values::{
    AbsolutePath, AcmeDirectory, AtMost, Check, Duration, Expression, MailAddress, MapSize, Matching, Names,
    Positive, PublicNames, Recipients, Roots, TransportSecurity, UseOfIndex, UseOfLimits, Users, Value,
};
use crate::listen::{Addresses, Networks, PlainAddresses, Trusted};
use enfilade_admin::PASSWORDS_KEPT_MAX;
use enfilade_facts::limits::{SECRET_BYTES_MAX, STALE_LIMIT_SECONDS, TOKEN_SECONDS_MAX};
use enfilade_passage::SessionTerms;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The time at which a changed key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The change takes effect with the next SIGHUP.
    Reload,
    /// The change takes effect after a restart. The reason: a server binds sockets, opens directories and allocates tables only at its start.
    Restart,
}

impl Effect {
    /// The action that a change of the key needs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Effect::Reload => "reload",
            Effect::Restart => "restart",
        }
    }
}

/// A key of `enfilade.toml`.
pub(crate) struct Key {
    /// The section, without brackets.
    pub(crate) section: &'static str,
    /// The page in `docs/` about the section, optionally with the heading that explains the keys.
    pub(crate) page: &'static str,
    name: &'static str,
    /// A description of the values that the key accepts.
    pub(crate) expected: fn() -> String,
    /// An example of a value in the file, if the key has no default.
    pub(super) sample: fn() -> &'static str,
    /// The behaviour while the key is not set; empty if the key has a default value.
    pub(crate) unset: &'static str,
    /// The time at which a change takes effect.
    pub(crate) effect: Effect,
    what: &'static str,
}

impl Key {
    /// The name of the key in its section.
    pub(crate) fn name(&self) -> &'static str {
        self.name.strip_prefix("r#").unwrap_or(self.name)
    }

    /// The meaning of the key.
    pub(crate) fn what(&self) -> &'static str {
        self.what.trim()
    }
}

macro_rules! default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

macro_rules! keys {
    ($($(#[doc = $about:literal])+ $section:ident: $Section:ident, $page:literal {
        $($(#[doc = $what:literal])+ $key:ident: $type:ty $(= $default:expr)?, $($unset:literal,)? $effect:ident;)+
    })+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
            #[serde(default)]
            pub(crate) struct $Section {
                $($(#[doc = $what])+ pub(crate) $key: $type,)+
            }

            impl Default for $Section {
                fn default() -> Self {
                    $Section { $($key: default!($($default)?),)+ }
                }
            }
        )+

        /// All keys, in the order of the reference.
        pub(crate) const KEYS: &[Key] = &[$($(Key {
            section: stringify!($section),
            page: $page,
            name: stringify!($key),
            expected: <$type as Value>::expected,
            sample: <$type as Value>::sample,
            unset: concat!($($unset)?),
            effect: Effect::$effect,
            what: concat!($($what),+),
        },)+)+];
    };
}

keys! {
    /// Listeners and certificates.
    tls: Tls, "tls.md" {
        /// The address for HTTPS, or several addresses.
        listen: Addresses = Addresses::local(8443), Restart;
        /// The address or Unix socket for HTTP without TLS, behind a proxy. A Unix socket needs `unix` in `[http] trusted_proxies`.
        plain_listen: Option<PlainAddresses>, "off", Restart;
        /// The address for plain HTTP. Clients that connect to this address are redirected to HTTPS.
        http_listen: Option<Addresses>, "off", Restart;
        /// The directory of the ACME challenge files (HTTP-01) that `http_listen` serves: `.well-known/acme-challenge` in certbot's webroot.
        acme_challenges: Option<PathBuf>, "off", Restart;
        /// Public host names of a certificate that the server obtains from a certificate authority (ACME) and renews. If you set this key, you accept
        /// the authority's terms of service.
        acme: Option<PublicNames>, "off", Restart;
        /// The URL of the directory of the ACME authority.
        acme_directory: AcmeDirectory, Restart;
        /// The contact e-mail address for a new account at the ACME authority.
        acme_contact: Option<MailAddress>, "none", Restart;
        /// A PEM file with the CA certificates that verify the authority's TLS certificate.
        acme_roots: Option<PathBuf>, "the CA certificates of the system", Restart;
        /// A list of load balancers, separated by commas. The server trusts the PROXY v2 header of these load balancers. A load balancer in this list
        /// must send the header on every connection.
        proxy_from: Networks, "none", Restart;
        /// The value of the header `Strict-Transport-Security`, which the server sends with every response over TLS.
        hsts: Option<TransportSecurity>, "not sent", Restart;
        /// The directory of PEM bundles.
        certificates: Option<PathBuf>, "`tls` in the data directory", Reload;
        /// The host names and IP addresses in the certificate that the server makes for itself, in addition to localhost.
        names: Option<Names>, "localhost only", Restart;
        /// A crt-list in HAProxy's format, used instead of `certificates`. Each line contains the path of a certificate file, its options and its
        /// server names.
        crt_list: Option<PathBuf>, "off", Reload;
        /// A directory of CA certificates. If a bundle has no chain, the server adds the chain from this directory.
        issuers: Option<PathBuf>, "off", Reload;
        /// Whether the server uses the stored index of certificates at its start, and when it checks the files for changes.
        index: UseOfIndex, Restart;
        /// When the server verifies the keys of the certificates.
        check: Check, Restart;
        /// Which certificate is served if several certificates match a server name.
        r#match: Matching, Reload;
        /// Refuse a TLS handshake for a server name that no certificate contains, instead of sending the default certificate.
        strict_sni: bool, Reload;
    }
    /// Proxies in front of the server.
    http: Http, "proxies.md" {
        /// A list of proxies, separated by commas. The server trusts these proxies to report the client in `Forwarded` or `X-Forwarded-For`,
        /// `-Proto`, `-Host` and `-Port`.
        trusted_proxies: Trusted, "none", Restart;
    }
    /// Logins, tokens and their keys.
    identity: Identity, "identity.md" {
        /// The maximum number of slow password hashes that are computed at the same time; at least 1.
        hash_slots: Option<usize>, "half the cores", Reload;
        /// Delay failed logins, and block an address after many failed logins.
        penalties: bool = true, Restart;
        /// The number of failed logins after which a user is locked; 0 means no lock. While a user is locked, even the right password is refused. So
        /// strangers can lock users out.
        lockout_failures: AtMost<1_000>, Restart;
        /// How long a user is locked.
        lockout_duration: Option<Duration>, "`30m`", Restart;
        /// The number of days without a login after which a user counts as disabled; 0 means never.
        inactive_days: AtMost<36_500>, Restart;
        /// The directory of Fernet keys, with the layout of `keystone-manage`.
        fernet_keys: Option<PathBuf>, "`keys/fernet` in the data directory", Restart;
        /// The number of Fernet keys that a rotation keeps.
        max_active_keys: usize = 3, Restart;
        /// How often the server rotates the Fernet keys.
        rotate_every: Option<Duration>, "never", Restart;
        /// The lifetime of a session, in seconds.
        token_seconds: AtMost<{ TOKEN_SECONDS_MAX as u64 }> = AtMost::of(SessionTerms::default().token_seconds), Restart;
        /// A service, such as Nova, can ask about an expired session with `allow_expired`. The server answers such questions for this number of
        /// seconds after the expiry.
        expired_seconds: i64 = SessionTerms::default().expired_seconds, Restart;
        /// Passcodes of this many earlier time steps are still accepted (Keystone's `[totp] included_previous_windows`). A time step has 30 seconds.
        totp_previous_windows: AtMost<10> = AtMost::of(1), Restart;
        /// Whether the limit of a domain or project restricts the limits of the projects below it (`/v3/limits`).
        limit_model: UseOfLimits, Restart;
    }
    /// Rules for new passwords. Imported passwords and generated passwords are not checked.
    passwords: Passwords, "identity.md#passwords" {
        /// The minimum number of characters in a password; 0 means no rule.
        characters_min: AtMost<{ SECRET_BYTES_MAX as u64 }> = AtMost::of(12), Restart;
        /// The minimum number of kinds of characters in a password (lower case, upper case, digits, others); 0 means no rule.
        kinds_min: AtMost<4>, Restart;
        /// A regular expression that a password must match, like Keystone's `password_regex`.
        regex: Option<Expression>, "no rule", Restart;
        /// A description of the regular expression, for users with a password that does not match.
        regex_description: Option<String>, "the regular expression itself", Restart;
        /// How long a new password is valid.
        expire_after: Option<Duration>, "never", Restart;
        /// How long a user must keep a new password.
        keep_for: Option<Duration>, "off", Restart;
        /// The number of the user's last passwords, including the current password, from which a new password must differ; 0 means no rule.
        unlike_last: AtMost<{ PASSWORDS_KEPT_MAX as u64 }>, Restart;
        /// If another user, such as an administrator, set the password of a user, the user cannot log in with this password. The user must first use
        /// it to choose a new password.
        change_given: bool, Restart;
    }
    /// Permissions on files.
    access: Access, "access.md" {
        /// Let the kernel report changed files. Then listings need not read unchanged ACLs again.
        watch: bool = true, Restart;
    }
    /// Datastores.
    datastores: Datastores, "datastore.md" {
        /// The directories below which datastores can be created over HTTP.
        roots: Option<Roots>, "`datastores` in the data directory", Restart;
    }
    /// The console, and the trash for the files that are deleted in it.
    console: Console, "console.md#trash" {
        /// Serve the console, and the links with which users share files. If this is `false`, the addresses below `/console/` and `/s/` do not exist,
        /// and every request for a link gets the status 404. Then nobody can restore files from the trash, but the server still removes old items.
        enabled: bool = true, Restart;
        /// The number of days after which the server removes deleted files from the trash; 0 means that the console deletes files at once. With
        /// 0, earlier items stay in the trash until users remove them.
        trash_days: AtMost<36_500> = AtMost::of(30), Restart;
        /// The datastores without a trash: in these datastores the console deletes files at once. Earlier items are still removed after `trash_days`.
        no_trash: Option<DatastoreNames>, "all datastores have a trash", Restart;
    }
    /// Decisions for proxies such as nginx (`enfilade integrate`).
    decisions: Decisions, "applications.md" {
        /// The Unix sockets or addresses on which proxies ask for decisions. On an address, the proxy needs TLS and a client certificate.
        listen: Option<PlainAddresses>, "off", Restart;
        /// Only processes of these users may ask for decisions on the Unix sockets.
        users: Option<Users>, "the user of the server", Restart;
        /// The URL at which browsers reach this server, without a path. To sign in to an application, people use the page `/.enfilade/sign-in` at
        /// this URL.
        sign_in: Option<UrlOrigin>, "off", Restart;
    }
    /// Limits of the server's process. Switch off a limit only to find the cause of a problem.
    privileges: Privileges, "operations.md#limits-of-the-process" {
        /// Let the server open only the files and ports that it knows at its start (Landlock).
        landlock: bool = true, Restart;
        /// Let the server make only the system calls that it needs (seccomp).
        seccomp: bool = true, Restart;
        /// The Unix socket of the helper process. The helper process has the capabilities that the server needs.
        helper: Option<AbsolutePath>, "the server needs the capabilities itself", Restart;
    }
    /// Metrics and health.
    operations: Operations, "operations.md" {
        /// The address for metrics and health.
        listen: Addresses = Addresses::local(9443), Restart;
    }
    /// Traces of requests, for an OpenTelemetry collector.
    traces: Traces, "operations.md#traces" {
        /// The URL of the collector. The server sends traces to `/v1/traces` below this URL, as JSON (OTLP over HTTP) and without encryption. If the
        /// URL contains no port, the port is 4318.
        otlp: Option<CollectorUrl>, "no traces are sent", Restart;
        /// If this is N, the server sends on average the trace of one in N requests.
        one_in: Positive = Positive(1), Restart;
        /// Whether requests from `[http] trusted_proxies` continue the trace that the header `traceparent` names. Then the proxy decides which
        /// requests have a trace. The proxy must replace or remove this header if a client sends it.
        continue_proxies: bool, Restart;
    }
    /// The store of facts, and the files that you edit.
    facts: Facts, "backup.md" {
        /// The directory of `datastore.cfg`, `user.cfg`, `acl.cfg` and `token.shadow`.
        files: Option<PathBuf>, "the data directory", Restart;
        /// The numeric id (GID) of the group that shares the data directory.
        group: Option<u32>, "only the owner", Restart;
        /// The number of seconds for which the server uses the last valid content of an edited file, such as `user.cfg`, or the last Fernet keys,
        /// while it cannot read the present ones. After this time, requests that need this content or these keys are refused.
        stale_limit: i64 = STALE_LIMIT_SECONDS, Restart;
        /// The largest size of the store of facts, in MiB. All processes that share the data directory must have the same value.
        map_mebibytes: Option<MapSize>, "65536, or less where the address space is small", Restart;
    }
    /// The fleet of which this machine is a member (`enfilade fleet`).
    fleet: Fleet, "fleet.md" {
        /// The machines of etcd, which stores the log of changes.
        etcd: Option<EtcdUrls>, "this machine is not a member of a fleet", Restart;
        /// The name of this machine in the fleet.
        name: Option<MemberName>, "this machine is not a member of a fleet", Restart;
        /// The prefix of the keys in etcd. Each fleet needs a different prefix.
        prefix: LogPrefix, Restart;
        /// This machine serves requests only for this number of milliseconds after the last proof that its facts were current. If a member does not
        /// answer, each change takes this long. Set the same value on every member. Stop the servers of all members before you change the value.
        proof_millis: ProofMillis, Restart;
        /// Whether the server asks etcd before each request whether the facts are current. If it does, a virtual machine that was paused never uses
        /// old facts for a decision. Each request takes longer by one read of etcd. Requests that arrive at the same time share one read.
        strict: bool = false, Restart;
        /// The address at which other members connect to this machine, to report applied changes, and to pass on requests for datastores of this
        /// machine. Set this key on every member.
        listen: Option<MemberAddress>, "no requests are passed on", Restart;
        /// A PEM file with the CA certificates that verify the certificate of etcd.
        ca: Option<PathBuf>, "no TLS, which is allowed only on loopback", Restart;
        /// A PEM file with the certificate of this machine for etcd.
        certificate: Option<PathBuf>, "no TLS, which is allowed only on loopback", Restart;
        /// A PEM file with the private key of `certificate`.
        key: Option<PathBuf>, "no TLS, which is allowed only on loopback", Restart;
    }
    /// Backups that the server makes automatically. They contain everything except the content of datastores.
    backup: Backup, "backup.md#on-a-schedule" {
        /// The directory of the backups. It is created if it does not exist. No datastore may contain this directory, or lie in it.
        directory: Option<AbsolutePath>, "no backups are made", Restart;
        /// The interval between two backups.
        every: Option<Duration>, "`24h`", Restart;
        /// The number of backups that are kept.
        keep: Positive = Positive(7), Restart;
        /// The public keys (recipients of the tool `age`) for which the backups are encrypted, separated by commas.
        recipients: Recipients, "not encrypted", Restart;
    }
}
