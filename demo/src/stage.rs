//! Where the story takes place: a folder for files, a broker with one topic, a database with room for this run.

use std::path::{Path, PathBuf};

use crate::broker::Broker;
use crate::database::Database;
use crate::error::DemoError;
use crate::random::Random;
use crate::relay::Site;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// URL of a database; else SQLite files in the folder.
    pub database: Option<String>,
    /// Bootstrap servers of a Kafka; else an embedded broker.
    pub kafka: Option<String>,
    /// Folder for files; else a new one among the temporary files, which is removed afterwards.
    pub folder: Option<PathBuf>,
}

/// Everything that must be there before the story begins, and be gone after it.
pub struct Stage {
    /// The broker.
    pub broker: Broker,
    /// The database.
    pub database: Database,
    folder: PathBuf,
    is_own_folder: bool,
}

impl Stage {
    /// Makes everything, under names that nobody else has.
    ///
    /// # Errors
    /// When something can't be reached or made.
    pub async fn set(setting: &Setting) -> Result<Self, DemoError> {
        let suffix = Random::default().suffix();
        let is_own_folder = setting.folder.is_none();
        let temporary = || std::env::temp_dir().join(format!("fencepost-demo-{suffix}"));
        let folder = setting.folder.clone().unwrap_or_else(temporary);
        std::fs::create_dir_all(&folder).map_err(|error| folder_error(&folder, error))?;
        let stage = Self::set_in(&folder, is_own_folder, setting, &suffix).await;
        if stage.is_err() && is_own_folder {
            // What failed is told; an empty folder that stays behind is not worth a word.
            let _ = std::fs::remove_dir_all(&folder);
        }
        stage
    }

    async fn set_in(folder: &Path, is_own_folder: bool, setting: &Setting, suffix: &str) -> Result<Self, DemoError> {
        let database = Database::open(setting.database.as_deref().unwrap_or_default(), suffix).await?;
        let topic = format!("fencepost-demo-orders-{suffix}");
        match Broker::open(setting.kafka.as_deref(), &topic).await {
            Ok(broker) => Ok(Stage { broker, database, folder: folder.to_owned(), is_own_folder }),
            Err(error) => {
                // Its schemas are empty yet.
                let _ = database.remove().await;
                Err(error.into())
            }
        }
    }

    /// Kinds of database and broker, for people.
    pub fn kind(&self) -> String {
        let broker = if self.broker.is_embedded() { "embedded broker" } else { "Kafka" };
        format!("{}, {broker}", self.database.kind())
    }

    /// What relays must know.
    ///
    /// # Errors
    /// When this program's own file can't be found.
    pub fn site(&self) -> Result<Site, DemoError> {
        Ok(Site {
            database_url: self.database.url().to_owned(),
            schema: self.database.schema().to_owned(),
            brokers: self.broker.brokers().to_owned(),
            route_timeout: self.broker.route_timeout(),
            folder: self.folder.clone(),
            program: std::env::current_exe().map_err(DemoError::Relay)?,
        })
    }

    /// Where configuration, logs and database files lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where things are, one line each.
    pub fn places(&self) -> [(&'static str, String); 3] {
        let broker = if self.broker.is_embedded() { "inside this program, at" } else { "Kafka at" };
        [
            ("broker", format!("{broker} {}, topic {}", self.broker.brokers(), self.broker.topic())),
            ("database", format!("{}, {}", self.database.kind(), self.database.place())),
            ("files", self.folder.display().to_string()),
        ]
    }

    /// Removes everything that was made. What can't be removed is returned, one sentence each.
    pub async fn strike(&self) -> Vec<String> {
        let mut left = Vec::new();
        if let Err(error) = self.broker.remove_topic().await {
            left.push(format!("the topic {} is left: {error}", self.broker.topic()));
        }
        if let Err(error) = self.database.remove().await {
            left.push(format!("{} are left: {error}", self.database.place()));
        }
        if self.is_own_folder
            && let Err(error) = std::fs::remove_dir_all(&self.folder)
        {
            left.push(format!("the folder {} is left: {error}", self.folder.display()));
        }
        left
    }
}

fn folder_error(folder: &Path, error: std::io::Error) -> DemoError {
    DemoError::Folder { folder: folder.display().to_string(), error }
}
