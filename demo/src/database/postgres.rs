//! Room for one run in a PostgreSQL database: schemas of its own, so that nothing of anybody else's is touched.

use std::time::Duration;

use fencepost_producer::Schema;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor as _};

use super::Lane;
use crate::consumer::PostgresBooks;
use crate::shop::PostgresShop;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// One for each order service, and one to count.
const SHOP_CONNECTIONS: u32 = 4;

/// The schemas of one run.
#[derive(Debug)]
pub struct PostgresDatabase {
    url: String,
    outbox: Schema,
    shop: String,
    consumer: String,
    options: PgConnectOptions,
    admin: PgPool,
}

impl PostgresDatabase {
    /// Makes the schemas of the shop and of the consumer; the outbox's is made by its migrations.
    pub(super) async fn open(url: &str, suffix: &str) -> Result<Self, sqlx::Error> {
        let options: PgConnectOptions = url.parse()?;
        let admin = pool(1).connect_with(options.clone()).await?;
        let (shop, consumer) = (format!("fencepost_demo_{suffix}_shop"), format!("fencepost_demo_{suffix}_consumer"));
        for schema in [&shop, &consumer] {
            admin.execute(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).await?;
        }
        let outbox = Schema::new(&format!("fencepost_demo_{suffix}")).expect("letters make a schema's name");
        Ok(PostgresDatabase { url: url.to_owned(), outbox, shop, consumer, options, admin })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn schema(&self) -> &str {
        self.outbox.name()
    }

    pub(super) fn place(&self) -> String {
        format!("schemas {0}, {0}_shop and {0}_consumer", self.schema())
    }

    pub(super) fn shop(&self, topic: &str) -> PostgresShop {
        PostgresShop::new(self.pool_in(&self.shop, SHOP_CONNECTIONS), &self.outbox, topic)
    }

    pub(super) fn books(&self) -> PostgresBooks {
        PostgresBooks::new(self.pool_in(&self.consumer, 1))
    }

    /// Connections whose unqualified names mean tables of `schema`.
    fn pool_in(&self, schema: &str, connections: u32) -> PgPool {
        pool(connections).connect_lazy_with(self.options.clone().options([("search_path", schema)]))
    }

    pub(super) async fn lanes(&self) -> Result<Vec<Lane>, sqlx::Error> {
        let sql = self.outbox.qualify(include_str!("sql/lanes.sql"));
        let rows: Vec<(i16, Option<String>, i64)> = sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&self.admin).await?;
        Ok(rows.into_iter().map(|(lane, owner, generation)| Lane::new(lane.into(), owner, generation)).collect())
    }

    pub(super) async fn remove(&self) -> Result<(), sqlx::Error> {
        for schema in [self.outbox.name(), &self.shop, &self.consumer] {
            self.admin.execute(AssertSqlSafe(format!("DROP SCHEMA IF EXISTS {schema} CASCADE"))).await?;
        }
        Ok(())
    }
}

fn pool(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new().max_connections(connections).acquire_timeout(CONNECT_WITHIN)
}
