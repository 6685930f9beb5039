//! What a file is called: for people, never a path and never a key.

use super::error::InvalidField;

/// The longest name, in bytes; longer ones lose their middle and keep their ending.
pub const FILE_NAME_BYTES_MAX: usize = 255;
/// An ending longer than this is no ending.
const ENDING_BYTES_MAX: usize = 32;
/// What a file is called whose name has nothing that can stay.
const NAMELESS: &str = "file";

/// A name that can be shown anywhere: the last part of a path, without characters that control or turn what is around
/// them (`gnp.exe` shown as `exe.png`), at most [`FILE_NAME_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(String);

impl FileName {
    /// Makes a name of whatever a client says; only a NUL is refused, as it is everywhere.
    ///
    /// # Errors
    /// A NUL in it.
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        if text.contains('\0') {
            return Err(InvalidField::new("name", "must not contain NUL"));
        }
        let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
        let shown: String = last.chars().filter(|c| !is_hidden(*c)).collect();
        let shown = shown.trim().trim_end_matches(['.', ' ']);
        let name = if shown.is_empty() { NAMELESS } else { shown };
        Ok(Self(shortened(name)))
    }

    /// As it is shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for FileName {
    fn default() -> Self {
        Self(NAMELESS.to_owned())
    }
}

/// Controls, marks of writing direction, line and paragraph separators, and the mark of byte order. Joiners stay: names
/// in Persian and families of emoji need them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}')
}

fn shortened(name: &str) -> String {
    if name.len() <= FILE_NAME_BYTES_MAX {
        return name.to_owned();
    }
    let ending = name.rfind('.').and_then(|at| name.get(at..)).unwrap_or_default();
    let ending = if ending.len() > ENDING_BYTES_MAX { "" } else { ending };
    let mut end = FILE_NAME_BYTES_MAX - ending.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let start = name.get(..end).unwrap_or_default();
    format!("{start}{ending}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> String {
        FileName::parse(text).unwrap().0
    }

    #[test]
    fn names_stay_as_they_are_in_every_language() {
        for same in [
            "报告 final.pdf",
            "отчёт.txt",
            "👨‍👩‍👧‍👦.png",
            ".bashrc",
            "a..b",
            "می‌خواهم.doc",
            "%2e%2e%2f",
            "a'b\"c;d=e,f.txt",
        ] {
            assert_eq!(name(same), same);
        }
    }

    #[test]
    fn only_the_last_part_of_a_path_is_a_name() {
        for (text, kept) in [
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\me\\photo.jpg", "photo.jpg"),
            ("a/b\\..", "file"),
            ("..", "file"),
            (".", "file"),
            ("/", "file"),
            ("", "file"),
            ("  .  ", "file"),
            ("x/", "file"),
            ("name. . .", "name"),
        ] {
            assert_eq!(name(text), kept, "{text}");
        }
    }

    #[test]
    fn what_turns_or_hides_the_text_around_it_goes_and_nul_is_refused() {
        assert_eq!(name("photo\u{202E}gnp.exe"), "photognp.exe");
        assert_eq!(name("\u{2066}a\u{2069}\u{200F}\u{061C}b\u{FEFF}"), "ab");
        assert_eq!(name("a\r\nSet-Cookie: x\u{85}\u{2028}.txt"), "aSet-Cookie: x.txt");
        assert!(FileName::parse("a\0.txt").is_err());
    }

    #[test]
    fn a_long_name_keeps_its_ending() {
        let long = format!("{}.tar.gz", "报".repeat(200));
        let kept = name(&long);
        assert!(kept.len() <= FILE_NAME_BYTES_MAX && kept.len() > FILE_NAME_BYTES_MAX - 3);
        assert!(kept.ends_with("报.gz"), "{kept}");
        assert_eq!(name(&format!("a.{}", "x".repeat(300))).len(), FILE_NAME_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn a_name_is_short_harmless_and_stays_itself(text in "\\PC*|[./\\\\\u{202A}-\u{202E}a-c\r\n ]{0,20}|\\PC{200,300}") {
            let once = name(&text);
            prop_assert!(!once.is_empty() && once.len() <= FILE_NAME_BYTES_MAX);
            prop_assert!(!once.contains(['/', '\\', '\r', '\n']) && once != "..");
            prop_assert_eq!(name(&once), once);
        }
    }
}
