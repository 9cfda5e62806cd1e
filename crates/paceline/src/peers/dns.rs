//! Questions to name servers.
//!
//! Address records come from the system's resolver (`getaddrinfo`), which also reads `/etc/hosts`
//! and search domains, unless a server is configured. It does not give SRV records: these are asked
//! here (RFC 1035, RFC 2782), with messages of `simple-dns`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rand::TryRng;
use rand::rngs::SysRng;
use simple_dns::rdata::{OPT, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Time for one answer; each server is asked twice.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const TRIES: usize = 2;
/// Answer by datagram, bytes: fits every usual path (RFC 9715, section 3).
const DATAGRAM_BYTES_MAX: u16 = 1_232;
/// Servers of the system that are asked, as many as the C library asks.
const SERVERS_MAX: usize = 3;
/// Targets of SRV records that are resolved.
const TARGETS_MAX: usize = 64;
const SYSTEM_SERVERS: &str = "/etc/resolv.conf";

/// Resolves names: by the system, or by one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resolver {
    server: Option<SocketAddr>,
}

/// A record of an answer.
enum Record {
    Address(IpAddr),
    Service { target: String, port: u16 },
}

impl Resolver {
    /// Asks this server only.
    pub(crate) fn of_server(server: SocketAddr) -> Resolver {
        Resolver { server: Some(server) }
    }

    /// The addresses of a name.
    pub(super) async fn addresses(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let Some(server) = self.server else {
            return Ok(tokio::net::lookup_host((name, port)).await?.collect());
        };
        let mut addresses = Vec::new();
        for kind in [TYPE::A, TYPE::AAAA] {
            for record in ask(&[server], name, kind).await? {
                if let Record::Address(ip) = record {
                    addresses.push(SocketAddr::new(ip, port));
                }
            }
        }
        Ok(addresses)
    }

    /// The addresses of the targets of a name's SRV records. All are peers, so priorities and
    /// weights decide nothing.
    pub(super) async fn services(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let servers = match self.server {
            Some(server) => vec![server],
            None => system_servers()?,
        };
        let mut addresses = Vec::new();
        let mut failed = None;
        for record in ask(&servers, name, TYPE::SRV).await?.into_iter().take(TARGETS_MAX) {
            let Record::Service { target, port } = record else { continue };
            // One target that is gone does not hide the others.
            match self.addresses(&target, port).await {
                Ok(found) => addresses.extend(found),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if addresses.is_empty() => Err(error),
            _ => Ok(addresses),
        }
    }
}

/// The name servers of the system.
fn system_servers() -> io::Result<Vec<SocketAddr>> {
    let text = std::fs::read_to_string(SYSTEM_SERVERS).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot read {SYSTEM_SERVERS}: {error}"))
    })?;
    let servers = servers_in(&text);
    match servers.is_empty() {
        true => Err(io::Error::other(format!("{SYSTEM_SERVERS} names no server"))),
        false => Ok(servers),
    }
}

fn servers_in(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let ip = words.next().filter(|&word| word == "nameserver").and(words.next())?;
        Some(SocketAddr::new(ip.parse().ok()?, 53))
    };
    text.lines().filter_map(server).take(SERVERS_MAX).collect()
}

/// Asks the servers in turn until one answers.
async fn ask(servers: &[SocketAddr], name: &str, kind: TYPE) -> io::Result<Vec<Record>> {
    let mut failed = io::Error::other("no server");
    for &server in servers {
        for _ in 0..TRIES {
            let asked = tokio::time::timeout(ANSWER_WITHIN, ask_once(server, name, kind)).await;
            match asked {
                Ok(Ok(records)) => return Ok(records),
                // A server that says so knows.
                Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                Ok(Err(error)) => {
                    failed = io::Error::new(error.kind(), format!("server {server}: {error}"));
                }
                Err(_) => {
                    let silent = format!("server {server} does not answer");
                    failed = io::Error::new(io::ErrorKind::TimedOut, silent);
                }
            }
        }
    }
    Err(failed)
}

