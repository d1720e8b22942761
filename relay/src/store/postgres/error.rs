//! From sqlx's errors to the port's: what a failure says about the connection and about the statement.
//!
//! Texts are bounded and carry the server's message and code, never its detail (which quotes values),
//! never a URL.

use sqlx::Error;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::store::StoreError;

/// Longest text taken over from the server or a library, in characters.
const TEXT_CHARS_MAX: usize = 300;

/// What a statement's failure means.
pub(super) fn of_statement(error: &Error) -> StoreError {
    match error {
        Error::Database(e) => match e.try_downcast_ref::<PgDatabaseError>() {
            Some(e) => of_server(e),
            None => StoreError::Lost(clip(&e.to_string())),
        },
        // anything that is not the server's own word leaves open what the statement did
        other => StoreError::Lost(clip(&other.to_string())),
    }
}

/// What a failure to connect means.
pub(super) fn of_connect(error: &Error) -> StoreError {
    match error {
        Error::Configuration(_) => unfit("the database URL or certificate is not usable", "correct the source's URL"),
        Error::Tls(e) => unfit(
            format!("the TLS handshake with the database failed: {}", clip(&e.to_string())),
            "check sslmode and the root certificate",
        ),
        _ => of_statement(error),
    }
}

/// The SQLSTATE, if the server spoke.
pub(super) fn code(error: &Error) -> Option<&str> {
    let e = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    Some(e.code())
}

/// A source that is not usable as it is.
pub(super) fn unfit(reason: impl Into<String>, repair: impl Into<String>) -> StoreError {
    StoreError::Unfit { reason: reason.into(), repair: repair.into() }
}

fn of_server(error: &PgDatabaseError) -> StoreError {
    let code = error.code();
    let text = format!("{} ({code})", clip(error.message()));
    let gone = matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic);
    match code {
        "28000" | "28P01" => {
            unfit(format!("the server refused the login: {text}"), "check role, password and pg_hba.conf")
        }
        "3D000" => unfit(text, "create the database or correct the source's URL"),
        // a prepared statement that is gone, or there already: somebody else's server connection
        "26000" | "42P05" => pooler(),
        "08P01" if error.message().contains("startup parameter") => pooler(),
        "42501" => unfit(text, "grant the relay's rights: fencepost migrate roles"),
        "3F000" | "42P01" | "42703" | "42704" | "42883" => {
            unfit(format!("the schema is not the one that this relay knows: {text}"), "run: fencepost migrate check")
        }
        // read-only: this server was demoted, the address leads elsewhere by now
        "25006" => StoreError::Lost(text),
        _ if gone || code.starts_with("08") || code.starts_with("57P") || code == "53300" => StoreError::Lost(text),
        _ => StoreError::Refused(text),
    }
}

/// Refusal of a pooler that hands out a server per transaction.
pub(super) fn pooler() -> StoreError {
    unfit(
        "the connection goes through a transaction pooler: sessions and prepared statements don't stay on one server",
        "give the relay the server's own address, or a pool in session mode (producers may keep the pooler)",
    )
}

/// The first characters of `text`, on one line.
pub(super) fn clip(text: &str) -> String {
    let line = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(TEXT_CHARS_MAX).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_on_one_line() {
        let clipped = clip(&"a\n".repeat(1_000));
        assert_eq!(clipped.chars().count(), TEXT_CHARS_MAX);
        assert!(!clipped.contains('\n'));
    }

    #[test]
    fn what_is_not_the_servers_word_is_a_lost_reply() {
        let io = Error::Io(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert!(of_statement(&io).lost_reply());
        assert!(of_statement(&Error::Protocol("odd".into())).lost_reply());
    }
}
