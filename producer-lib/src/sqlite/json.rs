//! A message's headers as SQLite holds them: two JSON arrays, names as texts, values as hexadecimal digits or null.

use std::fmt::Write as _;

type Headers = [(String, Option<Vec<u8>>)];

/// Header names; `None` without headers.
pub(crate) fn names(headers: &Headers) -> Option<String> {
    list(headers, |out, (name, _)| text(out, name))
}

/// Header values, null and empty kept apart; `None` without headers.
pub(crate) fn values(headers: &Headers) -> Option<String> {
    list(headers, |out, (_, value)| match value {
        None => out.push_str("null"),
        Some(bytes) => hex(out, bytes),
    })
}

fn list<T>(items: &[T], write: impl Fn(&mut String, &T)) -> Option<String> {
    if items.is_empty() {
        return None;
    }
    let mut out = String::from("[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(&mut out, item);
    }
    out.push(']');
    Some(out)
}

/// A name has no control character: it was checked.
fn text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

fn hex(out: &mut String, bytes: &[u8]) {
    out.push('"');
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
    fn json_text() {
        let headers =
            [("a\"b\\c".to_owned(), None), ("ключ".to_owned(), Some(Vec::new())), (String::new(), Some(vec![0, 255]))];
        assert_eq!(names(&headers).as_deref(), Some(r#"["a\"b\\c","ключ",""]"#));
        assert_eq!(values(&headers).as_deref(), Some(r#"[null,"","00ff"]"#));
        assert_eq!((names(&[]), values(&[])), (None, None));
    }
}
