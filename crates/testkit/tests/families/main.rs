//! Families of calls of Identity v3. The first families are limits, policies, endpoint filters, configurations of domains, projects that act as
//! domains, and federation. The catalog depends on records of these first families. No decision of the server depends on them. Further families are
//! role implications, OAuth, and options of users. Requests go to the HTTP face in process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod access_rules;
mod domain_configs;
mod domain_sessions;
mod endpoint_filters;
mod federation;
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
