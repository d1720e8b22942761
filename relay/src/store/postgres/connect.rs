//! Connections to a source: settings, session parameters, and a deadline on every statement.
//!
//! A [`Session`] is one connection that is given up at the first sign of trouble. Timeouts stand in three
//! rings: the server ends a statement after `statement_timeout`; the client gives it
//! [`GRACE`] more, since a half-open connection brings no answer at all; and both lie below the lease.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use fencepost_core::schema::Schema;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tokio::time::timeout;

use super::direct;
use super::error::{of_connect, of_statement, unfit};
use crate::store::StoreError;

/// What the client waits for an answer beyond the server's own timeout.
const GRACE: Duration = Duration::from_secs(1);

/// Longest statement timeout: with [`GRACE`], a dead connection is noticed within 60 s.
pub const STATEMENT_TIMEOUT_MAX: Duration = Duration::from_secs(50);

/// Parameters that a URL may carry; sqlx would log the value of any other.
const URL_PARAMETERS: &str = "sslmode ssl-mode sslrootcert ssl-root-cert ssl-ca sslcert ssl-cert sslkey ssl-key host \
    hostaddr port dbname user password application_name options statement-cache-capacity";

/// Where a source is and how to talk to it. Plain data; nothing is connected yet.
#[derive(Clone)]
pub struct PostgresSettings {
    /// `postgres://role@host:port/database?sslmode=verify-full&sslrootcert=...`.
    pub url: String,
    /// Replaces the URL's password, if given: from a file or the environment.
    pub password: Option<String>,
    /// Replaces the URL's root certificate, if given.
    pub root_certificate: Option<PathBuf>,
    /// The schema that holds the outbox.
    pub schema: Schema,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// For a connection with all its checks.
    pub connect_timeout: Duration,
    /// The server ends longer statements. Below the lease: a mark must not outlive it.
    pub statement_timeout: Duration,
    /// The server ends longer waits for a lock. At most `statement_timeout`.
    pub lock_timeout: Duration,
    /// Hold what is visible until it is on disk.
    pub wait_for_flush: bool,
}

impl PostgresSettings {
    /// Settings with timeouts that fit below `lease`.
    pub fn new(url: impl Into<String>, lease: Duration) -> Self {
        let statement_timeout = (lease / 2).clamp(Duration::from_millis(100), Duration::from_secs(15));
        PostgresSettings {
            url: url.into(),
            password: None,
            root_certificate: None,
            schema: Schema::default(),
            application_name: "fencepost".into(),
            connect_timeout: Duration::from_secs(10),
            statement_timeout,
            lock_timeout: statement_timeout / 2,
            wait_for_flush: false,
        }
    }

    /// sqlx's options, checked.
    pub(super) fn options(&self) -> Result<PgConnectOptions, StoreError> {
        self.check_url()?;
        let url = || unfit("the database URL can't be read", "write it as postgres://role@host:port/database");
        let mut options = PgConnectOptions::from_str(&self.url).map_err(|_| url())?;
        if let Some(password) = &self.password {
            options = options.password(password);
        }
        if let Some(path) = &self.root_certificate {
            options = options.ssl_root_cert(path);
        }
        // a pooler refuses start-up parameters that it doesn't know
        let options = options.application_name(&self.application_name).extra_float_digits(None);
        Ok(options.disable_statement_logging())
    }

