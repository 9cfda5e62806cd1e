//! The requested walks, independent of where they run.

use std::ops::Range;

use paceline_graph::Vertex;
use paceline_graph::corpus::Origin;
use paceline_graph::files::NamedGraph;
use paceline_graph::walk::{ExactLengths, Kind, Length};

use super::kind::Asked;

/// Walks over a graph: from each of some sources equally many. Walk `k` of the `i`-th source has
/// the number `i * walks_per_source + k`.
pub struct Plan {
    pub named: NamedGraph,
    pub asked: Asked,
    pub seed: u64,
    /// Where walks begin; `None`: at every vertex.
    pub sources: Option<Vec<Vertex>>,
    pub walks_per_source: u32,
}

impl Plan {
    /// How many vertices walks begin at.
    pub fn sources(&self) -> u64 {
        let all = u64::from(self.named.graph.vertices());
        self.sources.as_ref().map_or(all, |sources| sources.len() as u64)
    }

    /// How many walks there are.
    pub fn walks(&self) -> u64 {
        self.sources() * u64::from(self.walks_per_source)
    }

    /// All that a file of these walks hangs on.
    pub fn origin(&self) -> Origin {
        let sources = match &self.sources {
            None => "all".to_owned(),
            Some(sources) => {
                let ids = sources.iter().map(|&source| self.named.ids.id(source));
                let mut hasher = crc32fast::Hasher::new();
                ids.for_each(|id| hasher.update(&id.to_le_bytes()));
                format!("{} of checksum {:08x}", sources.len(), hasher.finalize())
            }
        };
        let facts = [
            ("graph", self.named.digest()),
            ("kind", self.asked.name.clone()),
            ("seed", self.seed.to_string()),
            ("sources", sources),
            ("walks of a source", self.walks_per_source.to_string()),
        ];
        facts.map(|(name, fact)| (name.to_owned(), fact)).into()
    }

    /// The exact lengths of these walks, if their length is drawn. `share_min` as
    /// [`ExactLengths::of`] has it.
    pub fn exact_lengths(&self, walks: Range<u64>, share_min: f64) -> Option<ExactLengths> {
        let length @ Length::Geometric { .. } = self.asked.length else { return None };
        if self.asked.kind != Kind::Uniform {
            return None;
        }
        let graph = &self.named.graph;
        let mut weights = vec![0.0; graph.vertices() as usize];
        let each = u64::from(self.walks_per_source);
        for place in walks.start / each..walks.end.div_ceil(each) {
            let source = match &self.sources {
                Some(sources) => sources[place as usize],
                None => place as Vertex,
            };
            let begin = (place * each).max(walks.start);
            let end = ((place + 1) * each).min(walks.end);
            weights[source as usize] += (end - begin) as f64;
        }
        Some(ExactLengths::of(graph, length, &weights, share_min))
    }
}
