//! Families of calls of Identity v3 whose records no decision of the server depends on, except the catalog: limits, policies, endpoint filters,
//! configurations of domains, projects that act as domains. Also options of users. Requests go to the HTTP face in process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod domain_configs;
mod endpoint_filters;
mod imports;
mod limits;
mod options;
mod others;
mod policies;
mod world;
