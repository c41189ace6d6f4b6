//! The binary: listeners, TLS acceptor, command line, configuration, clock. The binary only reads its environment (arguments, files, clocks, sockets,
//! signals) and passes the values to the other crates.

mod access_log;
mod acme;
mod activities;
mod audit_log;
mod backup;
mod certificates;
mod cli;
mod clock;
mod command;
mod config;
mod confinement;
mod control;
mod data_directory;
mod disks;
mod example;
mod files;
mod first_start;
mod fleet;
mod fleet_certificates;
mod fleet_log;
mod home;
mod identity_endpoints;
mod issued;
mod keys;
mod listen;
mod log_lines;
mod look;
mod memory;
mod memos;
mod notes;
mod notify;
mod operations;
mod output;
mod owner;
mod passing;
mod peer_certificate;
mod process_use;
mod progress;
mod placed;
mod prompt;
mod protocols;
mod reference;
mod reload;
mod reserved;
mod self_made;
mod serve;
mod shared_certificates;
mod shared_keys;
mod signals;
mod start;
mod sweeping;
mod takeover;
mod time_service;
mod token_key;
mod traces;
mod upkeep;

use std::alloc::System;
use std::process::ExitCode;
use zeroizing_alloc::ZeroAlloc;

/// Wipes freed memory, because secrets pass through buffers of libraries that do not wipe these buffers.
#[global_allocator]
static ALLOCATOR: ZeroAlloc<System> = ZeroAlloc(System);

fn main() -> ExitCode {
    memory::hand_back();
    let cli = cli::Cli::of_process().unwrap_or_else(|why| output::end(&why));
    let (json, serves) = (cli.json, matches!(cli.command, cli::Command::Serve(_)));
    let ended = command::run(cli);
    // If output was lost at the start of a server, the server has already logged the loss and has continued. So the loss is not an error when the
    // server ends.
    let ended = match output::lost() {
        Some(why) if !serves => ended.and(Err(why)),
        _ => ended,
    };
    match ended {
        Ok(code) => code,
        Err(why) => {
            match serves && !json && !output::is_for_people() {
                true => output::note(&format!("error: {why:#}")),
                false => output::error(json, &why),
            }
            notes::write();
            ExitCode::FAILURE
        }
    }
}
