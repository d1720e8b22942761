//! One row of the log, borrowed from the connection's buffer. Header arrays are read from PostgreSQL's
//! binary array format in place: sqlx can't lend an array's elements.

use std::ops::ControlFlow;
use std::str::from_utf8;

use sqlx::postgres::PgRow;
use sqlx::{Row, ValueRef};
use uuid::Uuid;

use crate::message::MessageRef;

/// Takes messages; may break before one.
pub(super) type Take<'t> = &'t mut dyn FnMut(&MessageRef<'_>) -> ControlFlow<()>;

/// Headers that need no allocation.
const HEADERS_INLINE: usize = 16;

/// Microseconds from the Unix epoch to PostgreSQL's, 2000-01-01.
const EPOCH_US: i64 = 946_684_800_000_000;

/// What of a row could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RowError {
    /// Its id; 0 if that was it.
    pub id: i64,
    /// The column.
    pub column: &'static str,
}

type Header<'r> = (&'r str, Option<&'r [u8]>);

/// Lends a row to `take`. Returns its id and its bytes, and whether `take` broke before it.
pub(super) fn lend(row: &PgRow, take: Take<'_>) -> Result<(i64, usize, ControlFlow<()>), RowError> {
    let (message, headers) = message(row)?;
    let Some((keys, values)) = headers else {
        return Ok((message.id, message.size_bytes(), take(&message)));
    };
    let wrong = || RowError { id: message.id, column: "header_keys, header_values" };
    let (mut keys, mut values) = (Elements::new(keys).ok_or_else(wrong)?, Elements::new(values).ok_or_else(wrong)?);
    if keys.left != values.left {
        return Err(wrong());
    }
    let (mut inline, mut spilled) = ([("", None); HEADERS_INLINE], Vec::new());
    let headers = collect(&mut keys, &mut values, &mut inline, &mut spilled).ok_or_else(wrong)?;
    let message = MessageRef { headers, ..message };
    Ok((message.id, message.size_bytes(), take(&message)))
}

/// Pairs names and values up.
fn collect<'r, 'b>(
    keys: &mut Elements<'r>,
    values: &mut Elements<'r>,
    inline: &'b mut [Header<'r>; HEADERS_INLINE],
    spilled: &'b mut Vec<Header<'r>>,
) -> Option<&'b [Header<'r>]> {
    let count = keys.left;
    let buffer: &mut [Header<'r>] = if count <= HEADERS_INLINE {
        &mut inline[..count]
    } else {
        // each element takes four bytes at least: a wrong count can't ask for much
        spilled.resize(count.min(keys.rest.len() / 4), ("", None));
        spilled
    };
    for header in buffer.iter_mut() {
        *header = (from_utf8(keys.next()??).ok()?, values.next()?);
    }
    (buffer.len() == count).then_some(buffer)
}

/// The row without its headers, and the two header arrays if it has any.
#[allow(clippy::type_complexity, reason = "two arrays")]
fn message<'r>(row: &'r PgRow) -> Result<(MessageRef<'r>, Option<(&'r [u8], &'r [u8])>), RowError> {
    let id = fixed(row, 0).map(i64::from_be_bytes).ok_or(RowError { id: 0, column: "id" })?;
    let wrong = |column| move || RowError { id, column };
    let text = |index, column| bytes(row, index).and_then(|b| from_utf8(b).ok()).ok_or_else(wrong(column));
    let slot = fixed(row, 1).map(i16::from_be_bytes).and_then(|slot| u8::try_from(slot).ok());
    let message = MessageRef {
        id,
        slot: slot.ok_or_else(wrong("slot"))?,
        message_id: fixed(row, 2).map(Uuid::from_bytes).ok_or_else(wrong("message_id"))?,
        tenant: text(3, "tenant")?,
        topic: text(4, "topic")?,
        key: bytes(row, 5),
        partition: fixed(row, 6).map(i32::from_be_bytes),
        kind: text(7, "type")?,
        content_type: bytes(row, 8).map(from_utf8).transpose().map_err(|_| RowError { id, column: "content_type" })?,
        headers: &[],
        payload: bytes(row, 11),
        event_time_us: fixed(row, 12).map(unix_us),
        created_at_us: fixed(row, 13).map(unix_us).ok_or_else(wrong("created_at"))?,
    };
    match (bytes(row, 9), bytes(row, 10)) {
        (Some(keys), Some(values)) => Ok((message, Some((keys, values)))),
        (None, None) => Ok((message, None)),
        _ => Err(RowError { id, column: "header_keys, header_values" }),
    }
}

/// About how many bytes a row takes on the wire.
pub(super) fn weight(row: &PgRow) -> usize {
    [5, 10, 11].into_iter().filter_map(|index| bytes(row, index)).map(<[u8]>::len).sum()
}

/// A timestamp's binary form as Unix microseconds; the infinities stay at the ends.
fn unix_us(binary: [u8; 8]) -> i64 {
    i64::from_be_bytes(binary).saturating_add(EPOCH_US)
}

