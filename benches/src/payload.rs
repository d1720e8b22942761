//! The messages of a measurement: each carries a stamp, so that whoever reads the topic can tell what
//! was lost, repeated or misordered without keeping the messages.

/// What a payload says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Part of the measurement: the warm-up and the measured messages differ in it.
    pub(crate) run: u32,
    /// Number of the message within the run, from 0 without gaps.
    pub(crate) number: u64,
    /// Number of the key.
    pub(crate) key: u32,
    /// Number of the message within run and key, from 1 without gaps.
    pub(crate) seq: u32,
}

const RUN: &str = r#"{"run":""#;
const NUMBER: &str = r#"","number":""#;
const KEY: &str = r#"","key":""#;
const SEQ: &str = r#"","seq":""#;
const RUN_AT: usize = RUN.len();
const NUMBER_AT: usize = RUN_AT + 8 + NUMBER.len();
const KEY_AT: usize = NUMBER_AT + 16 + KEY.len();
const SEQ_AT: usize = KEY_AT + 8 + SEQ.len();
const STAMP_BYTES: usize = SEQ_AT + 8;
const END: &str = r#""}"#;
/// Fields of the filler, so that payloads compress as events do: names alike, values not.
const FIELDS: [&str; 4] = [r#"","order_id":""#, r#"","customer_id":""#, r#"","shipment_id":""#, r#"","revision":""#];
const VALUE_DIGITS: usize = 24;

/// Shortest payload that holds a stamp.
pub(crate) const BYTES_MIN: usize = STAMP_BYTES + END.len();

impl Stamp {
    /// A JSON payload of exactly `bytes` (at least [`BYTES_MIN`]): the stamp, then fields of random digits.
    pub(crate) fn payload(&self, bytes: usize, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes + VALUE_DIGITS);
        for (name, value, digits) in [
            (RUN, u64::from(self.run), 8),
            (NUMBER, self.number, 16),
            (KEY, u64::from(self.key), 8),
            (SEQ, u64::from(self.seq), 8),
        ] {
            out.extend_from_slice(name.as_bytes());
            push_hex(&mut out, value, digits);
        }
        let body = bytes.max(BYTES_MIN) - END.len();
        for field in FIELDS.iter().cycle() {
            if out.len() >= body {
                break;
            }
            out.extend_from_slice(field.as_bytes());
            push_hex(&mut out, random.u64(..), 16);
            push_hex(&mut out, random.u64(..), VALUE_DIGITS - 16);
        }
        out.truncate(body);
        out.extend_from_slice(END.as_bytes());
        out
    }

    /// The stamp of a payload; `None` for one that the bench did not write.
    pub(crate) fn read(payload: &[u8]) -> Option<Stamp> {
        let head = std::str::from_utf8(payload.get(..STAMP_BYTES)?).ok()?;
        let hex = |at: usize, digits: usize| u64::from_str_radix(head.get(at..at + digits)?, 16).ok();
        let short = |at| hex(at, 8).map(|value| value as u32);
        if !head.starts_with(RUN) {
            return None;
        }
        Some(Stamp { run: short(RUN_AT)?, number: hex(NUMBER_AT, 16)?, key: short(KEY_AT)?, seq: short(SEQ_AT)? })
    }
}

fn push_hex(out: &mut Vec<u8>, value: u64, digits: usize) {
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (place * 4)) as usize & 15]);
    }
}

/// The Kafka key of a key's number.
pub(crate) fn key_text(key: u32) -> String {
    format!("key-{key:08}")
}

/// Endless messages of one run: keys drawn at random, sequence numbers per key.
pub(crate) struct Feed {
    run: u32,
    bytes: usize,
    next: u64,
    first_key: u32,
    seqs: Vec<u32>,
    random: fastrand::Rng,
}

impl Feed {
    /// Keys are `first_key` up to `first_key + keys`; the same arguments give the same messages.
    pub(crate) fn new(run: u32, first_key: u32, keys: u32, bytes: usize) -> Self {
        let random = fastrand::Rng::with_seed(u64::from(run) << 32 | u64::from(first_key));
        Feed { run, bytes, next: 0, first_key, seqs: vec![0; keys.max(1) as usize], random }
    }

    /// The next message under the next number of its own.
    pub(crate) fn next(&mut self) -> (Stamp, Vec<u8>) {
        let number = self.next;
        self.next += 1;
        self.numbered(number)
    }

    /// The next message under a number that the caller counts (several feeds of one run share numbers).
    pub(crate) fn numbered(&mut self, number: u64) -> (Stamp, Vec<u8>) {
        let index = self.random.usize(..self.seqs.len());
        self.seqs[index] += 1;
        let stamp = Stamp { run: self.run, number, key: self.first_key + index as u32, seq: self.seqs[index] };
        (stamp, stamp.payload(self.bytes, &mut self.random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_its_size_and_tells_its_stamp() {
        let mut random = fastrand::Rng::with_seed(1);
        let stamp = Stamp { run: 7, number: u64::MAX - 1, key: 9_999, seq: 3 };
        for bytes in [BYTES_MIN, BYTES_MIN + 1, 300, 4_000] {
            let payload = stamp.payload(bytes, &mut random);
            assert_eq!(payload.len(), bytes);
            assert_eq!(Stamp::read(&payload), Some(stamp));
        }
        assert_eq!(Stamp::read(b"{}"), None);
        assert_eq!(Stamp::read(&[b'x'; 300]), None);
    }

    #[test]
    fn a_feed_numbers_messages_and_keys_without_gaps() {
        let mut feed = Feed::new(1, 40, 4, 300);
        let mut seqs = [0; 4];
        for number in 0..100 {
            let (stamp, _) = feed.next();
            assert_eq!(stamp.number, number);
            let seq = &mut seqs[stamp.key as usize - 40];
            *seq += 1;
            assert_eq!(stamp.seq, *seq);
        }
    }
}
