//! Programs with which Enfilade is compared, and which are not in Debian or are too old there. `go` builds these programs from the modules of Go's
//! module proxy.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program in Go.
struct Program {
    name: &'static str,
    version: &'static str,
    /// The package with its `main`.
    package: &'static str,
    /// The variable from which the program prints its version, if the build has to set it.
    says: Option<&'static str>,
}

const PROGRAMS: [Program; 5] = [
    Program { name: "etcd", version: "v3.6.6", package: "go.etcd.io/etcd/server/v3", says: None },
    Program { name: "etcdctl", version: "v3.6.6", package: "go.etcd.io/etcd/etcdctl/v3", says: None },
    Program { name: "opa", version: "v1.22.4", package: "github.com/open-policy-agent/opa", says: None },
    Program {
        name: "openfga",
        version: "v1.22.1",
        package: "github.com/openfga/openfga/cmd/openfga",
        says: Some("github.com/openfga/openfga/internal/build.Version"),
    },
    Program {
        name: "oauth2-proxy",
        version: "v7.15.6",
        package: "github.com/oauth2-proxy/oauth2-proxy/v7",
        says: Some("github.com/oauth2-proxy/oauth2-proxy/v7/pkg/version.VERSION"),
    },
];

/// The directory in which the programs are built. The built programs are in its directory `bin`.
fn place() -> PathBuf {
    xtask::root().join("target/peers")
}

/// The search path of a benchmark: the built programs come first, because Debian's etcd is older.
pub(crate) fn path() -> Option<OsString> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(place().join("bin")).chain(std::env::split_paths(&usual))).ok()
}

/// Builds the programs that are not built yet.
pub(crate) fn install() -> Result<(), String> {
    for program in &PROGRAMS {
        let built = place().join("bin").join(program.name);
        let Program { name, version, .. } = program;
        match built.is_file() {
            true => println!("==> {name} is there"),
            false => {
                println!("==> {name} {version}");
                program.build(&place().join(format!("{name}-{version}")), &built)?;
            }
        }
    }
    Ok(())
}

impl Program {
    /// Builds the program in a separate module. `go install` cannot be used, because it refuses a module that replaces other modules, such as the
    /// module of etcd.
    fn build(&self, module: &Path, built: &Path) -> Result<(), String> {
        let failed = |why: std::io::Error| format!("`{}`: {why}", module.display());
        if module.exists() {
            std::fs::remove_dir_all(module).map_err(failed)?;
        }
        std::fs::create_dir_all(module).map_err(failed)?;
        let wanted = format!("{}@{}", self.package, self.version);
        let flags = self.says.map_or(String::new(), |variable| format!("-X {variable}={}", self.version));
        // The program gets its name when it is complete.
        let part = module.join(self.name);
        let part_text = part.display().to_string();
        let build = ["build", "-trimpath", "-ldflags", &flags, "-o", &part_text, self.package];
        for words in [["mod", "init", "peers"].as_slice(), &["get", &wanted], &build] {
            let status =
                Command::new("go").args(words).env("GOFLAGS", "-mod=mod").current_dir(module).status();
            match status {
                Ok(status) if status.success() => {}
                Ok(_) => return Err(format!("{} was not built: `go {}` failed", self.name, words.join(" "))),
                Err(why) => {
                    return Err(format!(
                        "{} needs Go (https://go.dev): `go` cannot be run: {why}",
                        self.name
                    ));
                }
            }
        }
        std::fs::create_dir_all(place().join("bin")).map_err(failed)?;
        std::fs::rename(&part, built).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_programs_are_found_before_others() {
        let path = path().unwrap();
        assert!(std::env::split_paths(&path).next().unwrap().ends_with("target/peers/bin"));
        assert!(std::env::split_paths(&path).count() > 1);
    }

    #[test]
    fn each_program_has_a_version_and_is_named_once() {
        let mut names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROGRAMS.len());
        assert!(PROGRAMS.iter().all(|program| program.version.starts_with('v')));
    }
}
