//! Finds the server processes behind the addresses, when they run on this machine.

use std::fs;

use super::process::pids;

/// The postmaster whose own idea of its process id is `server_pid` (from its `postmaster.pid`). In a
/// container it is another number here; the innermost of `NSpid` is its own.
pub(crate) fn postmaster(server_pid: u32) -> Option<u32> {
    let own = |pid: &u32| name(*pid).is_some_and(|n| n == "postgres") && innermost(*pid) == Some(server_pid);
    let mut found = pids().filter(own);
    match (found.next(), found.next()) {
        (Some(pid), None) => Some(pid),
        _ => None,
    }
}

/// The Java process that listens on the port of `host:port`.
pub(crate) fn broker(address: &str) -> Option<u32> {
    let port: u16 = address.split(',').next()?.rsplit_once(':')?.1.trim().parse().ok()?;
    let inodes = listeners(port);
    pids().filter(|pid| name(*pid).is_some_and(|n| n == "java")).find(|pid| holds_socket(*pid, &inodes))
}

fn name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|text| text.trim().to_owned())
}

fn innermost(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// Inodes of the sockets that listen on a TCP port.
fn listeners(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let local = format!(":{port:04X}");
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens = fields.get(3) == Some(&"0A") && fields.get(1).is_some_and(|a| a.ends_with(&local));
        listens.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]"))).flatten()
    };
    tables.iter().flat_map(|table| table.lines().filter_map(inode)).collect()
}

fn holds_socket(pid: u32, sockets: &[String]) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| {
        let target = target.to_string_lossy();
        sockets.iter().any(|socket| *socket == target)
    })
}
