//! Groups of calls of Identity v3 that belong together, such as limits, policies, endpoint filters, federation, role implications and OAuth. Each
//! module tests one group. Most tests send requests to the HTTP face in the process of the test. The others import records.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod access_rules;
mod domain_configs;
mod domain_sessions;
mod endpoint_filters;
mod federation;
mod groups;
mod implied_roles;
mod imports;
mod imports_delegated;
mod limits;
mod names;
mod oauth1;
mod oauth2;
mod options;
mod others;
mod policies;
mod world;
