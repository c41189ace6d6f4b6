//! The binary: listeners, TLS acceptor, command line, configuration, clock. It only reads its environment (arguments, files, clocks,
//! sockets, signals) and passes it to the other crates.

mod access_log;
mod audit_log;
mod certificates;
mod cli;
mod clock;
mod command;
mod config;
mod example;
mod files;
mod first_start;
mod home;
mod keys;
mod listen;
mod look;
mod memory;
mod notes;
mod notify;
mod operations;
mod output;
mod progress;
mod protocols;
mod reference;
mod reload;
mod reserved;
mod serve;
mod start;
mod sweeping;
mod upkeep;

use clap::Parser;
use std::alloc::System;
use std::process::ExitCode;
use zeroizing_alloc::ZeroAlloc;

/// Wipes freed memory: secrets pass through buffers of libraries that do not wipe them.
#[global_allocator]
static ALLOCATOR: ZeroAlloc<System> = ZeroAlloc(System);

fn main() -> ExitCode {
    memory::hand_back();
    let cli = cli::Cli::parse();
    let json = cli.json;
    match command::run(cli) {
        Ok(code) => code,
        Err(why) => {
            output::error(json, &why);
            ExitCode::FAILURE
        }
    }
}