    /// Refuses what sqlx would log or ignore, without repeating it.
    fn check_url(&self) -> Result<(), StoreError> {
        let query = self.url.split_once('?').map_or("", |(_, query)| query);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or(pair);
            let known = URL_PARAMETERS.split_whitespace().any(|known| known == name) || name.starts_with("options[");
            if !known {
                let repair = format!("use only: {URL_PARAMETERS}");
                return Err(unfit("the database URL has a parameter that is not known", repair));
            }
        }
        let fits = |d: Duration, most| (Duration::from_millis(1)..=most).contains(&d);
        if !fits(self.statement_timeout, STATEMENT_TIMEOUT_MAX) || !fits(self.lock_timeout, self.statement_timeout) {
            return Err(unfit(
                "the database timeouts are out of bounds",
                "keep 1 ms <= lock timeout <= statement timeout <= 50 s, and below the lease",
            ));
        }
        Ok(())
    }

    /// What a session sets explicitly, whatever the role, database or server set. All numbers and constants.
    fn session_sql(&self) -> String {
        let ms = |d: Duration| d.as_millis();
        format!(
            "SET default_transaction_isolation = 'read committed'; SET synchronous_commit = on; SET jit = off; \
             SET row_security = off; SET search_path = ''; SET statement_timeout = {}; SET lock_timeout = {}; \
             SET idle_in_transaction_session_timeout = 10000; SET idle_session_timeout = 0; \
             SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; \
             SET tcp_user_timeout = 30000; SET client_min_messages = warning; \
             SET max_parallel_workers_per_gather = 0; SET plan_cache_mode = force_generic_plan; \
             SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
            ms(self.statement_timeout),
            ms(self.lock_timeout),
        )
    }
}

/// No URL and no password.
impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSettings").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// One connection, in autocommit. It is dropped, and every later call answers [`StoreError::Lost`], once it
/// failed in a way that leaves its state or the statement's effect open.
pub(super) struct Session {
    connection: Option<PgConnection>,
    deadline: Duration,
}

impl Session {
    /// Connects and sets the session's parameters. The caller bounds the time.
    pub(super) async fn open(settings: &PostgresSettings, options: &PgConnectOptions) -> Result<Self, StoreError> {
        let mut connection = direct::connect(options).await?;
        connection.execute(AssertSqlSafe(settings.session_sql())).await.map_err(|e| of_connect(&e))?;
        Ok(Session { connection: Some(connection), deadline: settings.statement_timeout + GRACE })
    }

    /// Runs one statement within the deadline.
    ///
    /// A call that is dropped midway leaves its answer in the connection; the next call reads past it.
    pub(super) async fn call<T>(
        &mut self,
        statement: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        self.attempt(async |connection| statement(connection).await.map_err(|e| of_statement(&e))).await
    }

    /// As [`Self::call`], for a caller that sorts errors itself. Only what was [`StoreError::Refused`] leaves
    /// the connection usable.
    pub(super) async fn attempt<T>(
        &mut self,
        statement: impl AsyncFnOnce(&mut PgConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(connection) = self.connection.as_mut() else {
            return Err(StoreError::Lost("this connection was given up; connect again".into()));
        };
        let error = match timeout(self.deadline, statement(connection)).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => StoreError::Lost(format!("no answer within {:?}", self.deadline)),
        };
        if !matches!(error, StoreError::Refused(_)) {
            self.give_up();
        }
        Err(error)
    }

    /// Whether the connection was not given up.
    pub(super) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Closes the socket at once.
    pub(super) fn give_up(&mut self) {
        self.connection = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> PostgresSettings {
        PostgresSettings::new(url, Duration::from_secs(30))
    }

    #[test]
    fn b165_a_bad_url_is_refused_without_repeating_it() {
        for url in ["postgres://u:p^w$#d@1/x", "host=h password=SECRET123", "postgres://h/d?pasword=SECRET123", ""] {
            let error = settings(url).options().expect_err(url);
            let text = format!("{error} {error:?} {:?}", settings(url));
            assert!(!text.contains("SECRET123") && !text.contains("p^w"), "{text}");
        }
    }

    #[test]
    fn b40_timeouts_have_bounds() {
        let with = |statement, lock| PostgresSettings {
            statement_timeout: Duration::from_millis(statement),
            lock_timeout: Duration::from_millis(lock),
            ..settings("postgres://h/d")
        };
        with(1_000, 1_000).options().expect("usable");
        for (statement, lock) in [(0, 0), (1_000, 0), (1_000, 2_000), (86_400_000, 1_000)] {
            with(statement, lock).options().expect_err("out of bounds");
        }
    }
}
