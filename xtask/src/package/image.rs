//! The image for containers: an archive that is an image layout of OCI, and also has the form of the archives of `docker save`. So every container
//! engine can load it.
//!
//! The image has the program, the libraries that it is linked with, and no shell. The libraries come from the Debian system on which the image is
//! made.

use super::{Compression, Package, Tree, run_one, sha256, zipped};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user of the server. Container engines need a number to see that the user is not root.
const USER: u32 = 65_532;
/// The only directory that the server writes to.
const DATA: &str = "var/lib/enfilade";

/// Files with fixed content.
const TEXTS: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/:/usr/sbin/nologin\nenfilade:x:65532:65532:Enfilade:/var/lib/enfilade:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nenfilade:x:65532:\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];

/// Files that are copied from the machine that builds the image.
const OF_DEBIAN: &[&str] = &["etc/os-release", "etc/ssl/certs/ca-certificates.crt"];

/// Files that are copied from the package.
const OF_PACKAGE: &[&str] = &["usr/bin/enfilade", "usr/share/doc/enfilade/copyright"];

/// Directories on which engines mount file systems, and the directory above the data directory.
const DIRECTORIES: &[&str] = &["dev", "proc", "sys", "run", "var/lib"];

/// Links of the merged `/usr`: the loader of programs is `/lib64/ld-linux-x86-64.so.2`.
const LINKS: &[(&str, &str)] = &[("lib", "usr/lib"), ("lib64", "usr/lib64")];

pub(super) fn write(package: &Package, compression: Compression) -> Result<PathBuf, String> {
    let layer = layer(package)?;
    let blobs = Tree::new(package.out.join("image/layout"))?;
    let level = match compression {
        Compression::Xz => "-9",
        Compression::Gzip => "-1",
    };
    let unpacked = sha256(&layer)?;
    let bytes = fs::read(&layer).map_err(|why| format!("`{}`: {why}", layer.display()))?;
    let layer = Blob::put(&blobs, &zipped(&bytes, level)?, "application/vnd.oci.image.layer.v1.tar+gzip")?;
    let config = config(package, &unpacked)?;
    let config =
        Blob::put(&blobs, config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor(), "layers": [layer.descriptor()],
    });
    let manifest =
        Blob::put(&blobs, manifest.to_string().as_bytes(), "application/vnd.oci.image.manifest.v1+json")?;
    let name = format!("enfilade:{}", package.version);
    let mut descriptor = manifest.descriptor();
    if let Some(fields) = descriptor.as_object_mut() {
        let named = json!({ "org.opencontainers.image.ref.name": package.version, "io.containerd.image.name": format!("localhost/{name}") });
        fields.insert("annotations".to_owned(), named);
    }
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor],
    });
    let of_docker = json!([{
        "Config": config.path(), "RepoTags": [format!("localhost/{name}")], "Layers": [layer.path()],
    }]);
    for (path, value) in [
        ("index.json", index),
        ("oci-layout", json!({ "imageLayoutVersion": "1.0.0" })),
        ("manifest.json", of_docker),
    ] {
        blobs.put(path, value.to_string().as_bytes(), 0o644)?;
    }
    blobs.open_directories()?;
    let archive = package.file_name(".oci.tar");
    pack(&blobs.0, &archive, &package.epoch)?;
    Ok(archive)
}

struct Blob {
    digest: String,
    size: usize,
    kind: &'static str,
}

impl Blob {
    /// Puts a file into the layout. The name of the file is its digest.
    fn put(blobs: &Tree, bytes: &[u8], kind: &'static str) -> Result<Self, String> {
        blobs.put("blobs/sha256/new", bytes, 0o644)?;
        let new = blobs.0.join("blobs/sha256/new");
        let blob = Blob { digest: sha256(&new)?, size: bytes.len(), kind };
        fs::rename(&new, blobs.0.join(blob.path())).map_err(|why| format!("`{}`: {why}", blob.path()))?;
        Ok(blob)
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self) -> Value {
        json!({ "mediaType": self.kind, "digest": format!("sha256:{}", self.digest), "size": self.size })
    }
}

