//! A name server on loopback whose records a test changes.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use simple_dns::rdata::{A, RData, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;

#[derive(Default)]
struct Records {
    // A name that is here with nothing exists without records.
    addresses: BTreeMap<String, Vec<Ipv4Addr>>,
    services: BTreeMap<String, Vec<(String, u16)>>,
}

/// The server. It answers questions for SRV records by TCP only, as if they did not fit a datagram.
pub struct NameServer {
    pub address: SocketAddr,
    records: Arc<Mutex<Records>>,
    answered: watch::Receiver<usize>,
}

impl NameServer {
    pub async fn start() -> NameServer {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(address).await.unwrap();
        let records: Arc<Mutex<Records>> = Arc::default();
        let (answers, answered) = watch::channel(0);
        let held = records.clone();
        tokio::spawn(async move {
            let mut question = vec![0; 2_000];
            loop {
                tokio::select! {
                    received = udp.recv_from(&mut question) => {
                        let (length, from) = received.unwrap();
                        let reply = held.lock().unwrap().reply(&question[..length], false);
                        udp.send_to(&reply, from).await.unwrap();
                        answers.send_modify(|count| *count += 1);
                    }
                    accepted = tcp.accept() => {
                        let (mut stream, _) = accepted.unwrap();
                        let length = usize::from(stream.read_u16().await.unwrap());
                        stream.read_exact(&mut question[..length]).await.unwrap();
                        let reply = held.lock().unwrap().reply(&question[..length], true);
                        stream.write_u16(reply.len() as u16).await.unwrap();
                        stream.write_all(&reply).await.unwrap();
                    }
                }
            }
        });
        NameServer { address, records, answered }
    }

    /// From now on the name has these addresses.
    pub fn set_addresses(&self, name: &str, addresses: &[Ipv4Addr]) {
        self.records.lock().unwrap().addresses.insert(name.to_owned(), addresses.to_vec());
    }

    /// From now on the name has these services: targets and ports.
    pub fn set_services(&self, name: &str, services: &[(&str, u16)]) {
        let services = services.iter().map(|&(target, port)| (target.to_owned(), port)).collect();
        self.records.lock().unwrap().services.insert(name.to_owned(), services);
    }

    /// Waits until it has answered this many more questions.
    pub async fn answers(&mut self, count: usize) {
        let wanted = *self.answered.borrow() + count;
        self.answered.wait_for(|&answered| answered >= wanted).await.unwrap();
    }
}

impl Records {
    fn reply(&self, question: &[u8], is_stream: bool) -> Vec<u8> {
        let asked = Packet::parse(question).unwrap();
        let name = asked.questions[0].qname.to_string();
        let mut reply = asked.clone().into_reply();
        reply.set_flags(PacketFlag::RESPONSE);
        let mut answer = |data| {
            let owner = Name::new(&name).unwrap().into_owned();
            reply.answers.push(ResourceRecord::new(owner, CLASS::IN, 1, data));
        };
        match (self.addresses.get(&name), self.services.get(&name)) {
            (Some(addresses), _) if asked.questions[0].qtype == QTYPE::TYPE(TYPE::A) => {
                for &address in addresses {
                    answer(RData::A(A { address: address.into() }));
                }
            }
            (Some(_), _) => {}
            (None, Some(_)) if !is_stream => reply.set_flags(PacketFlag::TRUNCATION),
            (None, Some(services)) => {
                for (target, port) in services {
                    let target = Name::new(target).unwrap().into_owned();
                    answer(RData::SRV(SRV { priority: 1, weight: 1, port: *port, target }));
                }
            }
            (None, None) => *reply.rcode_mut() = RCODE::NameError,
        }
        reply.build_bytes_vec().unwrap()
    }
}
