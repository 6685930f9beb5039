//! What bytes look like.

use crate::domain::MediaType;

/// So much of the start of a file is looked at.
pub(super) const HEAD_BYTES: usize = 16 * 1024;

/// The type that the start of a file shows; `None` where it shows none.
pub(super) fn sniff(head: &[u8]) -> Option<MediaType> {
    // Whatever opens with a tag is read as a page by somebody: pages, drawings, feeds.
    if opens_with_tag(head) {
        return MediaType::parse("text/html");
    }
    infer::get(head).and_then(|kind| MediaType::parse(kind.mime_type()))
}

fn opens_with_tag(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let after = text.strip_prefix(b"<").and_then(|rest| rest.first());
    after.is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'!' | b'?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniffed(head: &[u8]) -> String {
        MediaType::judged(None, sniff(head)).to_string()
    }

    #[test]
    fn common_types_are_known_by_their_bytes() {
        for (head, kind) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], "image/png"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
            (b"GIF89a\x01\0\x01\0", "image/gif"),
            (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
            (b"%PDF-1.7\n", "application/pdf"),
            (b"PK\x03\x04\x14\0\0\0", "application/zip"),
            (b"OggS\0\x02\0\0\0\0\0\0", "audio/ogg"),
            (b"ID3\x04\0\0\0\0", "audio/mpeg"),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "application/x-executable"),
            (b"just words", "application/octet-stream"),
            (b"", "application/octet-stream"),
        ] {
            assert_eq!(sniffed(head), kind, "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn pages_and_drawings_have_no_type_however_they_begin() {
        for head in [
            &b"<html><script>alert(1)</script>"[..],
            b"  \n\t<!doctype html>",
            b"\xEF\xBB\xBF<script>",
            b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
            b"<?xml version='1.0'?><svg/>",
            b"<!-- a comment --><svg/>",
            b"<x>",
        ] {
            let declared = MediaType::parse("image/png");
            assert_eq!(MediaType::judged(declared, sniff(head)), MediaType::default());
        }
        assert_eq!(sniff(b"< 5 and > 3"), None);
    }
}
