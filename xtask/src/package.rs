//! `cargo xtask package`: the Debian package, the list of its components (SBOM), and checksums.

mod sbom;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the package needs at run time besides libraries: systemd makes the user of the server (sysusers).
const DEPENDS: &str = "systemd | systemd-standalone-sysusers";

/// The helper process, which is built next to the program.
const HELPER: &str = "enfilade-privileged";

const MAINTAINER: &str = "Enfilade maintainers <maintainers@enfilade.invalid>";

/// Where a file of the repository goes in the package.
const FILES: &[(&str, &str)] = &[
    ("packaging/enfilade.service", "usr/lib/systemd/system/enfilade.service"),
    ("packaging/enfilade-privileged.service", "usr/lib/systemd/system/enfilade-privileged.service"),
    ("packaging/enfilade-privileged.socket", "usr/lib/systemd/system/enfilade-privileged.socket"),
    ("packaging/enfilade.sysusers", "usr/lib/sysusers.d/enfilade.conf"),
    ("README.md", "usr/share/doc/enfilade/README.md"),
    ("SECURITY.md", "usr/share/doc/enfilade/SECURITY.md"),
    ("GLOSSARY.md", "usr/share/doc/enfilade/GLOSSARY.md"),
    ("packaging/debian/copyright", "usr/share/doc/enfilade/copyright"),
    ("packaging/debian/lintian-overrides", "usr/share/lintian/overrides/enfilade"),
];

/// The directories for the completions of each shell, and their file names.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/enfilade"),
    ("zsh", "usr/share/zsh/vendor-completions/_enfilade"),
    ("fish", "usr/share/fish/vendor_completions.d/enfilade.fish"),
];

/// The scripts that dpkg runs.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Makes the package. `--out DIR` is the directory for it, by default `target/package`; `--binary PATH` takes a program that was built already.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let root = xtask::root();
    let (mut out, mut binary) = (root.join("target/package"), None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options.next().ok_or_else(|| format!("`{option}` needs a value"));
        match *option {
            "--out" => out = PathBuf::from(value?),
            "--binary" => binary = Some(PathBuf::from(value?)),
            other => return Err(format!("no option `{other}` of `package`; known are --out and --binary")),
        }
    }
    let binary = match binary {
        Some(binary) => binary,
        None => build(&root)?,
    };
    let no_place = |why| format!("`{}` cannot be made: {why}", out.display());
    fs::create_dir_all(&out).map_err(no_place)?;
    let out = fs::canonicalize(&out).map_err(no_place)?;
    let package = Package::of(&root, &out, &binary)?;
    let made = [package.build()?, package.write_sbom()?];
    let sums = package.write_checksums(&made)?;
    for path in made.iter().chain([&sums]) {
        println!("{}", path.display());
    }
    Ok(())
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // No path of this machine is in the program, so two machines make the same one.
    let remap = format!("--remap-path-prefix={}=/usr/src/enfilade", root.display());
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
    let remap =
        home.map_or(remap.clone(), |home| format!("{remap} --remap-path-prefix={home}=/usr/src/cargo"));
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--release",
        "--locked",
        "-p",
        "enfilade",
        "-p",
        HELPER,
        "--target-dir",
        "target/package-build",
    ]);
    run_one(command.env("RUSTFLAGS", remap).current_dir(root))?;
    Ok(root.join("target/package-build/release/enfilade"))
}

/// Runs a command, and returns what it printed.
fn run_one(command: &mut Command) -> Result<Vec<u8>, String> {
    let line = format!("{command:?}");
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|why| format!("{line} cannot be run: {why}"))?;
    output.status.success().then_some(output.stdout).ok_or_else(|| format!("{line} failed"))
}

struct Package {
    root: PathBuf,
    out: PathBuf,
    binary: PathBuf,
    /// The files of the package, as they will be installed.
    tree: PathBuf,
    version: String,
    architecture: String,
    /// The time of the last commit, in seconds since the epoch: the time of all files, so that two builds are the same.
    epoch: String,
}

impl Package {
    fn of(root: &Path, out: &Path, binary: &Path) -> Result<Self, String> {
        let text = |command: &mut Command| {
            let printed = run_one(command.current_dir(root))?;
            Ok::<_, String>(String::from_utf8_lossy(&printed).trim().to_owned())
        };
        let printed = text(Command::new(binary).arg("--version"))?;
        let version = printed.rsplit(' ').next().unwrap_or_default().to_owned();
        let tree = out.join("tree");
        if tree.exists() {
            fs::remove_dir_all(&tree).map_err(|why| format!("`{}`: {why}", tree.display()))?;
        }
        Ok(Package {
            root: root.to_owned(),
            out: out.to_owned(),
            binary: binary.to_owned(),
            tree,
            version,
            architecture: text(Command::new("dpkg").arg("--print-architecture"))?,
            epoch: text(Command::new("git").args(["log", "-1", "--format=%ct"]))?,
        })
    }

