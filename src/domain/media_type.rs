//! What a file is: what its uploader says, as far as its bytes do not contradict and nothing can run in it.

use std::fmt;

/// The longest type, in bytes.
pub const MEDIA_TYPE_BYTES_MAX: usize = 127;

/// What is known of a file of which nothing is known.
const UNKNOWN: &str = "application/octet-stream";

/// A media type without parameters, in small letters: `image/png`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType(String);

/// Names of one and the same kind of bytes.
const FAMILIES: &[&[&str]] = &[
    &[
        "video/mp4",
        "video/x-m4v",
        "video/quicktime",
        "video/3gpp",
        "video/3gpp2",
        "audio/mp4",
        "audio/m4a",
        "audio/x-m4a",
    ],
    &["video/webm", "audio/webm", "video/x-matroska", "audio/x-matroska"],
    &["audio/ogg", "video/ogg", "application/ogg", "audio/opus"],
    &["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
    &["audio/flac", "audio/x-flac"],
    &["audio/aiff", "audio/x-aiff"],
    &["audio/aac", "audio/aacp", "audio/x-aac"],
    &["audio/mpeg", "audio/mp3"],
    &["audio/midi", "audio/x-midi"],
    &["image/jpeg", "image/jpg", "image/pjpeg"],
    &["image/heif", "image/heic", "image/heif-sequence", "image/heic-sequence"],
    &["image/bmp", "image/x-ms-bmp", "image/x-bmp"],
    &["image/vnd.microsoft.icon", "image/x-icon"],
    &["video/x-msvideo", "video/avi", "video/msvideo"],
    &[
        "application/gzip",
        "application/x-gzip",
        "application/x-tgz",
        "application/x-compressed-tar",
    ],
    &["application/vnd.rar", "application/x-rar-compressed"],
    &["font/woff", "font/woff2", "application/font-woff"],
    &[
        "font/otf",
        "font/ttf",
        "application/font-sfnt",
        "application/x-font-ttf",
    ],
    &[
        "application/x-executable",
        "application/x-sharedlib",
        "application/x-elf",
        "application/x-object",
    ],
    &[
        "application/vnd.microsoft.portable-executable",
        "application/x-msdownload",
        "application/x-dosexec",
    ],
    &["text/x-shellscript", "application/x-sh", "text/plain"],
    &[
        "application/x-x509-ca-cert",
        "application/x-pem-file",
        "application/pkix-cert",
        "text/plain",
    ],
];

/// What sniffing calls by another name than everybody else.
const USUAL: &[(&str, &str)] = &[
    ("audio/m4a", "audio/mp4"),
    ("audio/opus", "audio/ogg"),
    ("audio/x-aiff", "audio/aiff"),
    ("audio/x-flac", "audio/flac"),
    ("audio/x-wav", "audio/wav"),
    ("video/x-m4v", "video/mp4"),
];

/// Subtypes that a browser runs, or loads other things for.
const ACTIVE: &[&str] = &[
    "html",
    "xhtml",
    "xml",
    "xsl",
    "svg",
    "javascript",
    "x-javascript",
    "ecmascript",
    "x-ecmascript",
    "jscript",
    "livescript",
    "vbscript",
    "x-component",
    "x-shockwave-flash",
    "wasm",
    "mathml",
    "hta",
];

/// What may be shown in a page: it only has pixels or sound.
const SHOWN: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
    "image/bmp",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/ogg",
    "audio/opus",
    "audio/wav",
    "audio/webm",
    "audio/flac",
    "video/mp4",
    "video/webm",
    "video/ogg",
    "video/quicktime",
];

