//! Prefixes that neighbours register, as clients of NFD do.
//!
//! Source: NFD management protocol, "RIB management". An Interest for
//! `/localhop/nfd/rib/register/PARAMETERS` adds a route to the face that it came by; a Data with a
//! response answers it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{NodeId, Payload};
use paceline_proto::mircc::Command;
use paceline_proto::ndn::{Data, Interest, Meta, Name, Signer};
use tokio::time::Instant;

use super::Shared;
use super::control::{Parameters, Response};

/// Most prefixes that one neighbour may register.
const OF_ONE_MAX: usize = 256;
/// Most prefixes that all neighbours together may register.
const OF_ALL_MAX: usize = 8_192;
/// NFD's first number of a face that is not its own.
const FACE_ID_FIRST: u64 = 256;

/// Routes of the operator: prefixes, and the faces that lead there; `None` if served here.
pub(super) type OperatorRoutes = Vec<(Name, Option<NodeId>)>;

/// Registered routes, and their expiry.
pub(super) struct Rib {
    // Below these a prefix may be registered.
    accepted: Vec<Name>,
    routes: BTreeMap<(NodeId, Name), Option<Instant>>,
}

/// A command.
enum Verb {
    Register,
    Unregister,
}

impl Rib {
    /// No routes yet. Without accepted prefixes it refuses all commands.
    pub(super) fn new(accepted: Vec<Name>) -> Rib {
        Rib { accepted, routes: BTreeMap::new() }
    }

    /// Serves both management prefixes at this forwarder, so that it never forwards names below
    /// them.
    pub(super) fn begin(&self, shared: &Shared) {
        for scope in [LOCALHOST, LOCALHOP] {
            let prefix = Name::root().generic(scope).expect("a short name");
            // A node that has stopped already asks for nothing.
            let _ = shared.node.command(Command::Serve(prefix));
        }
    }

    /// The response to a command, and the change that it causes; `None` if it is not a command to
    /// this forwarder.
    pub(super) fn hear(
        &mut self,
        from: Option<(NodeId, SocketAddr)>,
        interest: &Interest,
        operators: impl FnOnce() -> OperatorRoutes,
    ) -> Option<(Data, Option<Command>)> {
        let (face, address) = from?;
        let is_open = !self.accepted.is_empty();
        let (is_local, verb, parameters) = command(&interest.name).filter(|_| is_open)?;
        let is_loopback = address.ip().to_canonical().is_loopback();
        let (response, change) = if is_local && !is_loopback {
            (Response::failed(403, "authorization rejected"), None)
        } else if !interest.parameters_fit() {
            (Response::failed(403, "the parameters do not match the digest"), None)
        } else {
            self.decide(face, verb, parameters, &operators())
        };
        let content = Payload::from(response.encode());
        let data = Data::new(interest.name.detached(), Meta::default(), content, &Signer::Digest);
        Some((data, change))
    }

