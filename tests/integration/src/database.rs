//! A database per test on the shared server: dropped when the test passes, kept and named when it fails.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::{env, random, template};

/// A database of one test. Dropping it drops the database, unless the test's thread is panicking.
pub struct TestDatabase {
    name: String,
    server: ServerUrl,
}

impl TestDatabase {
    /// A fresh database on the shared server with all migrations applied, under the default schema and without the
    /// roles step; its name is `name_hint` with a random suffix.
    ///
    /// # Panics
    /// When the server can't be reached or refuses.
    pub async fn create(name_hint: &str) -> Self {
        Self::create_on(&env::postgres(), name_hint).await
    }

    /// As [`Self::create`], on the server behind `server_url` (a superuser's URL).
    ///
    /// # Panics
    /// When the server can't be reached or refuses.
    pub async fn create_on(server_url: &str, name_hint: &str) -> Self {
        let (database, mut admin) = Self::prepare(server_url, name_hint).await;
        template::copy(&database.server, &mut admin, &database.name).await;
        database
    }

    /// A fresh, empty database on the shared server; its name is `name_hint` with a random suffix.
    ///
    /// # Panics
    /// When the server can't be reached or refuses.
    pub async fn plain(name_hint: &str) -> Self {
        Self::plain_on(&env::postgres(), name_hint).await
    }

    /// As [`Self::plain`], on the server behind `server_url` (a superuser's URL).
    ///
    /// # Panics
    /// When the server can't be reached or refuses.
    pub async fn plain_on(server_url: &str, name_hint: &str) -> Self {
        let (database, mut admin) = Self::prepare(server_url, name_hint).await;
        execute(&mut admin, format!("CREATE DATABASE {}", database.name)).await;
        database
    }

    async fn prepare(server_url: &str, name_hint: &str) -> (Self, PgConnection) {
        let server = ServerUrl::parse(server_url);
        let name = format!("test_{}_{}", clean(name_hint), random::suffix());
        let admin = server.connect().await;
        (TestDatabase { name, server }, admin)
    }

    /// Address of its server, `host:port`: what a proxy forwards to.
    pub fn server_address(&self) -> &str {
        &self.server.address
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL, as the superuser.
    pub fn url(&self) -> String {
        self.server.url(None, &self.name, None)
    }

    /// Its URL as another role, without a password (the test server trusts its clients).
    pub fn url_for(&self, role: &str) -> String {
        self.server.url(Some(role), &self.name, None)
    }

    /// Its URL at another address, `host:port`: through a proxy.
    pub fn url_at(&self, address: &str) -> String {
        self.server.url(None, &self.name, Some(address))
    }

    /// One connection as the superuser.
    ///
    /// # Panics
    /// When it can't be made.
    pub async fn connect(&self) -> PgConnection {
        connect(&self.url()).await
    }

    /// One connection as another role.
    ///
    /// # Panics
    /// When it can't be made.
    pub async fn connect_as(&self, role: &str) -> PgConnection {
        connect(&self.url_for(role)).await
    }

    /// A pool of at most `size` connections as the superuser.
    ///
    /// # Panics
    /// When its first connection can't be made.
    pub async fn pool(&self, size: u32) -> PgPool {
        let options = PgPoolOptions::new().max_connections(size).acquire_timeout(Duration::from_secs(30));
        options.connect(&self.url()).await.unwrap_or_else(|e| panic!("no connection to database {}: {e}", self.name))
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("database kept: {}", self.name);
            return;
        }
        let (server, name) = (self.server.clone(), self.name.clone());
        // a runtime can't be entered from inside another one, so the drop has a thread of its own
        let drop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let Ok(mut admin) = PgConnection::connect(&server.url(None, &server.database, None)).await else {
                    return;
                };
                // whoever killed the server has no database left to drop: not worth failing for
                let _ = admin.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))).await;
            });
        });
        let _ = drop.join();
    }
}

/// One connection to `url`.
///
/// # Panics
/// When it can't be made.
pub async fn connect(url: &str) -> PgConnection {
    let options: PgConnectOptions = url.parse().unwrap_or_else(|e| panic!("not a PostgreSQL URL: {e}"));
    PgConnection::connect_with(&options).await.unwrap_or_else(|e| panic!("no connection to PostgreSQL: {e}"))
}

/// Runs SQL text, also several statements, whose result nobody needs.
///
/// # Panics
/// When the server refuses it.
pub async fn execute(connection: &mut PgConnection, sql: impl Into<String>) {
    let sql = sql.into();
    if let Err(error) = connection.execute(AssertSqlSafe(sql.clone())).await {
        panic!("{error}, in: {sql}");
    }
}

/// The parts of a server's URL that the harness replaces.
#[derive(Clone)]
pub(crate) struct ServerUrl {
    login: String,
    address: String,
    database: String,
    parameters: String,
}

impl ServerUrl {
    fn parse(url: &str) -> Self {
        Self::split(url).expect("a test server's URL has the form postgres://user@host:port/database")
    }

    fn split(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        let (rest, parameters) = rest.split_once('?').map_or((rest, String::new()), |(r, p)| (r, format!("?{p}")));
        let (login, rest) = rest.rsplit_once('@')?;
        let (address, database) = rest.split_once('/')?;
        Some(ServerUrl { login: login.into(), address: address.into(), database: database.into(), parameters })
    }

    pub(crate) fn url(&self, role: Option<&str>, database: &str, address: Option<&str>) -> String {
        let (login, address) = (role.unwrap_or(&self.login), address.unwrap_or(&self.address));
        format!("postgres://{login}@{address}/{database}{}", self.parameters)
    }

    async fn connect(&self) -> PgConnection {
        connect(&self.url(None, &self.database, None)).await
    }
}

/// `hint` as part of an unquoted identifier; the whole name stays below PostgreSQL's 63 bytes.
fn clean(hint: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    hint.chars().take(40).map(fit).collect()
}
