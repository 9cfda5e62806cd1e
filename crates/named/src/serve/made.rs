//! Recently made Data, so that a repeated Interest gets the same Data.

use std::collections::{HashMap, VecDeque};

use paceline_proto::ndn::{Data, Name};

/// Data that is kept: about a megabyte.
const KEPT_MAX: usize = 1_024;

/// The most recent Data.
#[derive(Debug, Default)]
pub struct Made {
    data: HashMap<Name, Data>,
    order: VecDeque<Name>,
}

impl Made {
    /// The Data with exactly this name.
    pub fn find(&self, name: &Name) -> Option<&Data> {
        self.data.get(name)
    }

    /// Keeps a Data, and drops the oldest if there are too many.
    pub fn keep(&mut self, data: &Data) {
        if self.data.insert(data.name().clone(), data.clone()).is_some() {
            return;
        }
        self.order.push_back(data.name().clone());
        if self.order.len() > KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.data.remove(&oldest);
        }
    }
}
