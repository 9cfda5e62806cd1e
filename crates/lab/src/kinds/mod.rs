//! The kinds of `[protocol]`, as data: the keys of their scenarios. A service reads these keys;
//! [`services`](crate::services) finds the service by the kind's name.

mod chain;
mod group;
mod mircc;
mod overlay;
pub(crate) mod slingshot;
mod walk;

use paceline_proto::core::knobs::Knob;

/// A value of `[protocol] kind`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceKind {
    /// The value.
    pub(crate) name: &'static str,
    /// The keys that its own tables accept, so that an override may leave out the table's name.
    pub(crate) keys: Keys,
    /// True if its nodes send each other streams.
    pub(crate) sends_streams: bool,
}

impl ServiceKind {
    const fn of_streams(name: &'static str, keys: Keys) -> ServiceKind {
        ServiceKind { name, keys, sends_streams: true }
    }

    const fn of_datagrams(name: &'static str, keys: Keys) -> ServiceKind {
        ServiceKind { name, keys, sends_streams: false }
    }
}

/// All kinds, in the order in which messages list them.
pub(crate) static KINDS: &[ServiceKind] = &[
    ServiceKind::of_streams("chain", chain::KEYS),
    ServiceKind::of_streams("group", group::KEYS),
    ServiceKind::of_streams("overlay", overlay::KEYS),
    ServiceKind::of_datagrams("slingshot", slingshot::KEYS),
    ServiceKind::of_datagrams("srm", slingshot::SRM_KEYS),
    ServiceKind::of_datagrams("nak", slingshot::NAK_KEYS),
    ServiceKind::of_datagrams("digest-pull", slingshot::DIGEST_KEYS),
    ServiceKind::of_datagrams("sender-fec", slingshot::FEC_KEYS),
    ServiceKind::of_datagrams("ack", slingshot::ACK_KEYS),
    ServiceKind::of_datagrams("gossip", slingshot::GOSSIP_KEYS),
    ServiceKind::of_datagrams("mircc", mircc::KEYS),
    ServiceKind::of_streams("walk", walk::KEYS),
];

/// The values of `[protocol] kind`.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// The kind of this name.
pub(crate) fn find(name: &str) -> Option<&'static ServiceKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The keys that the own tables of this kind accept; none if there is no such kind.
pub(crate) fn keys(name: &str) -> Keys {
    find(name).map_or(Keys::NONE, |kind| kind.keys)
}

/// The keys that the tables of a service accept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// Tables, each with keys that the service reads by name.
    pub(crate) named: &'static [(&'static str, &'static [&'static str])],
    /// Knobs, which are keys of `[protocol]`.
    pub(crate) knobs: &'static [&'static [Knob]],
    /// Former names of keys of `[protocol]`, each with its present one.
    pub(crate) renamed: &'static [(&'static str, &'static str)],
}

impl Keys {
    /// No key.
    pub(crate) const NONE: Keys = Keys { named: &[], knobs: &[], renamed: &[] };

    /// Each key with its table.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let named =
            self.named.iter().flat_map(|&(table, keys)| keys.iter().map(move |&key| (table, key)));
        let knobs = self.knobs.iter().flat_map(|knobs| knobs.iter());
        named.chain(knobs.filter(|knob| knob.is_key).map(|knob| ("protocol", knob.name)))
    }

    /// The present name of a key, if it had another one.
    pub(crate) fn renamed(&self, key: &str) -> Option<&'static str> {
        self.renamed.iter().find(|(former, _)| *former == key).map(|&(_, present)| present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_each_key_once_and_a_former_name_leads_to_a_key() {
        let is_key = |keys: Keys, key| keys.all().any(|known| known == ("protocol", key));
        for &ServiceKind { name: service, keys, .. } in KINDS {
            let mut all: Vec<_> = keys.all().collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "{service}");
            for &(former, present) in keys.renamed {
                assert!(!is_key(keys, former), "{service}: {former}");
                assert!(KINDS.iter().any(|kind| is_key(kind.keys, present)), "{present}");
            }
        }
    }
}
