//! `enfilade completions` and `enfilade man`: completions for shells, and manual pages.

use crate::cli::Cli;
use crate::output;
use anyhow::Context;
use clap::CommandFactory as _;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "enfilade", &mut text);
    output::line(String::from_utf8_lossy(&text).trim_end());
    ExitCode::SUCCESS
}

pub(super) fn pages(directory: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("the manual pages cannot be written into `{}`", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    /// Every command with its full name.
    fn paths(command: &Command, before: &[String]) -> Vec<Vec<String>> {
        let mut here = before.to_vec();
        here.push(command.get_name().to_owned());
        let below = command.get_subcommands().flat_map(|below| paths(below, &here));
        std::iter::once(here.clone()).chain(below).collect()
    }

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let directory = enfilade_testkit::Scratch::new();
        pages(directory.path()).unwrap();
        let mut text = Vec::new();
        clap_complete::generate(clap_complete::Shell::Bash, &mut Cli::command(), "enfilade", &mut text);
        let bash = String::from_utf8(text).unwrap();
        let all = paths(&Cli::command(), &[]);
        assert!(all.len() > 30, "{}", all.len());
        for path in all {
            let page = directory.path().join(format!("{}.1", path.join("-")));
            assert!(page.exists(), "{}", page.display());
            assert!(bash.contains(path.last().unwrap()), "{path:?}");
        }
    }
}
