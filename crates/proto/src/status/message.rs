use bytes::Bytes;

use crate::core::field::{Address, Field, List, fields, messages};
use crate::core::{DecodeError, NodeId};

/// Most services of a report.
pub const SERVICES_MAX: usize = 1024;
/// Most members of a service that a report names.
pub const MEMBERS_MAX: usize = 1024;
/// Most counts of a host or of a service.
pub const COUNTS_MAX: usize = 256;
/// Most bytes of the kind of a service.
pub const KIND_BYTES_MAX: usize = 32;
/// Most bytes of a name.
pub const NAME_BYTES_MAX: usize = 255;
/// Most bytes of a report; larger ones are refused.
pub const REPORT_BYTES_MAX: usize = 512 << 10;

fields! {
    /// Whether a host is a member of its service.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Standing {
        /// The service has no members, or does not say.
        #[default]
        0 => Unknown,
        /// It is no member at present.
        1 => Outside,
        /// It is a member.
        2 => Member,
        /// It is a member, and too few members are reachable to decide anything.
        3 => WithoutPrimary,
        /// It is a member and does not yet answer for its part: a table that is not settled.
        4 => Unsettled,
    }
}

fields! {
    /// A counter with its count.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Count {
        /// The counter's name.
        pub name: Bytes as Address<NAME_BYTES_MAX>,
        /// The count.
        pub count: u64,
    }
}

fields! {
    /// A service of a host.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ServiceReport {
        /// Its kind: `group`, `dht/chord`.
        pub kind: Bytes as Address<KIND_BYTES_MAX>,
        /// Its name.
        pub name: Bytes as Address<NAME_BYTES_MAX>,
        /// Whether the host is a member.
        pub standing: Standing,
        /// The number of the latest view; 0 without one.
        pub view: u64,
        /// The members of that view, oldest first: the first [`MEMBERS_MAX`].
        pub members: Vec<NodeId> as List<MEMBERS_MAX>,
        /// What the protocol has counted, and what it holds.
        pub counts: Vec<Count> as List<COUNTS_MAX>,
    }
}

fields! {
    /// What a host says of itself.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Report {
        /// Where others reach it.
        pub address: Bytes as Address<NAME_BYTES_MAX>,
        /// Services that found no room in the report.
        pub omitted: u32,
        /// What the driver has counted, and what it holds.
        pub counts: Vec<Count> as List<COUNTS_MAX>,
        /// Its services.
        pub services: Vec<ServiceReport> as List<SERVICES_MAX>,
    }
}

impl Report {
    /// Its length in a message, bytes.
    pub fn bytes(&self) -> usize {
        <Report as Field>::bytes(self)
    }

    /// Adds a service, or notes that there is no room for it.
    pub fn add(&mut self, service: ServiceReport) {
        let bytes = self.bytes() + <ServiceReport as Field>::bytes(&service);
        if self.services.len() < SERVICES_MAX && bytes <= REPORT_BYTES_MAX {
            self.services.push(service);
        } else {
            self.omitted += 1;
        }
    }
}

fn is_short(report: &Report) -> Result<(), DecodeError> {
    match report.bytes() {
        bytes if bytes <= REPORT_BYTES_MAX => Ok(()),
        bytes => Err(DecodeError::OutOfRange { field: "report", value: bytes as u64 }),
    }
}

messages! {
    /// What hosts send each other about their status.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// Asks for the receiver's status.
        0 => Ask {
            /// The sender's number of the question.
            number: u64,
        } ["ask {number}"],
        /// The sender's status.
        1 => Answer {
            /// The number of the question.
            number: u64,
            /// The status.
            report: Report where is_short,
        } ["answer {number}: {} services", report.services.len()],
    }
}
