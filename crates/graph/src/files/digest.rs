//! Digests, by which graphs are compared.

use super::NamedGraph;

/// Bytes hashed at once.
const PORTION: usize = 64 << 10;

impl NamedGraph {
    /// A fingerprint of the graph, its weights, labels and ids: 32 hexadecimal digits, the same for
    /// the same graph whatever file it came from. Reads all of it once.
    ///
    /// Source of the hash: O'Connor et al., *BLAKE3*, 2020; its first 128 bits.
    pub fn digest(&self) -> String {
        let graph = &self.graph;
        let mut hash = Hash(blake3::Hasher::new(), Vec::with_capacity(PORTION + 8));
        hash.array(graph.offsets().iter().map(|offset| offset.to_le_bytes()));
        hash.array(graph.targets().iter().map(|target| target.to_le_bytes()));
        let ids = (0..graph.vertices()).map(|vertex| self.ids.id(vertex).to_le_bytes());
        hash.array(ids.take_while(|_| !self.ids.is_identity()));
        let weights = self.weights.as_deref().unwrap_or_default();
        hash.array(weights.iter().map(|weight| weight.to_le_bytes()));
        hash.array(graph.labels().unwrap_or_default().iter().map(|label| label.to_le_bytes()));
        hash.0.finalize().to_hex()[..32].to_owned()
    }
}

struct Hash(blake3::Hasher, Vec<u8>);

impl Hash {
    /// Hashes an array and then its length, so that boundaries between arrays count too.
    fn array<const N: usize>(&mut self, entries: impl Iterator<Item = [u8; N]>) {
        let mut count = 0u64;
        for entry in entries {
            count += 1;
            self.1.extend_from_slice(&entry);
            if self.1.len() >= PORTION {
                self.0.update(&self.1);
                self.1.clear();
            }
        }
        self.1.extend_from_slice(&count.to_le_bytes());
        self.0.update(&self.1);
        self.1.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::files::{Options, read_bytes};

    #[test]
    fn every_part_of_a_graph_counts_and_its_file_does_not() {
        let digest = |name: &str, text: &str| {
            let read = read_bytes(Path::new(name), text.as_bytes().to_vec(), &Options::default());
            read.unwrap().digest()
        };
        let texts = [
            "0 1\n1 0\n",
            "0 1\n1 1\n",
            "0 1\n",
            "1 2\n2 1\n",
            "0 1 2\n1 0 2\n",
            "0 1 1 7\n1 0 1 7\n",
            "0 1 1 8\n1 0 1 7\n",
        ];
        let digests: std::collections::BTreeSet<String> =
            texts.iter().map(|text| digest("x.tsv", text)).collect();
        assert_eq!(digests.len(), texts.len());
        assert!(digests.iter().all(|digest| digest.len() == 32));
        assert_eq!(digest("x.tsv", "1 0\n# of another form\n0\t1\n"), digest("x.tsv", texts[0]));
        assert_eq!(digest("x.metis", "2 1\n2\n1\n"), digest("x.tsv", texts[0]));
    }
}
