//! The JSON Schema of scenario files, for editors.
//!
//! It is made of what the readers of tables ask for: small scenarios of every service are read,
//! once for each word that a key accepts, and each key that a reader asks for is a property. Knobs
//! bring their descriptions along.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Scenario, ScenarioFile, units};
use crate::services::kinds;
use crate::{chain, group, mircc, overlay, slingshot, walk};

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

/// A key that a reader asked for, and what it said of it.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) table: String,
    pub(crate) key: String,
    pub(crate) form: Option<Form>,
    pub(crate) default: Option<toml::Value>,
    pub(crate) about: &'static str,
}

/// One key, of all that was said of it.
#[derive(Clone, Debug, Default)]
struct Property {
    forms: Vec<Form>,
    default: Option<toml::Value>,
    about: &'static str,
}

/// Keys by table and name.
type Properties = BTreeMap<(String, String), Property>;

/// Small scenarios of each service, with two numbers of nodes where there may be: bounds that
/// depend on them differ.
fn samples(service: &str) -> Vec<String> {
    let of = |nodes: u32, rest: &str| {
        format!("[topology]\nnodes = {nodes}\n[protocol]\nkind = \"{service}\"\n{rest}")
    };
    match service {
        "overlay" => [3, 5].map(|nodes| of(nodes, "[workload]\nclients = 1\n")).to_vec(),
        "mircc" => vec![of(10, "[workload]\nnetwork = \"dumbbell\"\n")],
        "chain" | "group" | "walk" => [3, 5].map(|nodes| of(nodes, "")).to_vec(),
        // Of multicast in time, also with a search for the throughput.
        _ => ["", "[measure]\nthroughput_within = \"20ms\"\n"]
            .into_iter()
            .flat_map(|measure| [3, 5].map(|nodes| of(nodes, measure)))
            .collect(),
    }
}

/// One table of each kind of fault.
const FAULTS: [&str; 5] = [
    "kind = \"crash\"\nnode = 1\nfor = \"1s\"",
    "kind = \"heal\"",
    "kind = \"partition\"\ngroups = [[0], [1]]\nfor = \"1s\"",
    "kind = \"reset\"\nfrom = 0\nto = 1",
    "kind = \"link\"\nfor = \"1s\"",
];

fn read(scenario: &Scenario) {
    // What is missing of a sample is found out later than what it is asked for.
    let _ = match scenario.service {
        "chain" => chain::Broadcast::read(scenario).map(drop),
        "group" => group::Members::read(scenario).map(drop),
        "overlay" => overlay::Settings::read(scenario, 1).map(drop),
        "mircc" => mircc::Settings::read(scenario, 1).map(drop),
        "walk" => walk::Settings::read(scenario, 1).map(drop),
        _ => slingshot::Settings::read(scenario).map(drop),
    };
}

/// Reads a sample with an override, and adds what it was asked for.
fn explore(text: &str, set: Option<&str>, out: &mut Properties) {
    let file = ScenarioFile::parse("sample.toml", text).and_then(|file| file.with_sets(set));
    let Ok(scenario) = file.and_then(|file| file.resolve()) else {
        return;
    };
    read(&scenario);
    let described = scenario.record.described.lock().expect("no reader panics with it held");
    for described in described.iter().filter(|described| !described.table.contains('.')) {
        let place = (described.table.clone(), described.key.clone());
        out.entry(place).or_default().add(described, set.is_none());
    }
}

impl Property {
    fn add(&mut self, described: &Described, is_plain: bool) {
        if let Some(form) = &described.form {
            match (self.forms.iter_mut().find(|known| known.is_like(form)), form) {
                (None, form) => self.forms.push(form.clone()),
                (Some(Form::Integer(least, most)), Form::Integer(l, m)) => {
                    // A bound that depends on the number of nodes is none of the schema.
                    *least = if *least == *l { *l } else { 0 };
                    *most = if *most == *m { *m } else { i64::MAX };
                }
                (Some(Form::Word(words)), Form::Word(more)) => {
                    let new = more.iter().filter(|word| !words.contains(word));
                    let new: Vec<String> = new.cloned().collect();
                    words.extend(new);
                }
                (Some(Form::Number(least, most)), Form::Number(l, m)) => {
                    (*least, *most) = (least.min(*l), most.max(*m));
                }
                _ => {}
            }
        }
        // With an override a default may be another one: that of a preset.
        if is_plain && self.default.is_none() {
            self.default = described.default.clone();
        }
        if self.about.is_empty() {
            self.about = described.about;
        }
    }