/// How an engine runs the image. Only Docker knows `Healthcheck`, which is not in OCI's format. For other engines, operators must configure the same
/// command.
fn config(package: &Package, layer: &str) -> Result<Value, String> {
    let date = ["--utc", "--date", &format!("@{}", package.epoch), "+%Y-%m-%dT%H:%M:%SZ"];
    let printed = run_one(Command::new("date").args(date))?;
    let created = String::from_utf8_lossy(&printed).trim().to_owned();
    let user = format!("{USER}:{USER}");
    Ok(json!({
        "architecture": package.architecture, "os": "linux", "created": created,
        "config": {
            "User": user, "WorkingDir": format!("/{DATA}"), "StopSignal": "SIGTERM",
            "Entrypoint": ["/usr/bin/enfilade"], "Cmd": ["serve"],
            "Env": [
                "PATH=/usr/bin", "ENFILADE_DATA=/var/lib/enfilade", "ENFILADE_TLS__LISTEN=:8443",
            ],
            "ExposedPorts": { "8443/tcp": {} },
            "Volumes": { format!("/{DATA}"): {} },
            // Times are in nanoseconds.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/enfilade", "ready"],
                "Interval": 30_000_000_000_i64, "Timeout": 10_000_000_000_i64, "StartPeriod": 60_000_000_000_i64, "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "enfilade",
                "org.opencontainers.image.version": package.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": created, "created_by": "cargo xtask package" }],
    }))
}

/// Makes the layer: everything belongs to root, except the directory of the data.
fn layer(package: &Package) -> Result<PathBuf, String> {
    let tree = Tree::new(package.out.join("image/root"))?;
    for (path, text) in TEXTS {
        tree.put(path, text.as_bytes(), 0o644)?;
    }
    for path in OF_DEBIAN {
        tree.put(path, &read(&Path::new("/").join(path))?, 0o644)?;
    }
    for path in OF_PACKAGE {
        let mode = if path.starts_with("usr/bin/") { 0o755 } else { 0o644 };
        tree.put(path, &read(&package.tree.0.join(path))?, mode)?;
    }
    put_libraries(&tree, &package.tree.0.join("usr/bin/enfilade"))?;
    for place in DIRECTORIES {
        fs::create_dir_all(tree.0.join(place)).map_err(|why| format!("`{place}`: {why}"))?;
    }
    for (link, to) in LINKS {
        std::os::unix::fs::symlink(to, tree.0.join(link)).map_err(|why| format!("`{link}`: {why}"))?;
    }
    tree.open_directories()?;
    let layer = package.out.join("image/layer.tar");
    pack(&tree.0, &layer, &package.epoch)?;
    append_data(package, &layer)?;
    Ok(layer)
}

/// Appends the data directory. Its owner is the Unix user that runs the server.
fn append_data(package: &Package, layer: &Path) -> Result<(), String> {
    let place = Tree::new(package.out.join("image/data"))?;
    let data = place.0.join(DATA);
    let failed = |why| format!("`{}`: {why}", data.display());
    fs::create_dir_all(&data).map_err(failed)?;
    fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o700)).map_err(failed)?;
    let mut append = Command::new("tar");
    append.args(["--append", "--no-recursion", "--numeric-owner", "--format=gnu"]);
    append.args([
        format!("--owner={USER}"),
        format!("--group={USER}"),
        format!("--mtime=@{}", package.epoch),
    ]);
    append.arg("--file").arg(layer).arg("--directory").arg(&place.0).arg(DATA);
    run_one(&mut append).map(drop)
}

/// Copies the libraries that the program is linked with, and the loader, to the places where the loader looks for them.
fn put_libraries(tree: &Tree, program: &Path) -> Result<(), String> {
    let printed = run_one(Command::new("ldd").arg(program))?;
    let text = String::from_utf8_lossy(&printed).into_owned();
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    for path in paths {
        let merged = path.strip_prefix("/usr").unwrap_or(path);
        tree.put(&format!("usr{merged}"), &read(Path::new(path))?, 0o755)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|why| format!("`{}` cannot be read: {why}", path.display()))
}

/// Writes an archive that depends on nothing but the files and the time.
fn pack(place: &Path, archive: &Path, epoch: &str) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--numeric-owner", "--owner=0", "--group=0", "--format=gnu"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("--file").arg(archive).arg("--directory").arg(place);
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(place).map_err(|why| format!("`{}`: {why}", place.display()))? {
        let entry = entry.map_err(|why| why.to_string())?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    run_one(tar.args(names)).map(drop)
}
