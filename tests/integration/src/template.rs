//! The database that the tests' databases are copied from: migrated once for each version of the
//! migrations and server, and kept there. A copy takes a tenth of the time of the migrations.

use std::hash::{DefaultHasher, Hash, Hasher};

use fencepost_core::schema::Schema;
use fencepost_relay::store::postgres::migrate::{self, MIGRATIONS};
use sqlx::PgConnection;

use crate::database::{ServerUrl, connect, execute};

/// Key of the advisory lock under which a template is made: any number that nobody else uses.
const LOCK: i64 = 0x7465_6d70_6c61_7465;

/// Gives a copy an identity of its own: a source's id is the one thing that two databases must not share.
const NEW_ORIGIN: &str =
    r#"DELETE FROM "fencepost".origin; INSERT INTO "fencepost".origin (source_id) VALUES (gen_random_uuid())"#;

/// Creates database `name` as a copy of the template, which is made first where it is missing. `admin` is a
/// superuser's connection to the same server.
///
/// # Panics
/// When the server refuses, or the migrations fail.
pub(crate) async fn copy(server: &ServerUrl, admin: &mut PgConnection, name: &str) {
    let template = format!("fencepost_template_{:016x}", fingerprint());
    if !exists(admin, &template).await {
        execute(admin, format!("SELECT pg_advisory_lock({LOCK})")).await;
        if !exists(admin, &template).await {
            make(server, admin, &template).await;
        }
        execute(admin, format!("SELECT pg_advisory_unlock({LOCK})")).await;
    }
    execute(admin, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
    execute(&mut connect(&server.url(None, name, None)).await, NEW_ORIGIN).await;
}

/// Under another name until it is complete, so that nobody takes half a template.
async fn make(server: &ServerUrl, admin: &mut PgConnection, template: &str) {
    let unfinished = format!("{template}_unfinished");
    execute(admin, format!("DROP DATABASE IF EXISTS {unfinished} WITH (FORCE)")).await;
    execute(admin, format!("CREATE DATABASE {unfinished}")).await;
    let mut connection = connect(&server.url(None, &unfinished, None)).await;
    migrate::up(&mut connection, &Schema::default()).await.expect("the migrations apply to a fresh database");
    // a database with a connection can be neither renamed nor copied
    sqlx::Connection::close(connection).await.expect("a connection closes");
    execute(admin, format!("ALTER DATABASE {unfinished} RENAME TO {template}")).await;
}

async fn exists(admin: &mut PgConnection, database: &str) -> bool {
    let found = sqlx::query("SELECT 1 FROM pg_database WHERE datname = $1").bind(database);
    found.fetch_optional(admin).await.expect("the server lists its databases").is_some()
}

/// Changes when any migration does.
fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    MIGRATIONS.iter().for_each(|migration| migration.checksum().hash(&mut hasher));
    hasher.finish()
}