    fn decide(
        &mut self,
        face: NodeId,
        verb: Option<Verb>,
        parameters: Bytes,
        operators: &OperatorRoutes,
    ) -> (Response, Option<Command>) {
        let Some(verb) = verb else {
            return (Response::failed(501, "unsupported command"), None);
        };
        let Ok(parameters) = Parameters::decode(&parameters) else {
            return (Response::failed(400, "malformed command"), None);
        };
        let own = face.0 + FACE_ID_FIRST;
        let is_own = parameters.face.is_none_or(|id| id == 0 || id == own);
        let Some(name) = parameters.name.as_ref().map(Name::detached).filter(|_| is_own) else {
            return (
                Response::failed(400, "expected a prefix, and no face but the sender's own"),
                None,
            );
        };
        let cost = parameters.cost.unwrap_or(0);
        let mut accepted = Parameters {
            name: Some(name.clone()),
            face: Some(own),
            origin: Some(parameters.origin.unwrap_or(0)),
            ..Parameters::default()
        };
        let key = (face, name.clone());
        let change = match verb {
            Verb::Unregister => {
                // A client cannot remove a route of the operator.
                let removed = self.routes.remove(&key);
                removed.map(|_| Command::RemoveRoute { prefix: name, peer: face })
            }
            Verb::Register => {
                if !self.accepted.iter().any(|accepted| accepted.is_prefix_of(&name)) {
                    return (
                        Response::failed(403, "registration of this prefix is not allowed"),
                        None,
                    );
                }
                if self.is_led(&name, operators) {
                    let refused = Response::failed(
                        403,
                        "the operator routes this prefix to \
                        another face",
                    );
                    return (refused, self.withdraw(&key, operators));
                }
                if !self.routes.contains_key(&key) && !self.has_room(face) {
                    return (Response::failed(507, "too many prefixes"), None);
                }
                let after = parameters.expires_after_ms.map(Duration::from_millis);
                let expires_at = after.and_then(|after| Instant::now().checked_add(after));
                self.routes.insert(key, expires_at);
                accepted.cost = Some(cost);
                accepted.flags = Some(parameters.flags.unwrap_or(1));
                accepted.expires_after_ms = parameters.expires_after_ms;
                let cost = u32::try_from(cost).unwrap_or(u32::MAX);
                Some(Command::AddRoute { prefix: name, peer: face, cost })
            }
        };
        (Response { code: 200, text: "OK".to_owned(), parameters: accepted }, change)
    }

    /// True if the operator's routes decide for this prefix. A route for `/` is a default route and
    /// does not count. Nor does a shorter route than a prefix that is open to registration.
    fn is_led(&self, prefix: &Name, operators: &OperatorRoutes) -> bool {
        let is_shorter = |one: &Name, other: &Name| one.component_count() < other.component_count();
        let leads = |route: &Name| {
            let is_default = route.component_count() == 0 && prefix.component_count() > 0;
            let is_left = self
                .accepted
                .iter()
                .any(|accepted| is_shorter(route, accepted) && accepted.is_prefix_of(prefix));
            route.is_prefix_of(prefix) && !is_default && !is_left
        };
        operators.iter().any(|(route, _)| leads(route))
    }

    /// Removes a registration. Returns the command that removes its route, unless the operator has
    /// the same one.
    fn withdraw(&mut self, key: &(NodeId, Name), operators: &OperatorRoutes) -> Option<Command> {
        self.routes.remove(key)?;
        let (peer, prefix) = key;
        let is_operators =
            |(route, face): &(Name, Option<NodeId>)| route == prefix && *face == Some(*peer);
        let (prefix, peer) = (prefix.clone(), *peer);
        (!operators.iter().any(is_operators)).then_some(Command::RemoveRoute { prefix, peer })
    }

    /// Withdraws registrations of prefixes for which the operator now has a route.
    pub(super) fn yield_to(&mut self, shared: &std::sync::Weak<Shared>) {
        let Some(shared) = shared.upgrade() else { return };
        let operators = shared.operator_routes();
        let led = self.routes.keys().filter(|(_, prefix)| self.is_led(prefix, &operators));
        for key in led.cloned().collect::<Vec<_>>() {
            if let Some(change) = self.withdraw(&key, &operators) {
                let _ = shared.node.command(change);
            }
        }
    }

    fn has_room(&self, face: NodeId) -> bool {
        let of_one =
            self.routes.range((face, Name::root())..).take_while(|((of, _), _)| *of == face);
        of_one.count() < OF_ONE_MAX && self.routes.len() < OF_ALL_MAX
    }

