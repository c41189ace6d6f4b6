//! The binary: listeners, TLS acceptor, command line, configuration, clock. It is thin: it reads the world outside
//! (arguments, files, clocks, sockets, signals) and hands it inward.

mod access_log;
mod audit_log;
mod certificates;
mod cli;
mod clock;
mod command;
mod config;
mod files;
mod first_start;
mod home;
mod listen;
mod notify;
mod output;
mod progress;
mod reload;
mod serve;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
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
