//! `cargo xtask package`: the files of a release. These are the Debian package, the image for containers, the list of components (SBOM), a statement
//! about the origin of the files (provenance), the checksums, and with `--sign` their signature.

mod image;
mod provenance;
mod sbom;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The dependencies of the package at run time, without libraries: kill(1), which the unit runs for a reload, and systemd-sysusers(8), which makes
/// the user.
const DEPENDS: &str = "procps, systemd | systemd-standalone-sysusers";

/// The helper process, which is built next to the program.
const HELPER: &str = "enfilade-privileged";

const MAINTAINER: &str = "Enfilade maintainers <maintainers@enfilade.invalid>";

/// The files of the repository that are in the package, each with its path in the package.
const FILES: &[(&str, &str)] = &[
    ("packaging/enfilade.service", "usr/lib/systemd/system/enfilade.service"),
    ("packaging/enfilade-privileged.service", "usr/lib/systemd/system/enfilade-privileged.service"),
    ("packaging/enfilade-privileged.socket", "usr/lib/systemd/system/enfilade-privileged.socket"),
    ("packaging/enfilade.sysusers", "usr/lib/sysusers.d/enfilade.conf"),
    ("packaging/prometheus/enfilade.rules.yml", "usr/share/doc/enfilade/examples/enfilade.rules.yml"),
    ("packaging/grafana/enfilade.json", "usr/share/doc/enfilade/examples/grafana.json"),
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

/// How the members of the package are compressed.
#[derive(Clone, Copy)]
enum Compression {
    /// Small and slow, as in the archives of Debian.
    Xz,
    /// Large and fast, for tests.
    Gzip,
}

impl Compression {
    fn options(self) -> &'static [&'static str] {
        match self {
            Compression::Xz => &["-Zxz"],
            Compression::Gzip => &["-Zgzip", "-z1"],
        }
    }
}

struct Options {
    out: PathBuf,
    binary: Option<PathBuf>,
    compression: Compression,
    /// The file with the private key of minisign(1) that signs the checksums.
    key: Option<PathBuf>,
}

