//! On what a figure was measured. Without it a figure says nothing.

use std::fmt;
use std::fs;

use serde::Serialize;

use crate::database::ServerFacts;

/// The machine, its servers, and how busy it was when the bench began.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    memory_mib: u64,
    kernel: String,
    load_at_start: String,
    librdkafka: String,
    postgres: ServerFacts,
    broker_measured: bool,
}

impl Machine {
    /// Describes it.
    pub(crate) fn describe(postgres: ServerFacts, broker_measured: bool) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
            line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_at_start: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            librdkafka: rdkafka::util::get_rdkafka_version().1,
            postgres,
            broker_measured,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "machine: {}, {} cores, {} MiB, Linux {}", self.cpu, self.cores, self.memory_mib, self.kernel)?;
        writeln!(f, "load at start: {}; librdkafka {}", self.load_at_start, self.librdkafka)?;
        write!(f, "PostgreSQL {}", self.postgres)?;
        if !self.broker_measured {
            write!(f, "\nthe broker's process was not found on this machine: its CPU is not measured")?;
        }
        Ok(())
    }
}
