//! How a browser is told what to do with a file, and what to call it.

use actix_web::http::header::{Charset, ContentDisposition, DispositionParam, DispositionType, ExtendedValue};

/// The text of `Content-Disposition`: shown in place, or saved. The name is there twice: as it is (RFC 8187), and in plain
/// ASCII for those who do not read that.
pub(super) fn disposition(name: &str, shown: bool) -> String {
    let kind = if shown {
        DispositionType::Inline
    } else {
        DispositionType::Attachment
    };
    let plain: String = name.chars().map(plain).collect();
    let mut parameters = vec![DispositionParam::Filename(plain.clone())];
    if plain != name {
        parameters.push(DispositionParam::FilenameExt(ExtendedValue {
            charset: Charset::Ext("UTF-8".to_owned()),
            language_tag: None,
            value: name.as_bytes().to_vec(),
        }));
    }
    let disposition = ContentDisposition {
        disposition: kind,
        parameters,
    };
    disposition.to_string()
}

/// Percent signs are decoded by some, quotes and backslashes escaped differently by others.
const fn plain(c: char) -> char {
    match c {
        '"' | '\\' | '%' => '_',
        ' '..='~' => c,
        _ => '_',
    }
}
