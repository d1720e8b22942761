//! Randomness of the tests: suffixes that keep tests apart, and ports. Seeds of randomised tests are
//! printed by the tests themselves.

/// Ten random characters out of `a-z0-9`, fit for the name of a database or a topic.
pub fn suffix() -> String {
    #[allow(clippy::disallowed_methods, reason = "the home of randomness in tests")]
    std::iter::repeat_with(|| fastrand::alphanumeric().to_ascii_lowercase()).take(10).collect()
}

/// A random seed, for a generator that the test prints and can be given again.
pub fn seed() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "the home of randomness in tests")]
    fastrand::u64(..)
}

/// 128 random bits: an id that nobody has given before.
pub fn bits() -> u128 {
    #[allow(clippy::disallowed_methods, reason = "the home of randomness in tests")]
    fastrand::u128(..)
}

/// A TCP port on loopback that nobody listened on a moment ago. It lies below the range from which
/// systems take the ports of outgoing connections, so that none of those takes it before its server does.
///
/// # Panics
/// When a thousand ports in a row were taken.
pub fn free_port() -> u16 {
    for _ in 0..1000 {
        #[allow(clippy::disallowed_methods, reason = "the home of randomness in tests")]
        let port = fastrand::u16(12_000..32_000);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between 12000 and 32000 on loopback: stop what listens there");
}