/// A column's bytes; `None` where it is null.
fn bytes(row: &PgRow, index: usize) -> Option<&[u8]> {
    let value = row.try_get_raw(index).ok()?;
    if value.is_null() {
        return None;
    }
    value.as_bytes().ok()
}

/// A column of exactly `N` bytes.
fn fixed<const N: usize>(row: &PgRow, index: usize) -> Option<[u8; N]> {
    bytes(row, index)?.try_into().ok()
}

/// Elements of an array of one dimension in binary form: dimensions, null flag, element type, then
/// length and lower bound of the dimension, then each element's length (-1: null) and bytes.
struct Elements<'r> {
    left: usize,
    rest: &'r [u8],
}

impl<'r> Elements<'r> {
    fn new(mut rest: &'r [u8]) -> Option<Self> {
        let dimensions = int(&mut rest)?;
        rest = rest.get(8..)?;
        if dimensions == 0 {
            return Some(Elements { left: 0, rest });
        }
        let left = usize::try_from(int(&mut rest)?).ok()?;
        (dimensions == 1).then_some(Elements { left, rest: rest.get(4..)? })
    }

    /// The next element. The outer `None`: there is none, or the bytes end early.
    #[allow(clippy::option_option, reason = "absent is not null")]
    fn next(&mut self) -> Option<Option<&'r [u8]>> {
        self.left = self.left.checked_sub(1)?;
        match int(&mut self.rest)? {
            -1 => Some(None),
            length => {
                let (element, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
                self.rest = rest;
                Some(Some(element))
            }
        }
    }
}

fn int(rest: &mut &[u8]) -> Option<i32> {
    let (int, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(i32::from_be_bytes(*int))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(elements: &[Option<&[u8]>]) -> Vec<u8> {
        let mut binary = Vec::new();
        for int in [1, 0, 17, i32::try_from(elements.len()).expect("few"), 1] {
            binary.extend(i32::to_be_bytes(int));
        }
        for element in elements {
            let length = element.map_or(-1, |e| i32::try_from(e.len()).expect("short"));
            binary.extend(length.to_be_bytes());
            binary.extend(element.unwrap_or_default());
        }
        binary
    }

    fn read(keys: &[u8], values: &[u8]) -> Option<Vec<(String, Option<Vec<u8>>)>> {
        let (mut keys, mut values) = (Elements::new(keys)?, Elements::new(values)?);
        let (mut inline, mut spilled) = ([("", None); HEADERS_INLINE], Vec::new());
        let headers = collect(&mut keys, &mut values, &mut inline, &mut spilled)?;
        Some(headers.iter().map(|(k, v)| ((*k).to_owned(), v.map(<[u8]>::to_vec))).collect())
    }

    #[test]
    fn b100_headers_keep_order_repeats_nulls_and_empties() {
        let keys = array(&[Some(b"a"), Some(b"b"), Some(b"a"), Some("ключ".as_bytes())]);
        let values = array(&[Some(b"1"), None, Some(b""), Some(&[0xfe, 0xff, 0])]);
        let headers = read(&keys, &values).expect("headers");
        let expected: [(&str, Option<&[u8]>); 4] =
            [("a", Some(b"1")), ("b", None), ("a", Some(b"")), ("ключ", Some(&[0xfe, 0xff, 0]))];
        assert_eq!(headers, expected.map(|(k, v)| (k.to_owned(), v.map(<[u8]>::to_vec))));
        assert_eq!(read(&0_i32.to_be_bytes().repeat(3), &0_i32.to_be_bytes().repeat(3)), Some(vec![]));
    }

    #[test]
    fn more_headers_than_fit_inline() {
        let many: Vec<Option<&[u8]>> = vec![Some(b"x"); 128];
        assert_eq!(read(&array(&many), &array(&many)).expect("headers").len(), 128);
    }

    #[test]
    fn bytes_that_end_early_are_an_error_and_never_a_panic() {
        let (keys, values) = (array(&[Some(b"a"), Some(b"b")]), array(&[Some(b"1"), Some(b"2")]));
        for end in 0..keys.len() {
            assert_eq!(read(&keys[..end], &values), None, "keys cut at {end}");
            assert_eq!(read(&keys, &values[..end]), None, "values cut at {end}");
        }
        let mut huge = keys.clone();
        huge[12..16].copy_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(read(&huge, &huge), None);
        huge[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
        assert_eq!(read(&huge, &huge), None);
        assert_eq!(read(&array(&[None]), &array(&[None])), None, "a name is never null");
        assert_eq!(read(&array(&[Some(&[0xff])]), &array(&[None])), None, "a name is UTF-8");
    }

    #[test]
    fn infinite_times_stay_at_the_ends() {
        assert_eq!(unix_us(0_i64.to_be_bytes()), EPOCH_US);
        assert_eq!(unix_us(i64::MAX.to_be_bytes()), i64::MAX);
    }
}
