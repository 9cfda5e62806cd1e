use serde_json::{Value, json};

use super::units;

/// What a key accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Any text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number, from the first to the second.
    Integer(i64, i64),
    /// A number, from the first to the second.
    Number(f64, f64),
    /// A rate in bits or bytes a second, with its unit.
    Rate,
    /// A duration with its unit.
    Duration,
    /// A number of bytes with its unit.
    Size,
    /// A number of times a second.
    Frequency,
    /// A number from 0 to 1, or a percentage.
    Probability,
    /// One of these words.
    Word(Vec<String>),
    /// A node, a range of nodes, or a list of these.
    Nodes,
    /// A list of groups of nodes.
    Groups,
    /// The nodes that send: a word, a number or a list.
    Senders,
    /// A table.
    Table,
}

/// A key that a reader requested, and its description.
#[derive(Clone, Debug)]
pub struct Described {
    /// The table.
    pub table: String,
    /// The key.
    pub key: String,
    /// What it accepts, where the reader said so.
    pub form: Option<Form>,
    /// What the scenario uses without the key.
    pub default: Option<toml::Value>,
    /// What the key sets; empty where the reader did not say.
    pub about: &'static str,
}

impl Form {
    /// True if both are of one kind, whatever they accept of it.
    pub fn is_like(&self, other: &Form) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The JSON Schema of it.
    pub fn schema(&self) -> Value {
        let text = |pattern: String| json!({ "type": "string", "pattern": pattern });
        let nodes = || json!({ "type": ["integer", "string", "array"] });
        match self {
            Form::Text => json!({ "type": "string" }),
            Form::Boolean => json!({ "type": "boolean" }),
            Form::Integer(least, i64::MAX) => json!({ "type": "integer", "minimum": least }),
            Form::Integer(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Form::Number(least, most) => {
                let mut schema = json!({ "type": "number" });
                if *least > f64::MIN {
                    schema["minimum"] = json!(least);
                }
                if *most < f64::MAX {
                    schema["maximum"] = json!(most);
                }
                schema
            }
            Form::Rate => text(units::rate_pattern()),
            Form::Duration => text(units::duration_pattern()),
            Form::Size => text(units::size_pattern()),
            Form::Frequency => text(units::frequency_pattern()),
            Form::Probability => json!({ "anyOf": [
                { "type": "number", "minimum": 0, "maximum": 1 },
                text(units::percentage_pattern()),
            ] }),
            Form::Word(words) => json!({ "enum": words }),
            Form::Nodes => nodes(),
            Form::Groups => json!({ "type": "array", "items": nodes() }),
            Form::Senders => nodes(),
            Form::Table => json!({ "type": "object" }),
        }
    }
}
