use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::scenario::{Diagnostic, Rate, Source, nearest};
use roxmltree::{Document, Node, TextPos};

use super::file::{self, DELAY_ACCEPTED, Defaults, RATE_ACCEPTED, at};
use super::graph::{Graph, Link};

/// The mean radius of the earth, km (IUGG).
const EARTH_RADIUS_KM: f64 = 6371.0088;
/// How far light gets in fibre, km/s: two thirds of its speed in the vacuum.
const FIBRE_KM_PER_SECOND: f64 = 299_792.458 * 2.0 / 3.0;

// Names of data, without regard to case. Those in capitals are the Topology Zoo's.
const LABEL: &[&str] = &["label", "name"];
const LATITUDE: &[&str] = &["Latitude", "lat"];
const LONGITUDE: &[&str] = &["Longitude", "lon"];
const RAW_RATE: &[&str] = &["LinkSpeedRaw"];
const RATE: &[&str] = &["bandwidth", "rate"];
const DELAY: &[&str] = &["delay", "latency"];

/// Reads a GraphML file, such as those of the Internet Topology Zoo; `name` stands in messages
/// where the file's would.
///
/// - A node is called by its data `label`, else by its id; of several with one label each has its
///   id behind it.
/// - An edge's rate is its data `LinkSpeedRaw`, in bits a second, or else `bandwidth`, with a unit.
/// - Its delay is its data `delay`, with a unit. Without that it is what light in fibre takes
///   between the nodes' `Latitude` and `Longitude`, in degrees: the great circle at two thirds of
///   c.
/// - What an edge does not have itself comes from the `default` of its key, then from `defaults`.
/// - Several edges between two nodes are one link: their rates together and their least delay. In
///   a directed graph an edge is one direction; without one back that has the same rate.
///
/// Source: Brandes et al., *GraphML Progress Report*, GD 2001; Knight et al., *The Internet
/// Topology Zoo*, IEEE JSAC 29(9), 2011.
pub fn read(name: &str, text: &str, defaults: &Defaults) -> Result<Graph, LabError> {
    let source = Source { name: name.to_owned(), text: text.to_owned() };
    let document = Document::parse(text).map_err(|error| {
        let place = offset(text, error.pos());
        at(&source, place..place, format!("not XML: {error}"))
    })?;
    let root = document.root_element();
    let mut graphs = root.children().filter(|child| child.has_tag_name_of("graph"));
    let graph = match (root.tag_name().name(), graphs.next(), graphs.next()) {
        ("graphml", Some(graph), None) => graph,
        ("graphml", _, more) => {
            let count = if more.is_some() { "more than one graph" } else { "no graph" };
            let span = more.map_or(head(&root, text), |more| head(&more, text));
            let problem = format!("the file has {count}");
            return Err(at(&source, span, problem).with_note("accepted: one <graph>").into());
        }
        (other, ..) => {
            let problem = format!("<{other}> is not GraphML");
            let note = "accepted: <graphml> with one <graph> in it";
            return Err(at(&source, head(&root, text), problem).with_note(note).into());
        }
    };
    let mut reader = Reader::new(&source, defaults, &root);
    for child in graph.children().filter(Node::is_element) {
        match child.tag_name().name() {
            "node" => reader.node(&child)?,
            "hyperedge" => {
                let problem = "a hyperedge is not a link between two nodes";
                let note = "accepted: <node>, <edge>";
                return Err(at(&source, head(&child, text), problem).with_note(note).into());
            }
            _ => {}
        }
    }
    reader.name_nodes()?;
    let directed = graph.attribute("edgedefault") == Some("directed");
    for child in graph.children().filter(|child| child.has_tag_name_of("edge")) {
        reader.edge(&child, directed)?;
    }
    reader.finish()
}