    fn file_name(&self, end: &str) -> PathBuf {
        self.out.join(format!("enfilade_{}_{}{end}", self.version, self.architecture))
    }

    /// Writes a file of the package.
    fn put(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), String> {
        let path = self.tree.join(path);
        let place = path.parent().unwrap_or(&self.tree);
        let failed = |why| format!("`{}` cannot be written: {why}", path.display());
        fs::create_dir_all(place).map_err(failed)?;
        fs::write(&path, bytes).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(failed)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(self.root.join(path)).map_err(|why| format!("`{path}` cannot be read: {why}"))
    }

    /// Makes the Debian package.
    fn build(&self) -> Result<PathBuf, String> {
        self.put_programs()?;
        for (from, to) in FILES {
            self.put(to, &self.read(from)?, 0o644)?;
        }
        self.put("usr/share/doc/enfilade/CHANGELOG.md.gz", &zipped(&self.read("CHANGELOG.md")?)?, 0o644)?;
        self.put("usr/share/doc/enfilade/changelog.gz", &zipped(self.changelog()?.as_bytes())?, 0o644)?;
        for page in files_of(&self.root.join("docs"))? {
            let below =
                page.strip_prefix(&self.root).map_err(|why| why.to_string())?.to_string_lossy().into_owned();
            self.put(&format!("usr/share/doc/enfilade/{below}"), &self.read(&below)?, 0o644)?;
        }
        self.put_texts_of_program()?;
        let control = self.control()?;
        self.put("DEBIAN/control", control.as_bytes(), 0o644)?;
        for script in SCRIPTS {
            self.put(&format!("DEBIAN/{script}"), &self.read(&format!("packaging/debian/{script}"))?, 0o755)?;
        }
        self.put("DEBIAN/md5sums", self.sums()?.as_bytes(), 0o644)?;
        for place in directories_of(&self.tree)? {
            let failed = |why| format!("`{}`: {why}", place.display());
            fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        let package = self.file_name(".deb");
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&self.tree).arg(&package);
        run_one(build.env("SOURCE_DATE_EPOCH", &self.epoch))?;
        Ok(package)
    }

    /// The changelog in the form of Debian, which names the one of the project.
    fn changelog(&self) -> Result<String, String> {
        let printed = run_one(Command::new("date").args([
            "--utc",
            "--rfc-email",
            "--date",
            &format!("@{}", self.epoch),
        ]))?;
        let date = String::from_utf8_lossy(&printed).trim().to_owned();
        Ok(format!(
            "enfilade ({}) unstable; urgency=medium\n\n  * See /usr/share/doc/enfilade/CHANGELOG.md.gz.\n\n -- {MAINTAINER}  {date}\n",
            self.version
        ))
    }

    /// The program and its helper.
    fn put_programs(&self) -> Result<(), String> {
        self.put_stripped("usr/bin/enfilade", &self.binary)?;
        self.put_stripped(&format!("usr/lib/enfilade/{HELPER}"), &self.binary.with_file_name(HELPER))
    }

    /// A program without symbols for debuggers.
    fn put_stripped(&self, path: &str, program: &Path) -> Result<(), String> {
        self.put(path, &[], 0o755)?;
        let to = self.tree.join(path);
        let strip = ["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", "-o"];
        run_one(Command::new("strip").args(strip).arg(to).arg(program)).map(drop)
    }

    /// What the program itself prints: manual pages, completions and a configuration with every key.
    fn put_texts_of_program(&self) -> Result<(), String> {
        let printed = |words: &[&str]| run_one(Command::new(&self.binary).args(words));
        for (shell, path) in COMPLETIONS {
            self.put(path, &printed(&["completions", shell])?, 0o644)?;
        }
        self.put("usr/share/doc/enfilade/examples/enfilade.toml", &printed(&["config", "example"])?, 0o644)?;
        let pages = self.out.join("man");
        let failed = |why| format!("`{}`: {why}", pages.display());
        if pages.exists() {
            fs::remove_dir_all(&pages).map_err(failed)?;
        }
        printed(&["man", &pages.to_string_lossy()])?;
        for page in files_of(&pages)? {
            let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read(&page).map_err(failed)?;
            self.put(&format!("usr/share/man/man1/{name}.gz"), &zipped(&text)?, 0o644)?;
        }
        Ok(())
    }