async fn ask_once(server: SocketAddr, name: &str, kind: TYPE) -> io::Result<Vec<Record>> {
    let id = SysRng.try_next_u32().map_err(io::Error::other)? as u16;
    let query = query(id, name, kind)?;
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    // Only the server's datagrams arrive.
    socket.connect(server).await?;
    socket.send(&query).await?;
    let mut answer = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut answer).await?;
        match read(&answer[..length], id, name, kind) {
            // Another answer may still come.
            Answer::Foreign => {}
            Answer::Truncated => break,
            Answer::Records(records) => return records,
        }
    }
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).expect("a name has at most 255 bytes");
    stream.write_all(&[&length.to_be_bytes()[..], &query].concat()).await?;
    let length = usize::from(stream.read_u16().await?);
    stream.read_exact(&mut answer[..length]).await?;
    match read(&answer[..length], id, name, kind) {
        Answer::Records(records) => records,
        Answer::Foreign | Answer::Truncated => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn query(id: u16, name: &str, kind: TYPE) -> io::Result<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(io::Error::other)?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), CLASS::IN.into(), false));
    let opt = OPT { opt_codes: Vec::new(), udp_packet_size: DATAGRAM_BYTES_MAX, version: 0 };
    *packet.opt_mut() = Some(opt);
    packet.build_bytes_vec().map_err(io::Error::other)
}

enum Answer {
    /// Of another question, or no answer at all.
    Foreign,
    /// The whole one comes by TCP.
    Truncated,
    Records(io::Result<Vec<Record>>),
}

fn read(bytes: &[u8], id: u16, name: &str, kind: TYPE) -> Answer {
    let Ok(packet) = Packet::parse(bytes) else { return Answer::Foreign };
    let is_question = |question: &Question<'_>| {
        question.qname.to_string().eq_ignore_ascii_case(name.trim_end_matches('.'))
            && question.qtype == QTYPE::TYPE(kind)
            && question.qclass == QCLASS::CLASS(CLASS::IN)
    };
    let is_answer = packet.id() == id
        && packet.has_flags(PacketFlag::RESPONSE)
        && packet.questions.iter().all(is_question);
    if !is_answer {
        return Answer::Foreign;
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Answer::Truncated;
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => {
            let unknown = io::Error::new(io::ErrorKind::NotFound, "the name does not exist");
            return Answer::Records(Err(unknown));
        }
        code => return Answer::Records(Err(io::Error::other(format!("answers {code:?}")))),
    }
    // Of aliases as well: the server follows them.
    let records = packet.answers.iter().filter_map(|record| match &record.rdata {
        RData::A(a) => Some(Record::Address(Ipv4Addr::from(a.address).into())),
        RData::AAAA(a) => Some(Record::Address(Ipv6Addr::from(a.address).into())),
        RData::SRV(srv) => Some(Record::Service { target: srv.target.to_string(), port: srv.port }),
        _ => None,
    });
    Answer::Records(Ok(records.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_the_system_are_read() {
        let text = "# a comment\nsearch example\nnameserver 10.0.0.2\nnameserver ::1\n\
                    nameserver fe80::1%eth0\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n";
        let servers: Vec<String> = servers_in(text).iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers, ["10.0.0.2:53", "[::1]:53", "10.0.0.3:53"]);
    }

    #[test]
    fn what_is_no_answer_to_the_question_is_ignored() {
        let asked = query(7, "web.example", TYPE::A).unwrap();
        let is_foreign =
            |bytes: &[u8], id, name| matches!(read(bytes, id, name, TYPE::A), Answer::Foreign);
        assert!(is_foreign(&asked, 7, "web.example"), "a question");
        let mut reply = Packet::parse(&asked).unwrap().into_reply();
        reply.set_flags(PacketFlag::RESPONSE);
        let reply = reply.build_bytes_vec().unwrap();
        assert!(!is_foreign(&reply, 7, "WEB.example."));
        assert!(is_foreign(&reply, 8, "web.example"));
        assert!(is_foreign(&reply, 7, "other.example"));
        for length in 0..reply.len() {
            read(&reply[..length], 7, "web.example", TYPE::A);
        }
    }
}