impl Options {
    fn read(root: &Path, words: &[&str]) -> Result<Self, String> {
        let out = root.join("target/package");
        let mut options = Options { out, binary: None, compression: Compression::Xz, key: None };
        let mut words = words.iter();
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("`{option}` needs a value"))?;
            match (*option, *value) {
                ("--out", place) => options.out = PathBuf::from(place),
                ("--binary", path) => options.binary = Some(PathBuf::from(path)),
                ("--sign", key) => options.key = Some(PathBuf::from(key)),
                ("--compression", "xz") => options.compression = Compression::Xz,
                ("--compression", "gzip") => options.compression = Compression::Gzip,
                ("--compression", other) => {
                    return Err(format!("no compression `{other}`; known are xz and gzip"));
                }
                (other, _) => {
                    return Err(format!(
                        "no option `{other}`; known are --out, --binary, --compression and --sign"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// Makes all files of a release, and returns their paths. `--out DIR` is the directory for them, by default `target/package`. `--binary PATH` uses a
/// program that is already built. `--compression gzip` makes larger files in less time. `--sign KEY` signs the checksums.
///
/// # Errors
/// When an option is unknown, or a step fails.
pub fn run(words: &[&str]) -> Result<Vec<PathBuf>, String> {
    let options = Options::read(&crate::root(), words)?;
    let package = Package::prepare(&options)?;
    let mut made = vec![package.build(options.compression)?, image::write(&package, options.compression)?];
    made.push(package.write_sbom()?);
    made.push(package.write_as(".intoto.json", provenance::of(&package, &made)?.as_bytes())?);
    let sums = package.write_as(".sha256", checksums(&made)?.as_bytes())?;
    made.push(sums.clone());
    if let Some(key) = &options.key {
        made.push(package.sign(&sums, key)?);
    }
    Ok(made)
}

/// Makes only the image for containers, with the same options as [`run`].
///
/// # Errors
/// The same errors as [`run`].
pub fn image(words: &[&str]) -> Result<PathBuf, String> {
    let options = Options::read(&crate::root(), words)?;
    image::write(&Package::prepare(&options)?, options.compression)
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // No path of this machine is in the program, so that two machines build the same program.
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
    tree: Tree,
    version: String,
    architecture: String,
    /// The time of the last commit, in seconds since the epoch. All files get this time, so that two builds are the same.
    epoch: String,
}

/// A directory whose content becomes an archive.
struct Tree(PathBuf);

impl Tree {
    /// Makes an empty directory. If the directory exists already, its content is removed.
    fn new(place: PathBuf) -> Result<Self, String> {
        let failed = |why| format!("`{}`: {why}", place.display());
        if place.exists() {
            fs::remove_dir_all(&place).map_err(failed)?;
        }
        fs::create_dir_all(&place).map_err(failed)?;
        Ok(Tree(place))
    }

    fn put(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), String> {
        let path = self.0.join(path);
        let place = path.parent().unwrap_or(&self.0);
        let failed = |why| format!("`{}` cannot be written: {why}", path.display());
        fs::create_dir_all(place).map_err(failed)?;
        fs::write(&path, bytes).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(failed)
    }

    /// Gives all directories the mode that they have in archives, independently of the umask.
    fn open_directories(&self) -> Result<(), String> {
        for place in directories_of(&self.0)? {
            let failed = |why| format!("`{}`: {why}", place.display());
            fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        Ok(())
    }
}

impl Package {
    /// Builds the program, unless the options name one, and puts the files of the package into a directory.
    fn prepare(options: &Options) -> Result<Self, String> {
        let root = crate::root();
        let binary = match &options.binary {
            Some(binary) => binary.clone(),
            None => build(&root)?,
        };
        let no_place = |why| format!("`{}` cannot be made: {why}", options.out.display());
        fs::create_dir_all(&options.out).map_err(no_place)?;
        let out = fs::canonicalize(&options.out).map_err(no_place)?;
        let text = |command: &mut Command| {
            let printed = run_one(command.current_dir(&root))?;
            Ok::<_, String>(String::from_utf8_lossy(&printed).trim().to_owned())
        };
        let printed = text(Command::new(&binary).arg("--version"))?;
        let package = Package {
            version: printed.rsplit(' ').next().unwrap_or_default().to_owned(),
            architecture: text(Command::new("dpkg").arg("--print-architecture"))?,
            epoch: text(Command::new("git").args(["log", "-1", "--format=%ct"]))?,
            tree: Tree::new(out.join("tree"))?,
            root,
            out,
            binary,
        };
        package.fill()?;
        Ok(package)
    }

    fn file_name(&self, end: &str) -> PathBuf {
        self.out.join(format!("enfilade_{}_{}{end}", self.version, self.architecture))
    }

    /// Writes a file of the release.
    fn write_as(&self, end: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.file_name(end);
        fs::write(&path, bytes).map_err(|why| format!("`{}` cannot be written: {why}", path.display()))?;
        Ok(path)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(self.root.join(path)).map_err(|why| format!("`{path}` cannot be read: {why}"))
    }

    /// Puts the files of the package into the directory.
    fn fill(&self) -> Result<(), String> {
        self.put_programs()?;
        for (from, to) in FILES {
            self.tree.put(to, &self.read(from)?, 0o644)?;
        }
        self.tree.put(
            "usr/share/doc/enfilade/CHANGELOG.md.gz",
            &zipped(&self.read("CHANGELOG.md")?, "-9")?,
            0o644,
        )?;
        for page in files_of(&self.root.join("docs"))? {
            let below =
                page.strip_prefix(&self.root).map_err(|why| why.to_string())?.to_string_lossy().into_owned();
            self.tree.put(&format!("usr/share/doc/enfilade/{below}"), &self.read(&below)?, 0o644)?;
        }
        self.put_texts_of_program()
    }

    /// Makes the Debian package.
    fn build(&self, compression: Compression) -> Result<PathBuf, String> {
        let changelog = zipped(self.changelog()?.as_bytes(), "-9")?;
        self.tree.put("usr/share/doc/enfilade/changelog.gz", &changelog, 0o644)?;
        let control = self.control()?;
        self.tree.put("DEBIAN/control", control.as_bytes(), 0o644)?;
        for script in SCRIPTS {
            let text = self.read(&format!("packaging/debian/{script}"))?;
            self.tree.put(&format!("DEBIAN/{script}"), &text, 0o755)?;
        }
        self.tree.put("DEBIAN/md5sums", self.sums()?.as_bytes(), 0o644)?;
        self.tree.open_directories()?;
        let package = self.file_name(".deb");
        let mut build = Command::new("dpkg-deb");
        build.arg("--root-owner-group").args(compression.options()).arg("--build");
        build.arg(&self.tree.0).arg(&package);
        run_one(build.env("SOURCE_DATE_EPOCH", &self.epoch))?;
        Ok(package)
    }

    /// The changelog in Debian's form. It refers to the changelog of the project.
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

    /// Puts the program and its helper into the directory.
    fn put_programs(&self) -> Result<(), String> {
        self.put_stripped("usr/bin/enfilade", &self.binary)?;
        self.put_stripped(&format!("usr/lib/enfilade/{HELPER}"), &self.binary.with_file_name(HELPER))
    }

    /// Puts a program without symbols for debuggers into the directory.
    fn put_stripped(&self, path: &str, program: &Path) -> Result<(), String> {
        self.tree.put(path, &[], 0o755)?;
        let to = self.tree.0.join(path);
        let strip = ["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", "-o"];
        run_one(Command::new("strip").args(strip).arg(to).arg(program)).map(drop)
    }

    /// Puts the texts that the program itself prints into the directory: manual pages, completions and a configuration with every key.
    fn put_texts_of_program(&self) -> Result<(), String> {
        let printed = |words: &[&str]| run_one(Command::new(&self.binary).args(words));
        for (shell, path) in COMPLETIONS {
            self.tree.put(path, &printed(&["completions", shell])?, 0o644)?;
        }
        self.tree.put(
            "usr/share/doc/enfilade/examples/enfilade.toml",
            &printed(&["config", "example"])?,
            0o644,
        )?;
        let pages = self.out.join("man");
        let failed = |why| format!("`{}`: {why}", pages.display());
        if pages.exists() {
            fs::remove_dir_all(&pages).map_err(failed)?;
        }
        printed(&["man", &pages.to_string_lossy()])?;
        for page in files_of(&pages)? {
            let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read(&page).map_err(failed)?;
            self.tree.put(&format!("usr/share/man/man1/{name}.gz"), &zipped(&text, "-9")?, 0o644)?;
        }
        Ok(())
    }

    fn control(&self) -> Result<String, String> {
        let kib: u64 = files_of(&self.tree.0)?
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
        command.args(["-O", "--ignore-missing-info"]).arg(self.tree.0.join("usr/bin/enfilade"));
        let printed = run_one(command.current_dir(&place))?;
        let text = String::from_utf8_lossy(&printed).trim().to_owned();
        text.strip_prefix("shlibs:Depends=")
            .map(str::to_owned)
            .ok_or_else(|| format!("dpkg-shlibdeps printed no dependencies: `{text}`"))
    }

    /// The checksums of the files, by which `dpkg --verify` finds changed files.
    fn sums(&self) -> Result<String, String> {
        let mut files = files_of(&self.tree.0)?;
        files.retain(|path| !path.starts_with(self.tree.0.join("DEBIAN")));
        let names = files.iter().filter_map(|path| path.strip_prefix(&self.tree.0).ok());
        let printed = run_one(Command::new("md5sum").args(names).current_dir(&self.tree.0))?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    fn write_sbom(&self) -> Result<PathBuf, String> {
        self.write_as(".cdx.json", sbom::of(&self.root, &self.version, &self.epoch)?.as_bytes())
    }

    /// Signs the checksums with minisign(1), which asks for the password of the key if it has one.
    fn sign(&self, sums: &Path, key: &Path) -> Result<PathBuf, String> {
        let signature = self.file_name(".sha256.minisig");
        let comment = format!("enfilade {} {}", self.version, self.architecture);
        let mut sign = Command::new("minisign");
        sign.args(["-S", "-t", &comment, "-s"]).arg(key).arg("-m").arg(sums).arg("-x").arg(&signature);
        run_one(&mut sign)?;
        Ok(signature)
    }
}

/// The checksums of files, as `sha256sum --check` reads them.
fn checksums(files: &[PathBuf]) -> Result<String, String> {
    let lines = files.iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{}  {name}\n", sha256(path)?))
    });
    lines.collect()
}

fn sha256(path: &Path) -> Result<String, String> {
    let printed = run_one(Command::new("sha256sum").arg("--binary").arg(path))?;
    let text = String::from_utf8_lossy(&printed);
    text.split(' ').next().map(str::to_owned).ok_or_else(|| "sha256sum printed nothing".to_owned())
}

/// Compresses as Debian's policy demands: without name and time, so that two builds are the same.
fn zipped(text: &[u8], level: &str) -> Result<Vec<u8>, String> {
    use std::io::Write as _;
    let failed = |why: std::io::Error| format!("gzip cannot be run: {why}");
    let mut gzip = Command::new("gzip")
        .args([level, "--no-name", "--stdout"])
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

/// A directory, and all directories below it.
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
