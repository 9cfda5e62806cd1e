//! The members of a cluster, and their addresses.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use paceline_proto::core::{NodeId, View};
use thiserror::Error;

/// The members of a cluster and their addresses. Their order is the rank order.
///
/// In a file each line is `ID HOST:PORT`; `#` starts a comment. A host name is resolved once, when
/// the roster is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    members: Vec<(NodeId, SocketAddr)>,
}

impl Roster {
    /// A roster of these members.
    ///
    /// # Errors
    /// If an id or an address is given twice.
    pub fn new(
        members: impl IntoIterator<Item = (NodeId, SocketAddr)>,
    ) -> Result<Roster, RosterFault> {
        let mut roster = Roster::default();
        for (node, addr) in members {
            roster.push(node, addr)?;
        }
        Ok(roster)
    }

    /// Reads a roster file.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is not a member; the error names file and line.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Roster, RosterError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| RosterError::Read { file: path.to_path_buf(), source })?;
        Roster::parse(&text).map_err(|error| RosterError::Line { file: path.to_path_buf(), error })
    }

    /// Reads a roster from the text of a roster file.
    ///
    /// # Errors
    /// At the first line that is not a member.
    pub fn parse(text: &str) -> Result<Roster, RosterLineError> {
        let mut roster = Roster::default();
        for (number, line) in (1..).zip(text.lines()) {
            let member = line.split('#').next().unwrap_or("").trim();
            if member.is_empty() {
                continue;
            }
            parse_member(member)
                .and_then(|(node, addr)| roster.push(node, addr))
                .map_err(|fault| RosterLineError { line: number, fault })?;
        }
        Ok(roster)
    }

    /// The members in rank order.
    pub fn members(&self) -> &[(NodeId, SocketAddr)] {
        &self.members
    }

    /// The address of a member.
    pub fn addr(&self, node: NodeId) -> Option<SocketAddr> {
        let &(_, addr) = self.members.iter().find(|&&(known, _)| known == node)?;
        Some(addr)
    }

    /// View 0: the members in rank order, incarnations unknown.
    pub fn view(&self) -> View {
        View::roster(self.members.iter().map(|&(node, _)| node))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn push(&mut self, node: NodeId, addr: SocketAddr) -> Result<(), RosterFault> {
        for &(known, taken) in &self.members {
            if known == node {
                return Err(RosterFault::DuplicateId { id: node.0 });
            }
            if taken == addr {
                return Err(RosterFault::DuplicateAddress { addr, first: known.0 });
            }
        }
        self.members.push((node, addr));
        Ok(())
    }
}

impl FromStr for Roster {
    type Err = RosterLineError;
    fn from_str(text: &str) -> Result<Roster, RosterLineError> {
        Roster::parse(text)
    }
}

/// The text of a roster file.
impl fmt::Display for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.members.iter().try_for_each(|(node, addr)| writeln!(f, "{} {addr}", node.0))
    }
}

fn parse_member(member: &str) -> Result<(NodeId, SocketAddr), RosterFault> {
    let mut words = member.split_whitespace();
    let (Some(id), Some(host), None) = (words.next(), words.next(), words.next()) else {
        return Err(RosterFault::Shape { text: member.to_owned() });
    };
    let node = id.parse().map_err(|_| RosterFault::Id { text: id.to_owned() })?;
    let addr = host
        .to_socket_addrs()
        .ok()
        .and_then(|mut addrs| addrs.next())
        .ok_or_else(|| RosterFault::Address { text: host.to_owned() })?;
    Ok((NodeId(node), addr))
}

/// Why a roster file cannot be read. Nothing was started.
#[derive(Debug, Error)]
pub enum RosterError {
    /// The file cannot be read.
    #[error("cannot read roster {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A line of the file is at fault.
    #[error("{}:{error}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line and its fault.
        error: RosterLineError,
    },
}

/// A line that is not a member.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{line}: {fault}")]
pub struct RosterLineError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: RosterFault,
}

/// What is wrong with a member of a roster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RosterFault {
    /// It does not have two words.
    #[error("`{text}` is not a member: write `ID HOST:PORT`, for example `3 10.0.0.3:7300`")]
    Shape {
        /// The line without its comment.
        text: String,
    },
    /// The id is not a number.
    #[error("`{text}` is not a member id: write a number from 0 to 18446744073709551615")]
    Id {
        /// The first word.
        text: String,
    },
    /// The address is not one.
    #[error("`{text}` is not an address: write `HOST:PORT`, for example `10.0.0.3:7300`")]
    Address {
        /// The second word.
        text: String,
    },
    /// The id occurs twice.
    #[error("member id {id} appears twice: give each member its own id")]
    DuplicateId {
        /// The id.
        id: u64,
    },
    /// The address occurs twice.
    #[error("address {addr} already belongs to member {first}: give each member its own port")]
    DuplicateAddress {
        /// The address.
        addr: SocketAddr,
        /// The member that has it.
        first: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roster_keeps_the_order_of_its_file() {
        let roster = Roster::parse("# cluster a\n5 127.0.0.1:7305\n\n3 [::1]:7303 # spare\n")
            .expect("a good roster");
        let nodes: Vec<u64> = roster.members().iter().map(|(node, _)| node.0).collect();
        assert_eq!(nodes, [5, 3]);
        assert_eq!(roster.view().rank(NodeId(3)), Some(1));
        assert_eq!(roster.addr(NodeId(5)), Some("127.0.0.1:7305".parse().unwrap()));
        assert_eq!(Roster::parse(&roster.to_string()), Ok(roster));
    }

    #[test]
    fn an_error_names_the_line_and_what_would_do() {
        let error = |text: &str| Roster::parse(text).expect_err("a bad roster").to_string();
        assert_eq!(
            error("1 127.0.0.1:1\nnonsense\n"),
            "2: `nonsense` is not a member: write `ID HOST:PORT`, for example `3 10.0.0.3:7300`"
        );
        assert!(error("x 127.0.0.1:1").starts_with("1: `x` is not a member id: write a number"));
        assert!(error("1 127.0.0.1").contains("is not an address: write `HOST:PORT`"));
        assert!(error("1 127.0.0.1:1\n1 127.0.0.1:2").starts_with("2: member id 1 appears twice"));
        assert!(error("1 127.0.0.1:1\n2 127.0.0.1:1").contains("already belongs to member 1"));
    }

    #[test]
    fn an_error_names_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("roster");
        let missing = Roster::from_file(&file).expect_err("no such file");
        assert!(missing.to_string().contains("cannot read roster"));
        std::fs::write(&file, "1 127.0.0.1:1\n2\n").expect("written");
        let error = Roster::from_file(&file).expect_err("a bad line").to_string();
        assert!(error.contains("roster:2: `2` is not a member"), "{error}");
    }
}
