//! The JSON Schema of scenario files, for editors.
//!
//! It follows from the readers of tables: small scenarios of every service are read, once for each
//! word that a key accepts, and each key that a reader requests becomes a property. Knobs supply
//! their descriptions.

use std::collections::{BTreeMap, BTreeSet};

use paceline_lab::scenario::{Described, Form};
use serde_json::{Map, Value, json};

use crate::catalog::CATALOG;
use crate::services::{Row, SERVICES};

/// One key, with all its descriptions.
#[derive(Clone, Debug, Default)]
struct Property {
    forms: Vec<Form>,
    default: Option<toml::Value>,
    about: &'static str,
}

/// Keys by table and name.
type Properties = BTreeMap<(String, String), Property>;

/// One table of each kind of fault.
const FAULTS: [&str; 5] = [
    "kind = \"crash\"\nnode = 1\nfor = \"1s\"",
    "kind = \"heal\"",
    "kind = \"partition\"\ngroups = [[0], [1]]\nfor = \"1s\"",
    "kind = \"reset\"\nfrom = 0\nto = 1",
    "kind = \"link\"\nfor = \"1s\"",
];

/// Reads a sample with an override, and adds what it was asked for.
fn explore(row: &Row, text: &str, set: Option<&str>, out: &mut Properties) {
    let file = CATALOG.parse("sample.toml", text).and_then(|file| file.with_sets(set));
    let Ok(scenario) = file.and_then(|file| file.resolve()) else {
        return;
    };
    // What is missing of a sample is found out later than what it is asked for.
    let _ = (row.read)(&scenario);
    for described in scenario.described().iter().filter(|described| !described.table.contains('.'))
    {
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
                    // The schema leaves out a bound that depends on the number of nodes.
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

/// The schema of the keys of one table.
fn table(properties: &Properties, name: &str) -> Value {
    let keys = properties.iter().filter(|((table, _), _)| table == name);
    let keys: Map<String, Value> =
        keys.map(|((_, key), property)| (key.clone(), property.schema())).collect();
    json!({ "type": "object", "properties": keys, "additionalProperties": false })
}

/// Small scenarios of one of the service's kinds.
fn samples(row: &Row, kind: &str) -> impl Iterator<Item = String> {
    row.samples.iter().map(move |(nodes, rest)| {
        format!("[topology]\nnodes = {nodes}\n[protocol]\nkind = \"{kind}\"\n{rest}")
    })
}

/// Everything that scenarios of one of the service's kinds are asked for.
fn explored(row: &Row, kind: &str) -> Properties {
    let mut found = Properties::new();
    for text in samples(row, kind) {
        explore(row, &text, None, &mut found);
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
                explore(row, &text, Some(&set), &mut found);
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
    let (mut services, mut hosted) = (Vec::new(), Vec::new());
    let kinds = SERVICES.iter().flat_map(|row| row.kinds.iter().map(move |&kind| (row, kind)));
    for (row, service) in kinds {
        let mut found = explored(row, service);
        let kind =
            Property { forms: vec![Form::Word(vec![service.to_owned()])], ..Property::default() };
        found.insert(("protocol".to_owned(), "kind".to_owned()), kind);
        let tables =
            ["protocol", "workload", "measure"].map(|name| (name.to_owned(), table(&found, name)));
        let mut tables: Map<String, Value> = tables.into_iter().collect();
        tables["protocol"]["required"] = json!(["kind"]);
        if row.is_hosted() {
            hosted.push(json!({ "properties": tables.clone() }));
        }
        services.push(json!({ "required": ["protocol"], "properties": tables }));
        shared.extend(
            found.into_iter().filter(|((table, _), _)| table.is_empty() || table == "topology"),
        );
    }
    for fault in FAULTS {
        let row = &SERVICES[0];
        let text = samples(row, row.kinds[0]).next().unwrap_or_default();
        explore(row, &format!("{text}[[faults]]\nat = \"1s\"\n{fault}\n"), None, &mut shared);
    }
    if let Some(name) = shared.get_mut(&(String::new(), "name".to_owned())) {
        // The file's, which no sample has.
        name.default = None;
    }
    let mut top = table(&shared, "");
    // One of several services on the same nodes.
    let mut service = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    for name in ["protocol", "workload", "measure"] {
        top["properties"][name] = json!({ "type": "object" });
        service["properties"][name] = json!({ "type": "object" });
    }
    service["properties"]["name"] = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$" });
    service["required"] = json!(["name", "protocol"]);
    service["anyOf"] = json!(hosted);
    services.push(json!({ "required": ["service"] }));
    top["properties"]["service"] = json!({ "type": "array", "items": service });
    top["properties"]["topology"] = table(&shared, "topology");
    top["properties"]["topology"]["required"] = json!(["nodes"]);
    top["properties"]["faults"] = json!({ "type": "array", "items": table(&shared, "faults") });
    top["properties"]["sweep"] = json!({ "type": "object" });
    top["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    top["title"] = json!("A scenario of paceline");
    top["required"] = json!(["topology"]);
    top["anyOf"] = json!(services);
    top
}

#[cfg(test)]
mod tests {
    use regex_lite::Regex;

    use super::*;

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
        for name in CATALOG.scenario_names() {
            let scenario = json_of(CATALOG.scenario_text(name).unwrap());
            assert_eq!(fault(&schema, &scenario, name), None);
            let is_several = scenario.get("service").is_some();
            for table in ["topology", "protocol", "workload"] {
                let mut wrong = scenario.clone();
                let of = match table {
                    "topology" => &mut wrong,
                    _ if is_several => &mut wrong["service"][0],
                    _ => &mut wrong,
                };
                of[table]["no_such_key"] = json!(1);
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
        assert!(
            chain["hop_bytes"]["description"]
                .as_str()
                .unwrap()
                .starts_with("Bytes in flight on a hop")
        );
        // Keys that only one network or walk is asked for are there as well.
        let of = |kind: &str, table: &str, key: &str| {
            let at = CATALOG.kind_names().position(|known| known == kind).unwrap();
            !services[at]["properties"][table]["properties"][key].is_null()
        };
        assert!(of("mircc", "workload", "upper") && of("mircc", "workload", "short"));
        assert!(of("slingshot", "protocol", "window") && of("walk", "workload", "alpha"));
        assert!(of("overlay", "protocol", "successors") && of("srm", "protocol", "c1"));
    }
}
