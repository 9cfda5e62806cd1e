use std::io;

use thiserror::Error;

/// Why an operation of the network lab failed. Each message names a remedy.
#[derive(Debug, Error)]
pub enum NetlabError {
    /// The operating system has no network namespaces.
    #[error("the network lab needs Linux; run on loopback instead, without --lab")]
    NotLinux,
    /// The process may not create namespaces.
    #[error(
        "the network lab needs root with {missing}; run it as root, or run on loopback, \
         without --lab"
    )]
    NotPermitted {
        /// What the process lacks: a user id or capabilities.
        missing: String,
    },
    /// Programs are missing.
    #[error(
        "the network lab needs {} (Debian: {}); run `cargo xtask setup` as root, or run on \
         loopback, without --lab",
        list(tools),
        list(packages)
    )]
    MissingTools {
        /// The programs not found.
        tools: Vec<&'static str>,
        /// The Debian packages that hold them.
        packages: Vec<&'static str>,
    },
    /// The kernel lacks a device type, a queue discipline or a filter hook.
    #[error("this kernel refuses `{command}`: {reason}; run on loopback instead, without --lab")]
    Unsupported {
        /// The command line.
        command: String,
        /// What it wrote to standard error.
        reason: String,
    },
    /// A program failed for another reason.
    #[error("`{command}` failed: {reason}")]
    Failed {
        /// The command line.
        command: String,
        /// What it wrote to standard error, or its exit status.
        reason: String,
    },
    /// A program could not be started, or its pipes failed.
    #[error("cannot run `{command}`: {source}")]
    Run {
        /// The command line.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The plan cannot be built. Nothing was changed.
    #[error("{field} is {value}, and may be {range}")]
    Plan {
        /// The plan's field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The accepted values.
        range: &'static str,
    },
    /// A node that the lab does not have. Nothing was changed.
    #[error("there is no node {node}: the lab has nodes 0 to {last}")]
    NoSuchNode {
        /// The node asked for.
        node: usize,
        /// The highest node.
        last: usize,
    },
    /// A share outside `[0, 1]`. Nothing was changed.
    #[error("a share of packets lies between 0 and 1, not at {0}")]
    Share(f64),
}

fn list(names: &[&str]) -> String {
    names.join(", ")
}
