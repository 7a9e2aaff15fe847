"""Container logs: the engine's json-file is the spool, and a writer turns it into the kubelet's format at log_path.

The room is in two halves. The writer (`worker`, `desk`, `follower`, `spool`, `logfile`, `convert`, `inotify`) is plain
synchronous code that needs a handful of modules of the standard library and knows neither CRI nor the engine's API: it
runs in a process of its own, so that 20 MB of logs a second take no time from the calls that the server answers. `api`
is what the rest of crishim asks of it; `process` starts that process and keeps it alive, `inline` does the same work
where it is asked, for tests in virtual time. `own_spool` is a spool that the server fills from a log that only the
engine can read. docs/decisions/log-writer.md tells why.
"""
