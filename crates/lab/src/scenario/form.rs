use serde_json::{Value, json};

use super::units;

/// What a key accepts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    Text,
    Boolean,
    Integer(i64, i64),
    Number(f64, f64),
    Rate,
    Duration,
    Size,
    Frequency,
    Probability,
    Word(Vec<String>),
    Nodes,
    Groups,
    Senders,
    Table,
}

/// A key that a reader requested, and its description.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) table: String,
    pub(crate) key: String,
    pub(crate) form: Option<Form>,
    pub(crate) default: Option<toml::Value>,
    pub(crate) about: &'static str,
}

impl Form {
    /// True if both are of one kind, whatever they accept of it.
    pub(crate) fn is_like(&self, other: &Form) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The JSON Schema of it.
    pub(crate) fn schema(&self) -> Value {
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
