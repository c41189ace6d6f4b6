//! The files that pages load: the stylesheet, the scripts and the icon. The URL of each file contains a digest of its content. So browsers may cache
//! the files.

use enfilade_faces::{Answer, Body};
use enfilade_facts::vocabulary::to_hex;
use enfilade_passage::secret_digest;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use std::sync::LazyLock;

/// A file that pages load.
pub(crate) struct Asset {
    /// The last segment of the URL of the file.
    name: String,
    kind: &'static str,
    content: &'static str,
}

/// The stylesheet.
pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "css", "text/css; charset=utf-8", include_str!("assets/console.css"))
});
/// The script. Only uploads, passkeys, and the comparison of earlier rights with present rights need the script.
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "js", "text/javascript; charset=utf-8", include_str!("assets/console.js"))
});
/// The script of the pages that guests open with links. Only uploads of guests need this script.
pub(crate) static GUEST_SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("guest", "js", "text/javascript; charset=utf-8", include_str!("assets/guest.js"))
});
/// The icon of the browser's tab.
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")));

impl Asset {
    fn new(stem: &str, ending: &str, kind: &'static str, content: &'static str) -> Self {
        let digest = to_hex(&secret_digest(content.as_bytes()).0);
        let name = format!("{stem}-{}.{ending}", digest.get(..16).unwrap_or_default());
        Asset { name, kind, content }
    }

    /// The URL of the file.
    pub(crate) fn url(&self) -> String {
        format!("/console/assets/{}", self.name)
    }
}

/// The file with this name; `None` if there is no such file.
pub(crate) fn asset(name: &str) -> Option<Answer> {
    let asset = [&*STYLE, &*SCRIPT, &*GUEST_SCRIPT, &*ICON].into_iter().find(|asset| asset.name == name)?;
    let mut answer = Response::new(Body::from(asset.content));
    for (header, value) in [
        (CONTENT_TYPE, asset.kind),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        answer.headers_mut().insert(header, HeaderValue::from_static(value));
    }
    Some(answer)
}