    fn control(&self) -> Result<String, String> {
        let kib: u64 = files_of(&self.tree)?
            .iter()
            .map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len().div_ceil(1024)))
            .sum();
        let libraries = self.libraries()?;
        Ok(format!(
            "Package: enfilade\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\n\
             Installed-Size: {kib}\nDepends: {libraries}, {DEPENDS}\nRecommends: ca-certificates\nSuggests: rclone, samba\nSection: net\n\
             Priority: optional\nDescription: access gateway and file server with an identity API\n \
             Enfilade serves directories over WebDAV with TLS, logins, API tokens, roles and\n \
             the ACLs of Samba. It has the administration API of Proxmox Backup Server and\n \
             OpenStack's Identity API, and decides about requests for other servers.\n",
            self.version, self.architecture
        ))
    }

    /// The packages of the libraries that the program is linked with.
    fn libraries(&self) -> Result<String, String> {
        let place = self.out.join("shlibs");
        let failed = |why| format!("`{}`: {why}", place.display());
        fs::create_dir_all(place.join("debian")).map_err(failed)?;
        fs::write(place.join("debian/control"), "Source: enfilade\n\nPackage: enfilade\nArchitecture: any\n")
            .map_err(failed)?;
        let mut command = Command::new("dpkg-shlibdeps");
        command.args(["-O", "--ignore-missing-info"]).arg(self.tree.join("usr/bin/enfilade"));
        let printed = run_one(command.current_dir(&place))?;
        let text = String::from_utf8_lossy(&printed).trim().to_owned();
        text.strip_prefix("shlibs:Depends=")
            .map(str::to_owned)
            .ok_or_else(|| format!("dpkg-shlibdeps printed no dependencies: `{text}`"))
    }

    /// The checksums of the files, by which `dpkg --verify` finds changed ones.
    fn sums(&self) -> Result<String, String> {
        let mut files = files_of(&self.tree)?;
        files.retain(|path| !path.starts_with(self.tree.join("DEBIAN")));
        let names = files.iter().filter_map(|path| path.strip_prefix(&self.tree).ok());
        let printed = run_one(Command::new("md5sum").args(names).current_dir(&self.tree))?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    fn write_sbom(&self) -> Result<PathBuf, String> {
        let path = self.file_name(".cdx.json");
        let text = sbom::of(&self.root, &self.version, &self.epoch)?;
        fs::write(&path, text).map_err(|why| format!("`{}` cannot be written: {why}", path.display()))?;
        Ok(path)
    }

    fn write_checksums(&self, made: &[PathBuf]) -> Result<PathBuf, String> {
        let names = made.iter().filter_map(|path| path.file_name());
        let printed = run_one(Command::new("sha256sum").args(names).current_dir(&self.out))?;
        let path = self.file_name(".sha256");
        fs::write(&path, printed).map_err(|why| format!("`{}` cannot be written: {why}", path.display()))?;
        Ok(path)
    }
}

/// Compresses as Debian's policy wants it: without name and time, so that two builds are the same.
fn zipped(text: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Write as _;
    let failed = |why: std::io::Error| format!("gzip cannot be run: {why}");
    let mut gzip = Command::new("gzip")
        .args(["-9", "--no-name", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (to, text) = (gzip.stdin.take(), text.to_vec());
    let written = std::thread::spawn(move || to.map(|mut to| to.write_all(&text)));
    let output = gzip.wait_with_output().map_err(failed)?;
    let is_written = matches!(written.join(), Ok(Some(Ok(()))));
    (output.status.success() && is_written).then_some(output.stdout).ok_or_else(|| "gzip failed".to_owned())
}

/// All files below a directory, in a fixed order.
fn files_of(place: &Path) -> Result<Vec<PathBuf>, String> {
    Ok(walk(place)?.into_iter().filter(|path| path.is_file()).collect())
}

/// All directories below a directory, and itself.
fn directories_of(place: &Path) -> Result<Vec<PathBuf>, String> {
    let below = walk(place)?.into_iter().filter(|path| path.is_dir());
    Ok(below.chain([place.to_owned()]).collect())
}

fn walk(place: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |why| format!("`{}` cannot be read: {why}", place.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(place).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(walk(&path)?);
        }
        found.push(path);
    }
    found.sort();
    Ok(found)
}
