//! Error codes are promises: they change only together with `error_codes.txt`, on purpose.

use onescribe::protocol::error::Code;

const PROMISED: &str = include_str!("error_codes.txt");

#[test]
fn error_codes_are_the_promised_ones() {
    let present: Vec<String> = Code::ALL
        .iter()
        .map(|code| {
            format!(
                "{} {} {}",
                code.as_str(),
                code.status(),
                if code.retryable() { "retry" } else { "final" }
            )
        })
        .collect();
    let promised: Vec<&str> = PROMISED.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        present, promised,
        "clients rely on tests/architecture/error_codes.txt; change it only on purpose"
    );
}

#[test]
fn every_code_says_what_it_is() {
    for code in Code::ALL {
        assert!(!code.title().is_empty() && code.title().len() <= 40, "{code:?}");
        let retryable = matches!(code.status(), 429 | 503);
        assert_eq!(
            code.retryable(),
            retryable,
            "{code:?}: exactly 429 and 503 are worth a retry"
        );
    }
}