/// An element's name, whatever its namespace: many files have none.
trait NameOnly {
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl NameOnly for Node<'_, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

/// A value and where it stands.
struct Value {
    text: String,
    span: Range<usize>,
}

struct Vertex {
    id: String,
    label: Option<String>,
    span: Range<usize>,
    /// Degrees north and east.
    place: Option<(f64, f64)>,
}

/// What the edges between two nodes amount to.
struct Merged {
    ends: [usize; 2],
    /// Bits a second each way; zero if no edge goes that way.
    rates: [u64; 2],
    delay: Duration,
}

struct Reader<'a> {
    source: &'a Source,
    defaults: &'a Defaults,
    /// What data is called, by the id of its key.
    keys: BTreeMap<String, String>,
    /// What edges have that do not say, by name in lower case.
    edge_defaults: BTreeMap<String, Value>,
    vertices: Vec<Vertex>,
    by_id: BTreeMap<String, usize>,
    graph: Graph,
    links: BTreeMap<[usize; 2], (usize, Merged)>,
}

impl<'a> Reader<'a> {
    fn new(source: &'a Source, defaults: &'a Defaults, root: &Node<'_, '_>) -> Reader<'a> {
        let mut keys = BTreeMap::new();
        let mut edge_defaults = BTreeMap::new();
        for key in root.children().filter(|child| child.has_tag_name_of("key")) {
            let Some(id) = key.attribute("id") else {
                continue;
            };
            let name = key.attribute("attr.name").unwrap_or(id).to_lowercase();
            let default = key.children().find(|child| child.has_tag_name_of("default"));
            if let (Some(default), "edge" | "all") =
                (default, key.attribute("for").unwrap_or("all"))
            {
                edge_defaults.insert(name.clone(), value(&default));
            }
            keys.insert(id.to_owned(), name);
        }
        Reader {
            source,
            defaults,
            keys,
            edge_defaults,
            vertices: Vec::new(),
            by_id: BTreeMap::new(),
            graph: Graph::new(),
            links: BTreeMap::new(),
        }
    }

    fn node(&mut self, node: &Node<'_, '_>) -> Result<(), LabError> {
        let span = head(node, &self.source.text);
        let Some(id) = node.attribute("id") else {
            return Err(at(self.source, span, "the node has no id")
                .with_note("accepted: <node id=\"..\">")
                .into());
        };
        if self.by_id.insert(id.to_owned(), self.vertices.len()).is_some() {
            let problem = format!("the node id `{id}` is taken");
            let note = "each node needs an id of its own";
            return Err(at(self.source, span, problem).with_note(note).into());
        }
        let mut data = self.data(node);
        let label = take(&mut data, LABEL).map(|value| value.text).filter(|text| !text.is_empty());
        let latitude = self.degrees(take(&mut data, LATITUDE), 90.0)?;
        let longitude = self.degrees(take(&mut data, LONGITUDE), 180.0)?;
        let place = latitude.zip(longitude);
        self.vertices.push(Vertex { id: id.to_owned(), label, span, place });
        Ok(())
    }

    /// Names the nodes, once it is known which labels stand alone.
    fn name_nodes(&mut self) -> Result<(), LabError> {
        let mut uses: BTreeMap<&str, u32> = BTreeMap::new();
        for label in self.vertices.iter().filter_map(|vertex| vertex.label.as_deref()) {
            *uses.entry(label).or_default() += 1;
        }
        for vertex in &self.vertices {
            let name = match &vertex.label {
                Some(label) if uses[label.as_str()] == 1 => label.clone(),
                Some(label) => format!("{label}-{}", vertex.id),
                None => vertex.id.clone(),
            };
            let added = self.graph.add_node(name);
            added.map_err(|error| at(self.source, vertex.span.clone(), error.to_string()))?;
        }
        Ok(())
    }

    fn edge(&mut self, edge: &Node<'_, '_>, directed: bool) -> Result<(), LabError> {
        let span = head(edge, &self.source.text);
        let ends = [self.end(edge, "source")?, self.end(edge, "target")?];
        let directed = match edge.attribute("directed") {
            Some(own) => own == "true",
            None => directed,
        };
        let data = self.data(edge);
        let rate = self.rate(&data, &span)?;
        let delay = self.delay(&data, &span, ends)?;
        let checked = self.graph.check_link(&Link::new(ends, rate, delay));
        checked.map_err(|error| at(self.source, span, error.to_string()))?;
        let sorted = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        let number = self.links.len();
        let fresh = || (number, Merged { ends, rates: [0; 2], delay });
        let (_, merged) = self.links.entry(sorted).or_insert_with(fresh);
        let backwards = merged.ends != ends;
        for (end, sum) in merged.rates.iter_mut().enumerate() {
            if !directed || end == usize::from(backwards) {
                *sum = sum.saturating_add(rate.bits_per_second());
            }
        }
        merged.delay = merged.delay.min(delay);
        Ok(())
    }

    fn end(&self, edge: &Node<'_, '_>, which: &str) -> Result<usize, Diagnostic> {
        let Some(attribute) = edge.attribute_node(which) else {
            let problem = format!("the edge has no {which}");
            return Err(at(self.source, head(edge, &self.source.text), problem)
                .with_note("accepted: <edge source=\"..\" target=\"..\">, with the ids of nodes"));
        };
        let id = attribute.value();
        self.by_id.get(id).copied().ok_or_else(|| {
            let near = nearest(id, self.by_id.keys().map(String::as_str));
            let problem = format!("there is no node with the id `{id}`");
            let diagnostic = at(self.source, attribute.range_value(), problem);
            match near {
                Some(near) => diagnostic.with_note(format!("did you mean `{near}`?")),
                None => diagnostic.with_note("accepted: the id of a <node>"),
            }
        })
    }

    fn rate(&self, data: &[(String, Value)], edge: &Range<usize>) -> Result<Rate, Diagnostic> {
        if let Some(value) = self.of_edge(data, RAW_RATE) {
            let bits = value.text.parse::<f64>().unwrap_or(f64::NAN);
            if !(1.0..=1e18).contains(&bits) {
                let problem = format!("`{}` is not a rate", value.text);
                return Err(at(self.source, value.span.clone(), problem)
                    .with_note("accepted: bits a second, from 1 to 1e18, such as 10000000000.0"));
            }
            return Ok(Rate::from_bits_per_second(bits.round() as u64));
        }
        match (self.of_edge(data, RATE), self.defaults.rate) {
            (Some(value), _) => file::rate(&value.text).map_err(|problem| {
                at(self.source, value.span.clone(), problem)
                    .with_note(format!("accepted: {RATE_ACCEPTED}"))
            }),
            (None, Some(rate)) => Ok(rate),
            (None, None) => Err(at(self.source, edge.clone(), "the edge has no rate")
                .with_note("accepted: data `LinkSpeedRaw` (bits a second) or `bandwidth` (10Mbps)")
                .with_note("or a default rate for all links")),
        }
    }

    fn delay(
        &self,
        data: &[(String, Value)],
        edge: &Range<usize>,
        [a, b]: [usize; 2],
    ) -> Result<Duration, Diagnostic> {
        if let Some(value) = self.of_edge(data, DELAY) {
            return file::delay(&value.text).map_err(|problem| {
                at(self.source, value.span.clone(), problem)
                    .with_note(format!("accepted: {DELAY_ACCEPTED}"))
            });
        }
        let (from, to) = (&self.vertices[a], &self.vertices[b]);
        if let Some((from, to)) = from.place.zip(to.place) {
            return Ok(Duration::from_secs_f64(great_circle_km(from, to) / FIBRE_KM_PER_SECOND));
        }
        self.defaults.delay.ok_or_else(|| {
            let nowhere = if from.place.is_none() { a } else { b };
            let name = &self.graph.nodes()[nowhere];
            let problem = format!("the edge has no delay, and `{name}` has no coordinates");
            at(self.source, edge.clone(), problem)
                .with_note("accepted: data `delay` (5ms), or `Latitude` and `Longitude` of nodes")
                .with_note("or a default delay for all links")
        })
    }

    fn degrees(&self, value: Option<Value>, most: f64) -> Result<Option<f64>, Diagnostic> {
        let Some(value) = value else {
            return Ok(None);
        };
        match value.text.parse::<f64>() {
            Ok(degrees) if degrees.abs() <= most => Ok(Some(degrees)),
            _ => Err(at(self.source, value.span, format!("`{}` is not a coordinate", value.text))
                .with_note(format!("accepted: degrees from -{most} to {most}"))),
        }
    }

    /// What an element has, by name in lower case.
    fn data(&self, element: &Node<'_, '_>) -> Vec<(String, Value)> {
        let named = |data: Node<'_, '_>| {
            let key = data.attribute("key")?;
            // Without a key's declaration its id is the name, as some writers have it.
            let name = self.keys.get(key).cloned().unwrap_or_else(|| key.to_lowercase());
            Some((name, value(&data)))
        };
        let data = element.children().filter(|child| child.has_tag_name_of("data"));
        data.filter_map(named).collect()
    }

    fn of_edge<'b>(&'b self, data: &'b [(String, Value)], names: &[&str]) -> Option<&'b Value> {
        let own = |name: &&str| {
            let name = name.to_lowercase();
            data.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        let default = |name: &&str| self.edge_defaults.get(&name.to_lowercase());
        names.iter().find_map(own).or_else(|| names.iter().find_map(default))
    }

    fn finish(mut self) -> Result<Graph, LabError> {
        let mut links: Vec<(usize, Merged)> = self.links.into_values().collect();
        links.sort_by_key(|(number, _)| *number);
        for (_, merged) in links {
            let either = merged.rates[0].max(merged.rates[1]);
            let rates = merged.rates.map(|rate| if rate == 0 { either } else { rate });
            let [there, back] = rates.map(Rate::from_bits_per_second);
            let mut link = Link::new(merged.ends, there, merged.delay).with_reverse_rate(back);
            link.queue_packets = self.defaults.queue_packets;
            self.graph.add_link(link)?;
        }
        self.graph.check().map_err(|error| file::of_file(self.source, &error))?;
        Ok(self.graph)
    }
}

