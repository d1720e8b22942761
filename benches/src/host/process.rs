//! CPU time and memory of processes.

use std::fs;

/// Nanoseconds of CPU time.
pub(crate) type CpuNs = u64;

/// Fields of `/proc/PID/stat` behind the program's name, by their number in proc(5) less 3.
const STATE: usize = 0;
const PARENT: usize = 1;
const UTIME: usize = 11;
const STIME: usize = 12;
const CHILDREN_UTIME: usize = 13;
const CHILDREN_STIME: usize = 14;

fn stat(pid: u32) -> Option<Vec<String>> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name is in brackets and may hold anything
    let (_, rest) = line.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn ticks(fields: &[String], indices: [usize; 2]) -> u64 {
    indices.iter().filter_map(|index| fields.get(*index)?.parse::<u64>().ok()).sum()
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// User and system time of all threads of a process; 0 when it has gone. Good to 10 ms.
pub(crate) fn cpu(pid: u32) -> CpuNs {
    stat(pid).map_or(0, |fields| ticks(&fields, [UTIME, STIME]) * tick_ns())
}

/// Time of one PostgreSQL session: a process with one thread, of which the scheduler knows nanoseconds.
pub(crate) fn session_cpu(pid: u32) -> CpuNs {
    let exact = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok();
    let exact = exact.and_then(|line| line.split_whitespace().next()?.parse().ok());
    exact.filter(|ns| *ns > 0).unwrap_or_else(|| cpu(pid))
}

/// Time of a server that forks: its own, of the children that it has buried, and of those that live.
pub(crate) fn children_cpu(parent: u32) -> CpuNs {
    let Some(own) = stat(parent) else { return 0 };
    let buried = ticks(&own, [CHILDREN_UTIME, CHILDREN_STIME]) * tick_ns();
    let living = pids().filter(|pid| parent_of(*pid) == Some(parent)).map(session_cpu);
    session_cpu(parent) + buried + living.sum::<u64>()
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid)?.get(PARENT)?.parse().ok()
}

/// All processes of the machine that can be seen.
pub(super) fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether it stands still after SIGSTOP.
pub(crate) fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields.get(STATE).is_some_and(|state| state == "T"))
}

/// Most memory that a process ever had resident; 0 when it has gone.
pub(crate) fn peak_rss_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own_cost() {
        let me = std::process::id();
        let mut x = 1_u64;
        while cpu(me) == 0 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(peak_rss_bytes(me) > 100_000);
        assert!(!is_stopped(me));
        assert!(parent_of(me).is_some());
        assert_eq!((cpu(0), peak_rss_bytes(0)), (0, 0));
    }
}
