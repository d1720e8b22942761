//! The shop on PostgreSQL.

use fencepost_producer::{Outbox, Schema};
use sqlx::PgPool;

use super::{Order, Placed, ShopError};

/// The shop's tables lie on its connections' `search_path`, the outbox in a schema of its own.
#[derive(Clone, Debug)]
pub struct PostgresShop {
    pool: PgPool,
    outbox: Outbox,
    topic: String,
}

impl PostgresShop {
    /// Over these connections; messages go into the outbox in `schema`, for `topic`.
    pub fn new(pool: PgPool, schema: &Schema, topic: &str) -> Self {
        PostgresShop { pool, outbox: Outbox::new(schema), topic: topic.to_owned() }
    }

    pub(super) async fn make(&self, customers: &[String]) -> Result<(), ShopError> {
        sqlx::query(include_str!("sql/make_customers.sql")).execute(&self.pool).await?;
        sqlx::query(include_str!("sql/make_orders.sql")).execute(&self.pool).await?;
        for customer in customers {
            sqlx::query(include_str!("sql/add_customer.sql")).bind(customer).execute(&self.pool).await?;
        }
        Ok(())
    }

    pub(super) async fn place(&self, order: &Order, commit: bool) -> Result<Placed, ShopError> {
        let mut tx = self.pool.begin().await?;
        let lock = sqlx::query_scalar(include_str!("sql/lock_customer.sql")).bind(&order.customer);
        let number: i64 = lock.fetch_one(&mut *tx).await?;
        let insert = sqlx::query(include_str!("sql/add_order.sql")).bind(order.id.to_string()).bind(&order.customer);
        insert.bind(number).bind(order.cents).execute(&mut *tx).await?;
        let message = order.message(&self.topic, number)?;
        self.outbox.enqueue(&mut tx, &message).await?;
        if commit {
            tx.commit().await?
        } else {
            tx.rollback().await?
        }
        Ok(Placed { message_id: message.message_id(), number })
    }

    pub(super) async fn count(&self) -> Result<u64, ShopError> {
        let count: i64 = sqlx::query_scalar(include_str!("sql/count_orders.sql")).fetch_one(&self.pool).await?;
        Ok(count.unsigned_abs())
    }
}
