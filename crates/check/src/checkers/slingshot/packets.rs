use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_proto::core::{GroupId, NodeId, Payload, View, ViewId};
use paceline_proto::slingshot::{Data, Names};

/// The packets of a sender to a group, in one life of the sender.
pub(super) type Source = (GroupId, NodeId, u64);

/// A packet as repairs name it: group, sender, number and checksum.
type Key = (GroupId, NodeId, u32, u32);

/// All packets of a run. Each has a number here, also those that are only named.
#[derive(Debug, Default)]
pub(super) struct Packets {
    by_key: BTreeMap<Key, u32>,
    by_source: BTreeMap<(Source, u64), u32>,
    /// What was sent; `None` if a member made the name up.
    payloads: Vec<Option<Payload>>,
    views: BTreeMap<ViewId, Arc<View>>,
}

impl Packets {
    pub(super) fn note_view(&mut self, view: &Arc<View>) {
        self.views.insert(view.id(), view.clone());
    }

    /// A packet leaves its sender. Its number.
    pub(super) fn send(&mut self, from: NodeId, data: &Data) -> u32 {
        let number = self.number(from, data);
        self.payloads[number as usize] = Some(data.payload.clone());
        self.by_source.insert(((data.group, from, data.incarnation), data.seq), number);
        number
    }

    /// The number of a packet that came, whether it was sent or made up.
    pub(super) fn number(&mut self, sender: NodeId, data: &Data) -> u32 {
        self.number_of((data.group, sender, data.seq as u32, data.checksum))
    }

    fn number_of(&mut self, key: Key) -> u32 {
        let next = self.payloads.len() as u32;
        let number = *self.by_key.entry(key).or_insert(next);
        if number == next {
            self.payloads.push(None);
        }
        number
    }

    /// The member of that rank.
    pub(super) fn member(&self, view: ViewId, rank: u16) -> Option<NodeId> {
        Some(self.views.get(&view)?.members().get(usize::from(rank))?.node)
    }

    /// The packets that a message names, each with its group, sender and the number there; empty
    /// if one has no known sender.
    pub(super) fn named(
        &mut self,
        view: ViewId,
        names: &Names,
    ) -> Vec<(u32, GroupId, NodeId, u64)> {
        let mut named = Vec::with_capacity(names.len());
        for name in names.iter() {
            let Some(sender) = self.member(view, name.rank) else { return Vec::new() };
            let number = self.number_of((name.group, sender, name.seq, name.checksum));
            named.push((number, name.group, sender, name.seq.into()));
        }
        named
    }

    /// The number of what was sent so.
    pub(super) fn sent(&self, source: Source, seq: u64) -> Option<u32> {
        self.by_source.get(&(source, seq)).copied()
    }

    pub(super) fn payload(&self, number: u32) -> Option<&Payload> {
        self.payloads[number as usize].as_ref()
    }

    /// How many packets were sent.
    pub(super) fn sent_total(&self) -> u64 {
        self.by_source.len() as u64
    }
}