    fn schema(&self) -> Value {
        let mut forms: Vec<Value> = self.forms.iter().map(Form::schema).collect();
        let mut schema = match forms.len() {
            1 => forms.remove(0),
            _ => json!({ "anyOf": forms }),
        };
        if let (Some(object), about) = (schema.as_object_mut(), self.about) {
            if !about.is_empty() {
                object.insert("description".into(), about.into());
            }
            if let Some(default) = &self.default {
                object.insert("default".into(), json!(default));
            }
        }
        schema
    }
}

impl Form {
    fn is_like(&self, other: &Form) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn schema(&self) -> Value {
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

/// The schema of the keys of one table.
fn table(properties: &Properties, name: &str) -> Value {
    let keys = properties.iter().filter(|((table, _), _)| table == name);
    let keys: Map<String, Value> =
        keys.map(|((_, key), property)| (key.clone(), property.schema())).collect();
    json!({ "type": "object", "properties": keys, "additionalProperties": false })
}

/// Everything that scenarios of a service are asked for.
fn explored(service: &str) -> Properties {
    let mut found = Properties::new();
    for text in samples(service) {
        explore(&text, None, &mut found);
        let mut tried = BTreeSet::new();
        loop {
            let sets = found.iter().flat_map(|((table, key), property)| {
                let words = property.forms.iter().filter_map(|form| match form {
                    Form::Word(words) => Some(words),
                    _ => None,
                });
                let path = if table.is_empty() { key.clone() } else { format!("{table}.{key}") };
                words.flatten().map(move |word| format!("{path}={word}"))
            });
            let of_kind =
                |set: &String| set.starts_with("protocol.kind=") || set.starts_with("faults.");
            let sets: Vec<String> =
                sets.filter(|set| !of_kind(set) && !tried.contains(set)).collect();
            if sets.is_empty() {
                break;
            }
            for set in sets {
                explore(&text, Some(&set), &mut found);
                tried.insert(set);
            }
        }
    }
    found
}

/// The JSON Schema (draft 7) of scenario files: keys, types, units, defaults and descriptions of
/// every table, for editors that complete and check TOML.
pub fn schema() -> Value {
    let mut shared = Properties::new();
    let mut services = Vec::new();
    for service in kinds() {
        let mut found = explored(service);
        let kind =
            Property { forms: vec![Form::Word(vec![service.to_owned()])], ..Property::default() };
        found.insert(("protocol".to_owned(), "kind".to_owned()), kind);
        let tables =
            ["protocol", "workload", "measure"].map(|name| (name.to_owned(), table(&found, name)));
        let mut tables: Map<String, Value> = tables.into_iter().collect();
        tables["protocol"]["required"] = json!(["kind"]);
        services.push(json!({ "properties": tables }));
        shared.extend(
            found.into_iter().filter(|((table, _), _)| table.is_empty() || table == "topology"),
        );
    }
    for fault in FAULTS {
        let text = samples("chain").remove(0);
        explore(&format!("{text}[[faults]]\nat = \"1s\"\n{fault}\n"), None, &mut shared);
    }
    if let Some(name) = shared.get_mut(&(String::new(), "name".to_owned())) {
        // The file's, which no sample has.
        name.default = None;
    }
    let mut top = table(&shared, "");
    for name in ["protocol", "workload", "measure"] {
        top["properties"][name] = json!({ "type": "object" });
    }
    top["properties"]["topology"] = table(&shared, "topology");
    top["properties"]["topology"]["required"] = json!(["nodes"]);
    top["properties"]["faults"] = json!({ "type": "array", "items": table(&shared, "faults") });
    top["properties"]["sweep"] = json!({ "type": "object" });
    top["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    top["title"] = json!("A scenario of paceline");
    top["required"] = json!(["topology", "protocol"]);
    top["anyOf"] = json!(services);
    top
}

#[cfg(test)]
mod tests {
    use regex_lite::Regex;

    use super::*;
    use crate::scenario::{builtin_names, builtin_text};

    /// The first reason why a value is not as a schema of this module says; enough of draft 7 for
    /// what [`schema`] uses.
    fn fault(schema: &Value, value: &Value, path: &str) -> Option<String> {
        let is_of = |name: &str| match name {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            other => panic!("type {other}"),
        };
        for (keyword, rule) in schema.as_object().expect("a schema is an object") {
            let holds = match keyword.as_str() {
                "type" => match rule {
                    Value::String(name) => is_of(name),
                    names => {
                        names.as_array().unwrap().iter().any(|name| is_of(name.as_str().unwrap()))
                    }
                },
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
                "pattern" => value
                    .as_str()
                    .is_none_or(|text| Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
                "required" => rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|key| value.get(key.as_str().unwrap()).is_some()),
                "anyOf" => {
                    let faults: Vec<_> = rule
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|one| fault(one, value, path))
                        .collect();
                    if faults.iter().all(Option::is_some) {
                        return Some(format!("{path}: none of {faults:?}"));
                    }
                    true
                }
                "items" => {
                    let items = value.as_array().into_iter().flatten();
                    if let Some(said) = items.filter_map(|item| fault(rule, item, path)).next() {
                        return Some(said);
                    }
                    true
                }
                "properties" => {
                    for (key, rule) in rule.as_object().unwrap() {
                        let said = value
                            .get(key)
                            .and_then(|value| fault(rule, value, &format!("{path}.{key}")));
                        if said.is_some() {
                            return said;
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let known = |key: &String| schema["properties"].get(key).is_some();
                    value.as_object().is_none_or(|object| object.keys().all(known))
                }
                "$schema" | "title" | "description" | "default" => true,
                other => panic!("keyword {other}"),
            };
            if !holds {
                return Some(format!("{path}: {keyword} {rule} does not allow {value}"));
            }
        }
        None
    }

    fn json_of(text: &str) -> Value {
        serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap()
    }

    #[test]
    fn every_built_in_scenario_is_as_the_schema_says_and_a_wrong_key_is_not() {
        let schema = schema();
        for name in builtin_names() {
            let scenario = json_of(builtin_text(name).unwrap());
            assert_eq!(fault(&schema, &scenario, name), None);
            for table in ["topology", "protocol", "workload"] {
                let mut wrong = scenario.clone();
                wrong[table]["no_such_key"] = json!(1);
                assert!(fault(&schema, &wrong, name).is_some(), "{name} [{table}]");
            }
        }
        for wrong in [
            "rate = \"10mbit\"\nnodes = 3\n[protocol]\nkind = \"chain\"",
            "nodes = 0\n[protocol]\nkind = \"chain\"",
            "nodes = 3\n[protocol]\nkind = \"chain\"\nhop = \"32KiB\"",
            "nodes = 3\n[protocol]\nkind = \"chain\"\nhop_bytes = 32",
            "nodes = 3\n[protocol]\nkind = \"group\"\nlink_dead_after = \"5\"",
            "nodes = 3\n[protocol]\nkind = \"walk\"\nmethod = \"none\"",
            "nodes = 3\n[protocol]\nkind = \"ring\"",
        ] {
            let scenario = json_of(&format!("[topology]\n{wrong}"));
            assert!(fault(&schema, &scenario, "scenario").is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_knob_brings_its_description_and_default_into_the_schema() {
        let schema = schema();
        let services = schema["anyOf"].as_array().unwrap();
        let chain = &services[0]["properties"]["protocol"]["properties"];
        assert_eq!(chain["kind"]["enum"], json!(["chain"]));
        assert_eq!(chain["hop_bytes"]["default"], json!("32KiB"));
        assert!(chain["hop_bytes"]["description"].as_str().unwrap().starts_with("Bytes of a hop"));
        // Keys that only one network or walk is asked for are there as well.
        let of = |kind: &str, table: &str, key: &str| {
            let at = kinds().position(|known| known == kind).unwrap();
            !services[at]["properties"][table]["properties"][key].is_null()
        };
        assert!(of("mircc", "workload", "upper") && of("mircc", "workload", "short"));
        assert!(of("slingshot", "protocol", "window") && of("walk", "workload", "alpha"));
        assert!(of("overlay", "protocol", "successors") && of("srm", "protocol", "c1"));
    }
}
