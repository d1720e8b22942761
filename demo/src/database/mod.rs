//! Where the rows live: the outbox, the shop's tables beside it, and the consumer's. All of it belongs to this run
//! and can be removed again.

mod postgres;

use crate::consumer::Books;
use crate::shop::{Shop, ShopError};

pub use postgres::PostgresDatabase;

/// A lane of the outbox, as its database tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number.
    pub lane: i64,
    /// Name of the relay that holds it, without the random part of its process.
    pub owner: Option<String>,
    /// Of its lease.
    pub generation: i64,
}

impl Lane {
    fn new(lane: i64, owner: Option<String>, generation: i64) -> Self {
        let name = |owner: String| owner.rsplit_once('-').map_or(owner.clone(), |(name, _)| name.to_owned());
        Lane { lane, owner: owner.map(name), generation }
    }
}

/// The database can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The URL is of no kind that is known.
    #[error("--database takes postgres://user@host:port/database")]
    Url,
    /// It can't be reached, or refused.
    #[error("the database can't be used: {0}; check --database, and that its user may make schemas there")]
    Failed(#[from] sqlx::Error),
}

/// A database.
#[derive(Debug)]
pub enum Database {
    /// A PostgreSQL server's.
    Postgres(PostgresDatabase),
}

impl Database {
    /// Connects, and makes room for this run under names with `suffix`.
    ///
    /// # Errors
    /// When it can't be reached or refuses.
    pub async fn open(url: &str, suffix: &str) -> Result<Self, DatabaseError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(DatabaseError::Url);
        }
        Ok(Database::Postgres(PostgresDatabase::open(url, suffix).await?))
    }

    /// What it is, for people; no address and no secret.
    pub fn kind(&self) -> &'static str {
        match self {
            Database::Postgres(_) => "PostgreSQL",
        }
    }

    /// Where the things of this run lie in it, for people.
    pub fn place(&self) -> String {
        match self {
            Database::Postgres(database) => database.place(),
        }
    }

    /// Its URL, for relays. May hold a password.
    pub fn url(&self) -> &str {
        match self {
            Database::Postgres(database) => database.url(),
        }
    }

    /// Schema of the outbox.
    pub fn schema(&self) -> &str {
        match self {
            Database::Postgres(database) => database.schema(),
        }
    }

    /// The shop in it, whose messages go to `topic`. The outbox has been made.
    ///
    /// # Errors
    /// When its tables can't be made.
    pub async fn open_shop(&self, topic: &str) -> Result<Shop, ShopError> {
        let shop = match self {
            Database::Postgres(database) => Shop::Postgres(database.shop(topic)),
        };
        shop.make().await?;
        Ok(shop)
    }

    /// The consumer's tables in it.
    ///
    /// # Errors
    /// When they can't be made.
    pub async fn open_books(&self) -> Result<Books, sqlx::Error> {
        let books = match self {
            Database::Postgres(database) => Books::Postgres(database.books()),
        };
        books.make().await?;
        Ok(books)
    }

    /// The lanes of the outbox.
    ///
    /// # Errors
    /// Of the database.
    pub async fn lanes(&self) -> Result<Vec<Lane>, sqlx::Error> {
        match self {
            Database::Postgres(database) => database.lanes().await,
        }
    }

    /// Removes everything that this run made in it.
    ///
    /// # Errors
    /// Of the database: something is left.
    pub async fn remove(&self) -> Result<(), sqlx::Error> {
        match self {
            Database::Postgres(database) => database.remove().await,
        }
    }
}
