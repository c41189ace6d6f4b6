//! Real clients against the real binary, over TLS on loopback: rclone, curl and proxmoxer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a campaign says how far it is")]
#![allow(clippy::disallowed_methods, reason = "tests that wait for another process read the clock and sleep")]

mod acme;
mod activity;
mod attributes;
mod alike;
mod canary;
mod certificates;
mod curl;
mod datastores;
mod enumeration;
mod every_io;
mod explain;
mod facts;
mod files;
mod freshness;
mod gone;
mod gone_for_good;
mod http2;
mod headers;
mod import;
mod import_cloud;
mod keys;
mod keystone;
mod kill_loop;
mod leftovers;
mod lending;
mod connections;
mod limits;
mod locks;
mod logins;
mod managers;
mod matrix;
mod meanwhile;
mod members;
mod names;
mod names_not_shown;
mod one_identity;
mod operations;
mod page;
mod passwords;
mod penalties;
mod proxmox;
mod race;
mod rclone;
mod robustness;
mod room;
mod roots;
mod samba;
mod server;
mod shares;
mod signals;
mod squeeze;
mod stalled;
mod start;
mod terms;
mod timing;
mod trees;
mod webdav;
mod well_formed;
mod webdav4;
mod whole_copies;
mod wire;
