//! One request of Kafka's protocol that no client library offers here safely: CreateAcls, version 1.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Which way a rule goes.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// The user may.
    Allow,
    /// The user may not; beats every rule that allows.
    Deny,
}

const CREATE_ACLS: i16 = 30;
const VERSION: i16 = 1;
const TOPIC: u8 = 2;
const LITERAL: u8 = 3;
const WRITE: u8 = 4;
const DENY: u8 = 2;
const ALLOW: u8 = 3;

/// Adds the rule that `user` may (or may not) write to `topic`, from any host. The right to write brings the
/// right to describe.
///
/// # Panics
/// When the broker at `address` (`host:port`) does not answer within ten seconds, or refuses.
pub(crate) fn change(address: &str, change: Change, user: &str, topic: &str) {
    let mut body = Vec::new();
    body.extend(CREATE_ACLS.to_be_bytes());
    body.extend(VERSION.to_be_bytes());
    body.extend(1i32.to_be_bytes());
    text(&mut body, "fencepost-test");
    body.extend(1i32.to_be_bytes());
    body.push(TOPIC);
    text(&mut body, topic);
    body.push(LITERAL);
    text(&mut body, &format!("User:{user}"));
    text(&mut body, "*");
    body.push(WRITE);
    body.push(match change {
        Change::Allow => ALLOW,
        Change::Deny => DENY,
    });
    let answer = exchange(address, &body).unwrap_or_else(|e| panic!("no answer to a change of ACLs: {e}"));
    // correlation id, throttle time, number of results, error code of the first
    let code = answer.get(12..14).map(|bytes| i16::from_be_bytes([bytes[0], bytes[1]]));
    assert_eq!(code, Some(0), "the broker's code for a change of ACLs");
}

fn text(body: &mut Vec<u8>, text: &str) {
    body.extend((text.len() as i16).to_be_bytes());
    body.extend(text.as_bytes());
}

fn exchange(address: &str, body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(&(body.len() as i32).to_be_bytes())?;
    stream.write_all(body)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