    /// Returns when a route may have expired.
    pub(super) async fn expiry(&self) {
        match self.routes.values().flatten().min() {
            Some(&at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Removes expired routes.
    pub(super) fn expire(&mut self, shared: &std::sync::Weak<Shared>) {
        let now = Instant::now();
        let Some(shared) = shared.upgrade() else { return };
        self.routes.retain(|(peer, prefix), expires_at| {
            let is_over = expires_at.is_some_and(|at| at <= now);
            if is_over {
                let change = Command::RemoveRoute { prefix: prefix.clone(), peer: *peer };
                let _ = shared.node.command(change);
            }
            !is_over
        });
    }

    /// Forgets the routes of closed faces, which the node has removed already.
    pub(super) fn forget_closed(&mut self, is_open: impl Fn(NodeId) -> bool) {
        self.routes.retain(|&(face, _), _| is_open(face));
    }

    /// True if routes of closed faces may take up room.
    pub(super) fn is_crowded(&self) -> bool {
        self.routes.len() >= OF_ALL_MAX / 2
    }
}

const LOCALHOST: &[u8] = b"localhost";
const LOCALHOP: &[u8] = b"localhop";

/// Whether the command is for clients of this machine, its verb, and its parameters; `None` if it
/// is not a command about prefixes.
fn command(name: &Name) -> Option<(bool, Option<Verb>, Bytes)> {
    let mut components = name.components();
    let mut next = || components.next();
    let scope = next()?;
    let is_local = match scope.value() {
        LOCALHOST => true,
        LOCALHOP => false,
        _ => return None,
    };
    if next()?.value() != b"nfd" || next()?.value() != b"rib" {
        return None;
    }
    let verb = match next()?.value() {
        b"register" => Some(Verb::Register),
        b"unregister" => Some(Verb::Unregister),
        _ => None,
    };
    Some((is_local, verb, Bytes::copy_from_slice(next()?.value())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(prefix: &str) -> Parameters {
        Parameters { name: Some(prefix.parse().unwrap()), ..Parameters::default() }
    }

    fn asked(scope: &str, verb: &str, parameters: &[u8]) -> Interest {
        let name: Name = format!("/{scope}/nfd/rib/{verb}").parse().unwrap();
        let name = name.generic(parameters).unwrap();
        Interest::signed(&name, b"", &Signer::Digest, (1, 2)).unwrap()
    }

    fn hear(rib: &mut Rib, from: &str, interest: &Interest) -> Option<(u64, Option<String>)> {
        hear_beside(&[], rib, from, interest)
    }

    /// The same where the operator has these routes, to other faces.
    fn hear_beside(
        operators: &[&str],
        rib: &mut Rib,
        from: &str,
        interest: &Interest,
    ) -> Option<(u64, Option<String>)> {
        let from = (NodeId(3), from.parse().unwrap());
        let operators =
            || operators.iter().map(|route| (route.parse().unwrap(), Some(NodeId(1)))).collect();
        let (data, change) = rib.hear(Some(from), interest, operators)?;
        assert_eq!(data.name(), &interest.name);
        let (code, _) = Response::decode(&data.content().to_bytes()).unwrap();
        let change = change.map(|change| match change {
            Command::AddRoute { prefix, peer, cost } => format!("add {prefix} {} {cost}", peer.0),
            Command::RemoveRoute { prefix, peer } => format!("remove {prefix} {}", peer.0),
            other => format!("{other:?}"),
        });
        Some((code, change))
    }

    const HERE: &str = "127.0.0.1:9";
    const THERE: &str = "192.0.2.1:9";

    #[test]
    fn a_client_adds_a_route_to_its_face_and_takes_it_away_once() {
        let mut rib = Rib::new(vec![Name::root()]);
        let encoded = Parameters { cost: Some(7), ..parameters("/a/b") }.encode();
        for scope in ["localhost", "localhop"] {
            let heard = hear(&mut rib, HERE, &asked(scope, "register", &encoded));
            assert_eq!(heard, Some((200, Some("add /a/b 3 7".to_owned()))));
        }
        let unregister = asked("localhop", "unregister", &encoded);
        let removed = Some("remove /a/b 3".to_owned());
        assert_eq!(hear(&mut rib, HERE, &unregister), Some((200, removed)));
        assert_eq!(hear(&mut rib, HERE, &unregister), Some((200, None)));
    }

    #[test]
    fn what_is_not_allowed_or_not_understood_changes_nothing() {
        let mut rib = Rib::new(vec![Name::root()]);
        let good = parameters("/a").encode();
        let refused = |code| Some((code, None));
        let local = asked("localhost", "register", &good);
        assert_eq!(hear(&mut rib, THERE, &local), refused(403), "it is not of this machine");
        assert_eq!(hear(&mut rib, HERE, &asked("localhop", "announce", &good)), refused(501));
        assert_eq!(hear(&mut rib, HERE, &asked("localhop", "register", b"\x68\x7f")), refused(400));
        let nothing = Parameters::default().encode();
        assert_eq!(hear(&mut rib, HERE, &asked("localhop", "register", &nothing)), refused(400));
        let others = Parameters { face: Some(256), ..parameters("/a") }.encode();
        assert_eq!(hear(&mut rib, HERE, &asked("localhop", "register", &others)), refused(400));
        let signed = asked("localhop", "register", &good);
        let forged = asked("localhop", "register", &parameters("/z").encode());
        let forged = Interest { extra: signed.extra, ..forged };
        assert_eq!(
            hear(&mut rib, HERE, &forged),
            refused(403),
            "the digest is of other parameters"
        );
        assert_eq!(rib.routes.len(), 0);
        let elsewhere = Interest::new("/localhop/nfd/faces/list".parse().unwrap(), 1);
        assert_eq!(hear(&mut rib, HERE, &elsewhere), None);
        let mut closed = Rib::new(Vec::new());
        assert_eq!(hear(&mut closed, HERE, &asked("localhop", "register", &good)), None);
    }

    #[test]
    fn a_prefix_that_the_operator_leads_or_does_not_accept_is_refused() {
        let mut rib = Rib::new(vec!["/apps".parse().unwrap(), "/p/live".parse().unwrap()]);
        let mut register = |operators: &[&str], prefix: &str| {
            let asked = asked("localhop", "register", &parameters(prefix).encode());
            hear_beside(operators, &mut rib, THERE, &asked).unwrap()
        };
        let added = |prefix: &str| (200, Some(format!("add {prefix} 3 0")));
        for prefix in ["/", "/p", "/appss"] {
            assert_eq!(register(&[], prefix), (403, None), "{prefix} is not accepted");
        }
        assert_eq!(
            register(&["/"], "/apps/a"),
            added("/apps/a"),
            "a default route is for the rest"
        );
        assert_eq!(register(&["/p"], "/p/live/a"), added("/p/live/a"), "accepted below the route");
        for route in ["/apps", "/apps/b"] {
            assert_eq!(register(&[route], "/apps/b"), (403, None), "{route} leads there");
            assert_eq!(register(&[route], "/apps/b/c"), (403, None), "{route} leads there");
        }
        // A route that comes later takes what was registered.
        let withdrawn = (403, Some("remove /apps/a 3".to_owned()));
        assert_eq!(register(&["/apps"], "/apps/a"), withdrawn);
        let mut all = Rib::new(vec![Name::root()]);
        let asked = asked("localhop", "register", &parameters("/p/file").encode());
        let refused = Some((403, None));
        assert_eq!(hear_beside(&["/p"], &mut all, HERE, &asked), refused);
    }

    #[test]
    fn one_neighbour_may_register_so_many_prefixes_and_the_same_one_again() {
        let mut rib = Rib::new(vec![Name::root()]);
        let mut register = |number: usize| {
            let encoded = parameters(&format!("/p/{number}")).encode();
            hear(&mut rib, HERE, &asked("localhop", "register", &encoded)).unwrap().0
        };
        assert!((0..OF_ONE_MAX).all(|number| register(number) == 200));
        assert_eq!((register(OF_ONE_MAX), register(7)), (507, 200));
    }
}
