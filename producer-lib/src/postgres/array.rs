//! PostgreSQL's text form of a one-dimensional array: how one row's headers travel inside an array of rows.

use std::fmt::Write as _;

/// Header names as the text of a `text[]`; `None` without headers.
pub(crate) fn names(headers: &[(String, Option<Vec<u8>>)]) -> Option<String> {
    list(headers, |out, (name, _)| quoted(out, name))
}

/// Header values as the text of a `bytea[]`, null and empty kept apart; `None` without headers.
pub(crate) fn values(headers: &[(String, Option<Vec<u8>>)]) -> Option<String> {
    list(headers, |out, (_, value)| match value {
        None => out.push_str("NULL"),
        Some(bytes) => hex(out, bytes),
    })
}

fn list<T>(items: &[T], write: impl Fn(&mut String, &T)) -> Option<String> {
    if items.is_empty() {
        return None;
    }
    let mut out = String::from("{");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(&mut out, item);
    }
    out.push('}');
    Some(out)
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// `"\\x..."`: the backslash of bytea's hex form, escaped for the array.
fn hex(out: &mut String, bytes: &[u8]) {
    out.push_str("\"\\\\x");
    for byte in bytes {
        // writing to a String can't fail
        let _ = write!(out, "{byte:02x}");
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_text() {
        let headers =
            [("a\"b\\c".to_owned(), None), ("NULL".to_owned(), Some(Vec::new())), (String::new(), Some(vec![0, 255]))];
        assert_eq!(names(&headers).as_deref(), Some(r#"{"a\"b\\c","NULL",""}"#));
        assert_eq!(values(&headers).as_deref(), Some(r#"{NULL,"\\x","\\x00ff"}"#));
        assert_eq!((names(&[]), values(&[])), (None, None));
    }
}
