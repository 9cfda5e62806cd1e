//! The key `senders` of a workload: the members that send.

use paceline_proto::core::NodeId;

use super::document::Kind;
use super::form::Form;
use super::reader::Table;
use crate::LabError;

const ACCEPTED: &str = "\"one\", \"all\", a number of nodes (the first 2), or nodes: [0, 2], \
    [0, \"2-7\"]";

/// The senders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Senders {
    /// Node 0.
    One,
    /// Every node.
    All,
    /// The first of this many: neighbours.
    First(u32),
    /// These, in order.
    Listed(Vec<NodeId>),
}

impl Senders {
    /// Reads the key, `one` if it is not there. No node is named twice, and there is one at least.
    pub fn read<'a>(table: &mut Table<'a>, key: &'a str, nodes: u32) -> Result<Senders, LabError> {
        table.describe(key, Some(Form::Senders), None, "");
        match table.kind(key) {
            Some(Kind::Integer(_)) => {
                let first = table.integer_or(key, 1..=nodes, 1)?;
                Ok(if first == nodes { Senders::All } else { Senders::First(first) })
            }
            Some(Kind::Array(_)) => Senders::listed(table, key, nodes),
            Some(Kind::Text(word)) if !["one", "all"].contains(&word.as_str()) => {
                Err(table.error(key, format!("`{key}` cannot be {word:?}"), ACCEPTED))
            }
            None | Some(Kind::Text(_)) => {
                let is_one = table.choice_or(key, &[("one", true), ("all", false)], "one")?;
                Ok(if is_one { Senders::One } else { Senders::All })
            }
            Some(_) => Err(table.error(key, format!("bad value for `{key}`"), ACCEPTED)),
        }
    }

    /// The same of a key that may be absent.
    pub fn read_optional<'a>(
        table: &mut Table<'a>,
        key: &'a str,
        nodes: u32,
    ) -> Result<Option<Senders>, LabError> {
        table.kind(key).is_some().then(|| Senders::read(table, key, nodes)).transpose()
    }

    fn listed<'a>(table: &mut Table<'a>, key: &'a str, nodes: u32) -> Result<Senders, LabError> {
        let mut listed = table.nodes_optional(key, nodes)?.unwrap_or_default();
        let count = listed.len();
        listed.sort_unstable();
        listed.dedup();
        if listed.is_empty() || listed.len() < count {
            let problem = match count {
                0 => format!("`{key}` names no node"),
                _ => format!("`{key}` names a node twice"),
            };
            return Err(table.error(key, problem, ACCEPTED));
        }
        Ok(Senders::Listed(listed.into_iter().map(NodeId::from).collect()))
    }

    /// The senders among this many nodes.
    pub fn nodes(&self, nodes: u32) -> Vec<NodeId> {
        match self {
            Senders::One => vec![NodeId(0)],
            Senders::All => (0..nodes).map(NodeId::from).collect(),
            Senders::First(first) => (0..*first).map(NodeId::from).collect(),
            Senders::Listed(listed) => listed.clone(),
        }
    }

    /// How many.
    pub fn count(&self, nodes: u32) -> u64 {
        match self {
            Senders::One => 1,
            Senders::All => u64::from(nodes),
            Senders::First(first) => u64::from(*first),
            Senders::Listed(listed) => listed.len() as u64,
        }
    }

    /// As a figure's id says it: `one`, `all`, `k3` for three neighbours, `all-but-one`, or
    /// `at-0-2-5`.
    pub fn name(&self, nodes: u32) -> String {
        match self {
            Senders::One => "one".to_owned(),
            Senders::All => "all".to_owned(),
            Senders::First(first) => format!("k{first}"),
            Senders::Listed(listed) if listed.len() + 1 == nodes as usize && nodes > 2 => {
                "all-but-one".to_owned()
            }
            Senders::Listed(listed) => {
                let numbers: Vec<String> = listed.iter().map(|node| node.0.to_string()).collect();
                format!("at-{}", numbers.join("-"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::sample::CATALOG;

    fn read(senders: &str) -> Result<Senders, String> {
        let text = "[topology]\nnodes = 5\n[protocol]\nkind = \"chain\"";
        let file = CATALOG.parse("t.toml", text).unwrap();
        let file = file.with_sets([format!("workload.senders={senders}")]).unwrap();
        let scenario = file.resolve().unwrap();
        let mut table = scenario.workload();
        Senders::read(&mut table, "senders", 5).map_err(|error| error.to_string())
    }

    #[test]
    fn senders_are_a_word_a_number_or_a_list() {
        let listed =
            |nodes: &[u32]| Senders::Listed(nodes.iter().copied().map(NodeId::from).collect());
        let cases = [
            ("one", Senders::One, "one"),
            ("all", Senders::All, "all"),
            ("2", Senders::First(2), "k2"),
            ("5", Senders::All, "all"),
            ("[3]", listed(&[3]), "at-3"),
            ("[4, 0]", listed(&[0, 4]), "at-0-4"),
            ("[0, \"2-4\"]", listed(&[0, 2, 3, 4]), "all-but-one"),
        ];
        for (text, senders, name) in cases {
            let found = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((&found, found.name(5).as_str()), (&senders, name), "{text}");
            assert_eq!(found.count(5), found.nodes(5).len() as u64);
        }
    }

    #[test]
    fn what_names_no_sender_or_one_twice_is_refused() {
        for text in ["0", "6", "[]", "[1, 1]", "[5]", "[0, \"0-2\"]", "some", "true", "1.5"] {
            let error = read(text).expect_err(text);
            assert!(error.contains("`senders`"), "{text}: {error}");
        }
    }
}
