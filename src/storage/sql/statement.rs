//! The macros with which one text serves three databases.

/// A statement written once with `?`; rewritten at most once per place for databases that number their markers.
macro_rules! sql {
    ($text:expr) => {{
        static NUMBERED: std::sync::LazyLock<String> =
            std::sync::LazyLock::new(|| $crate::storage::sql::statement::numbered($text));
        if DB::NUMBERED { NUMBERED.as_str() } else { $text }
    }};
}

/// Adds the bounds that generic statements need, which no trait alias can imply: what can be bound, read and run.
macro_rules! sql_impl {
    (impl $trait:ident for $type:ident { $($body:tt)* }) => {
        sql_impl!(@emit [#[async_trait::async_trait] impl<DB: Dialect> $trait for $type<DB>] { $($body)* });
    };
    (impl $type:ident { $($body:tt)* }) => {
        sql_impl!(@emit [impl<DB: Dialect> $type<DB>] { $($body)* });
    };
    (impl $type:ident<$life:lifetime> { $($body:tt)* }) => {
        sql_impl!(@emit [impl<$life, DB: Dialect> $type<$life, DB>] { $($body)* });
    };
    ($(#[$meta:meta])* async fn $name:ident($($args:tt)*) -> $result:ty { $($body:tt)* }) => {
        sql_impl!(@emit [$(#[$meta])* pub(super) async fn $name<DB: Dialect>($($args)*) -> $result] { $($body)* });
    };
    ($(#[$meta:meta])* fn $name:ident($($args:tt)*) -> $result:ty { $($body:tt)* }) => {
        sql_impl!(@emit [$(#[$meta])* pub(super) fn $name<DB: Dialect>($($args)*) -> $result] { $($body)* });
    };
    (@emit [$($head:tt)*] { $($body:tt)* }) => {
        $($head)*
        where
            i16: sqlx::Type<DB> + for<'a> sqlx::Encode<'a, DB> + for<'a> sqlx::Decode<'a, DB>,
            i64: sqlx::Type<DB> + for<'a> sqlx::Encode<'a, DB> + for<'a> sqlx::Decode<'a, DB>,
            bool: sqlx::Type<DB> + for<'a> sqlx::Encode<'a, DB> + for<'a> sqlx::Decode<'a, DB>,
            String: sqlx::Type<DB> + for<'a> sqlx::Encode<'a, DB> + for<'a> sqlx::Decode<'a, DB>,
            Vec<u8>: sqlx::Type<DB> + for<'a> sqlx::Encode<'a, DB> + for<'a> sqlx::Decode<'a, DB>,
            for<'a> &'a str: sqlx::Type<DB> + sqlx::Encode<'a, DB>,
            for<'a> &'a [u8]: sqlx::Type<DB> + sqlx::Encode<'a, DB>,
            for<'a> Option<i16>: sqlx::Encode<'a, DB>,
            for<'a> Option<i64>: sqlx::Encode<'a, DB>,
            for<'a> Option<&'a str>: sqlx::Encode<'a, DB>,
            for<'a> Option<&'a [u8]>: sqlx::Encode<'a, DB>,
            usize: sqlx::ColumnIndex<DB::Row>,
            DB::Arguments: sqlx::IntoArguments<DB>,
            for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
        { $($body)* }
    };
}

/// `?` becomes `$1`, `$2`, … Our statements have no `?` inside a literal.
pub(super) fn numbered(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut number = 0_usize;
    for part in text.split_inclusive('?') {
        match part.strip_suffix('?') {
            Some(before) => {
                number += 1;
                out.push_str(before);
                out.push('$');
                out.push_str(&number.to_string());
            }
            None => out.push_str(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn markers_are_numbered_from_one() {
        assert_eq!(
            super::numbered("a = ? AND b IN (?, ?) -- end"),
            "a = $1 AND b IN ($2, $3) -- end"
        );
        assert_eq!(super::numbered("SELECT 1"), "SELECT 1");
    }
}
