//! The partition that a record will take. librdkafka computes it itself (`partitioner=murmur2_random`); here it is
//! computed ahead, because what may be sent depends on it.

use crate::message::MessageRef;

/// The partition of a message with a key, in a topic of so many partitions (at least 1). Without a key the client
/// draws one, unless the message names it.
pub(super) fn partition(message: &MessageRef<'_>, key: &[u8], partitions: i32) -> i32 {
    let by_key = || (murmur2(key) & 0x7fff_ffff).cast_signed() % partitions.max(1);
    message.partition.unwrap_or_else(by_key)
}

/// 32-bit MurmurHash2 with Kafka's seed, as Java clients compute it.
fn murmur2(key: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let (words, tail) = key.as_chunks::<4>();
    let mut hash = SEED ^ key.len() as u32;
    for word in words {
        let mixed = u32::from_le_bytes(*word).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (mixed ^ (mixed >> 24)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (place, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of Java's `Utils.murmur2`.
    #[test]
    fn hashes_are_those_of_java() {
        let text = b"PreAmbleWillBeRemoved,ThePrePartThatIs".as_slice();
        for (key, hash) in [
            (b"kafka".as_slice(), 0xd067_cf64),
            (b"giberish123456789", 0x8f55_2b0c),
            (b"1234", 0x9fc9_7b14),
            (b"234", 0xe7c0_09ca),
            (b"34", 0x8739_30da),
            (b"4", 0x5a4b_5ca1),
            (text, 0x7842_4f1c),
            (&text[1..], 0x4a62_b377),
            (&text[2..], 0xe0e4_e09e),
            (&text[3..], 0x62b8_b43f),
            (b"", 0x106e_08d9),
        ] {
            assert_eq!(murmur2(key), hash, "{key:?}");
        }
    }
}