fn take(data: &mut Vec<(String, Value)>, names: &[&str]) -> Option<Value> {
    let named = |name: &&str| {
        let name = name.to_lowercase();
        data.iter().position(|(known, _)| *known == name)
    };
    let index = names.iter().find_map(named)?;
    Some(data.swap_remove(index).1)
}

fn value(element: &Node<'_, '_>) -> Value {
    let text = element.text().unwrap_or("");
    let mut span = element.first_child().map_or(element.range(), |child| child.range());
    // What is written with entities has other places than what it means.
    if element.document().input_text().get(span.clone()) == Some(text) {
        let start = span.start + (text.len() - text.trim_start().len());
        span = start..start + text.trim().len();
    }
    Value { text: text.trim().to_owned(), span }
}

/// The first tag of an element.
fn head(element: &Node<'_, '_>, text: &str) -> Range<usize> {
    let range = element.range();
    let end = text[range.clone()].find('>').map_or(range.end, |at| range.start + at + 1);
    range.start..end
}

/// The bytes before a line and column, both counted from 1.
fn offset(text: &str, place: TextPos) -> usize {
    let line = (place.row as usize).saturating_sub(1);
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column = (place.col as usize).saturating_sub(1);
    let width: usize = text[start..].chars().take(column).map(char::len_utf8).sum();
    start + width
}

/// The distance of two places on the globe, by haversines, which are exact for near ones too.
fn great_circle_km(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (north_a, north_b) = (a.0.to_radians(), b.0.to_radians());
    let (north, east) = (north_b - north_a, (b.1 - a.1).to_radians());
    let square = |half: f64| (half / 2.0).sin().powi(2);
    let haversine = square(north) + north_a.cos() * north_b.cos() * square(east);
    2.0 * EARTH_RADIUS_KM * haversine.sqrt().min(1.0).asin()
}

#[cfg(test)]
#[path = "graphml_tests.rs"]
mod tests;
