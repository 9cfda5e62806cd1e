//! A relay between a node and those that know it by the relay's address: it records what passes,
//! and changes it as the test says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the relay does with a datagram for the node: sends these in its place.
pub type Change = Box<dyn FnMut(Vec<u8>) -> Vec<Vec<u8>> + Send>;

/// What has passed, in both directions.
#[derive(Default)]
pub struct Passed {
    pub datagrams: Vec<Vec<u8>>,
    /// What each connection carried towards the node.
    pub streams: Vec<Vec<u8>>,
    /// What each connection carried back.
    pub replies: Vec<Vec<u8>>,
}

pub struct Relay {
    pub addr: SocketAddr,
    pub passed: Arc<Mutex<Passed>>,
    change: Arc<Mutex<Option<Change>>>,
}

impl Relay {
    /// A relay to the node at this address. One node at a time may use it.
    pub fn to(node: SocketAddr) -> Relay {
        let (listener, inside) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let addr = listener.local_addr().expect("bound");
            if let Ok(socket) = UdpSocket::bind(addr) {
                break (listener, socket);
            }
        };
        let relay = Relay {
            addr: inside.local_addr().expect("bound"),
            passed: Arc::default(),
            change: Arc::default(),
        };
        relay.carry_datagrams(inside, node);
        relay.carry_streams(listener, node);
        relay
    }

    /// From now on datagrams for the node are changed so.
    pub fn change(&self, change: impl FnMut(Vec<u8>) -> Vec<Vec<u8>> + Send + 'static) {
        *self.change.lock().unwrap() = Some(Box::new(change));
    }

    /// From now on they pass as they are.
    pub fn stop_changes(&self) {
        *self.change.lock().unwrap() = None;
    }

    /// True if this is in what has passed.
    pub fn has_passed(&self, needle: &[u8]) -> bool {
        let passed = self.passed.lock().unwrap();
        let all = passed.datagrams.iter().chain(&passed.streams).chain(&passed.replies);
        all.into_iter().any(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
    }

    fn carry_datagrams(&self, inside: UdpSocket, node: SocketAddr) {
        let outside = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let user: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let (passed, change) = (Arc::clone(&self.passed), Arc::clone(&self.change));
        let (to_node, from_user) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
        let known = Arc::clone(&user);
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok((bytes, from)) = from_user.recv_from(&mut buffer) {
                *known.lock().unwrap() = Some(from);
                let datagram = buffer[..bytes].to_vec();
                passed.lock().unwrap().datagrams.push(datagram.clone());
                let changed = match &mut *change.lock().unwrap() {
                    Some(change) => change(datagram),
                    None => vec![datagram],
                };
                for datagram in changed {
                    let _ = to_node.send_to(&datagram, node);
                }
            }
        });
        let passed = Arc::clone(&self.passed);
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok((bytes, _)) = outside.recv_from(&mut buffer) {
                passed.lock().unwrap().datagrams.push(buffer[..bytes].to_vec());
                let to = *user.lock().unwrap();
                if let Some(to) = to {
                    let _ = inside.send_to(&buffer[..bytes], to);
                }
            }
        });
    }

    fn carry_streams(&self, listener: TcpListener, node: SocketAddr) {
        let passed = Arc::clone(&self.passed);
        thread::spawn(move || {
            for user in listener.incoming().flatten() {
                let Ok(target) = TcpStream::connect(node) else { continue };
                let at = {
                    let mut passed = passed.lock().unwrap();
                    passed.streams.push(Vec::new());
                    passed.replies.push(Vec::new());
                    passed.streams.len() - 1
                };
                let (back, forth) = (user.try_clone().unwrap(), target.try_clone().unwrap());
                let of_reply = Arc::clone(&passed);
                let of_stream = Arc::clone(&passed);
                thread::spawn(move || {
                    carry(user, forth, |read| {
                        of_stream.lock().unwrap().streams[at].extend_from_slice(read);
                    });
                });
                thread::spawn(move || {
                    carry(target, back, |read| {
                        of_reply.lock().unwrap().replies[at].extend_from_slice(read);
                    });
                });
            }
        });
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, mut record: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        record(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
