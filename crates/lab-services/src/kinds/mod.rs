//! The kinds of `[protocol]`, as data: the keys of their scenarios. A service reads these keys; the
//! catalog gives them to the readers of scenarios.

mod chain;
mod group;
mod mircc;
mod overlay;
pub(crate) mod slingshot;
mod walk;

use paceline_lab::scenario::ServiceKind;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::CATALOG;
    use paceline_lab::scenario::Keys;

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

    #[test]
    fn links_that_lose_all_are_refused_to_the_kinds_that_send_streams() {
        for kind in CATALOG.kind_names() {
            let text =
                format!("[topology]\nnodes = 3\nloss = \"100%\"\n[protocol]\nkind = \"{kind}\"");
            let resolved = CATALOG.parse("t.toml", &text).unwrap().resolve();
            let sends_streams = ["chain", "group", "overlay", "walk"].contains(&kind);
            match resolved.map(|_| ()) {
                Ok(()) => assert!(!sends_streams, "{kind}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(sends_streams, "{said}");
                    assert!(said.starts_with("t.toml:3:8"), "{said}");
                    assert!(said.contains("a link that loses every packet is a cut"), "{said}");
                }
            }
        }
    }
}