impl MediaType {
    /// Reads a type; parameters are dropped. `None` for what is none, or too long.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let token = |part: &str| {
            let first = part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
            first
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        let essence = text.split(';').next()?.trim();
        let (kind, subtype) = essence.split_once('/')?;
        let right = essence.len() <= MEDIA_TYPE_BYTES_MAX && token(kind) && token(subtype);
        right.then(|| Self(essence.to_ascii_lowercase()))
    }

    /// The type of a file: what was declared, unless its bytes say otherwise (`sniffed`), and never anything that a
    /// browser would run. Pictures have to be proved by their bytes.
    #[must_use]
    pub fn judged(declared: Option<Self>, sniffed: Option<Self>) -> Self {
        let declared = declared.filter(|declared| declared.0 != UNKNOWN);
        let judged = match (declared, sniffed) {
            (Some(declared), Some(sniffed)) if declared.agrees_with(&sniffed) => declared,
            (_, Some(sniffed)) => sniffed.usual(),
            (Some(declared), None) if !declared.0.starts_with("image/") => declared,
            (_, None) => Self::default(),
        };
        if judged.is_active() { Self::default() } else { judged }
    }

    /// Could bytes that look like `sniffed` be of this type?
    fn agrees_with(&self, sniffed: &Self) -> bool {
        let family = |family: &&[&str]| family.contains(&self.as_str()) && family.contains(&sniffed.as_str());
        self == sniffed || FAMILIES.iter().any(family) || self.is_packed_in(sniffed)
    }

    /// Documents are archives of other names: what sniffing tells of those is which of them it knows.
    fn is_packed_in(&self, sniffed: &Self) -> bool {
        let archive = |name: &str| {
            let documents = [
                "application/vnd.openxmlformats",
                "application/vnd.oasis.",
                "application/vnd.ms-",
            ];
            let named = [
                "zip",
                "epub+zip",
                "java-archive",
                "vnd.android.package-archive",
                "x-zip-compressed",
            ];
            documents.iter().any(|start| name.starts_with(start))
                || name
                    .strip_prefix("application/")
                    .is_some_and(|rest| named.contains(&rest) || rest.ends_with("+zip"))
        };
        let ole = |name: &str| {
            let named = ["msword", "x-ole-storage", "vnd.visio", "vnd.ms-outlook", "x-msi"];
            name.starts_with("application/vnd.ms-")
                || name
                    .strip_prefix("application/")
                    .is_some_and(|rest| named.contains(&rest))
        };
        (archive(&self.0) && archive(&sniffed.0)) || (ole(&self.0) && ole(&sniffed.0))
    }

    /// The usual name of what sniffing calls so.
    fn usual(self) -> Self {
        let usual = USUAL.iter().find(|(sniffed, _)| *sniffed == self.0);
        usual.map_or(self, |(_, usual)| Self((*usual).to_owned()))
    }

    /// Could a browser run it?
    #[must_use]
    pub fn is_active(&self) -> bool {
        let (kind, subtype) = self.0.split_once('/').unwrap_or_default();
        let name = subtype.split('+').next().unwrap_or_default();
        matches!(kind, "multipart" | "message") || subtype.ends_with("+xml") || ACTIVE.contains(&name)
    }

    /// May it be shown in place, instead of being saved?
    #[must_use]
    pub fn is_shown(&self) -> bool {
        SHOWN.contains(&self.as_str())
    }

    /// The text of a header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for MediaType {
    fn default() -> Self {
        Self(UNKNOWN.to_owned())
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<MediaType> {
        MediaType::parse(text)
    }

    #[test]
    fn a_type_is_two_words_in_small_letters() {
        assert_eq!(of("Image/PNG; charset=utf-8").unwrap().as_str(), "image/png");
        let long = format!("a/{}", "x".repeat(MEDIA_TYPE_BYTES_MAX));
        for bad in [
            "",
            "image",
            "image/",
            "/png",
            "a/b/c",
            "a b/c",
            "a/b\r\nX: y",
            "é/x",
            long.as_str(),
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn bytes_win_over_words() {
        for (declared, sniffed, judged) in [
            ("application/pdf", "", "application/pdf"),
            ("text/plain", "", "text/plain"),
            ("", "", "application/octet-stream"),
            ("image/png", "", "application/octet-stream"),
            ("image/png", "image/jpeg", "image/jpeg"),
            ("application/octet-stream", "image/jpeg", "image/jpeg"),
            ("image/jpg", "image/jpeg", "image/jpg"),
            ("audio/mp4", "video/mp4", "audio/mp4"),
            ("", "audio/m4a", "audio/mp4"),
            ("", "audio/x-wav", "audio/wav"),
            (
                "application/vnd.oasis.opendocument.text",
                "application/zip",
                "application/vnd.oasis.opendocument.text",
            ),
            ("text/plain", "application/zip", "application/zip"),
            (
                "application/pdf",
                "application/x-executable",
                "application/x-executable",
            ),
            ("text/html", "image/gif", "image/gif"),
        ] {
            assert_eq!(
                MediaType::judged(of(declared), of(sniffed)).as_str(),
                judged,
                "{declared} {sniffed}"
            );
        }
    }

    #[test]
    fn nothing_that_runs_has_a_type() {
        for active in [
            "text/html",
            "application/xhtml+xml",
            "image/svg+xml",
            "text/xml",
            "application/atom+xml",
            "text/javascript",
            "application/x-shockwave-flash",
            "multipart/related",
            "message/rfc822",
        ] {
            let judged = MediaType::judged(of(active), None);
            assert_eq!(judged, MediaType::default(), "{active}");
            assert!(!judged.is_shown());
            assert_eq!(
                MediaType::judged(of("image/png"), of(active)),
                MediaType::default(),
                "{active}"
            );
        }
        assert!(SHOWN.iter().all(|shown| !of(shown).unwrap().is_active()));
    }
}
