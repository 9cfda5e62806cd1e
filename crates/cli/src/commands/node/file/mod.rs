//! `paceline node --config FILE`: one host with any number of services.

mod host;
mod named;
mod running;
mod tasks;

use std::path::Path;

use paceline_lab::scenario::TableFile;

use crate::commands::Outcome;
use crate::commands::member::HostArgs;
use crate::commands::ndn::setup::Setup;
use crate::error::CliError;
use crate::service_tables::{self, Service, TABLES};
use crate::ui::Ui;
use host::HostSettings;

/// A node file, checked, with the variables and options that stand above it.
#[derive(Debug)]
pub struct NodeFile {
    /// `[host]`.
    host: HostSettings,
    /// `[[group]]`, `[[multicast]]`, `[[dht]]` and `[[walks]]`, in this order.
    services: Vec<Service>,
    /// `[named]`.
    named: Option<Setup>,
}

impl NodeFile {
    /// Reads a file. `variable` gives the value of an environment variable.
    ///
    /// # Errors
    /// If the file cannot be read, or something in it, in a variable or in an option is wrong.
    fn load(
        path: &Path,
        options: &HostArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<NodeFile, CliError> {
        NodeFile::read(TableFile::load(path, TABLES)?, options, variable)
    }

    fn read(
        mut file: TableFile,
        options: &HostArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<NodeFile, CliError> {
        host::set_by_variables(&mut file, variable)?;
        let services = service_tables::read(&file)?;
        let host = HostSettings::read(&file, options, &services)?;
        let named = named::read(&file, &host)?;
        if services.is_empty() && named.is_none() {
            let tables = "a service: [[group]], [[multicast]], [[dht]], [[walks]] or [named]";
            let accepted = format!("accepted: {tables}");
            return Err(file.error("the file has no service", accepted).into());
        }
        Ok(NodeFile { host, services, named })
    }
}

/// Runs the node until Ctrl-C.
pub fn run(path: &Path, options: &HostArgs, ui: &Ui) -> Result<Outcome, CliError> {
    if options.names_group() {
        let wrong = "--group: with --config the file names the services: [[group]] name = \"..\"";
        return Err(CliError::Input(wrong.to_owned()));
    }
    let file = NodeFile::load(path, options, |name| std::env::var(name).ok())?;
    running::run(file, ui)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;
    use paceline::proto::core::knobs::{Knob, Knobs};
    use paceline::proto::{chain, graphshare, group, mircc, overlay, slingshot, walk};

    use super::*;
    use crate::service_tables::HOST_KEYS;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        host: HostArgs,
    }

    fn options(words: &[&str]) -> HostArgs {
        Options::parse_from([&["node"], words].concat()).host
    }

    fn read(text: &str, words: &[&str]) -> Result<NodeFile, String> {
        let file =
            TableFile::parse("node.toml", text, TABLES).map_err(|error| error.to_string())?;
        NodeFile::read(file, &options(words), |_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_has_each_key_once() {
        let tables: [(&[&str], Vec<&[Knob]>); 5] = [
            (&["name", "topology"], vec![chain::Config::KNOBS, group::Config::KNOBS]),
            (
                &["name", "code", "stagger", "window", "pull"],
                vec![
                    slingshot::Config::KNOBS,
                    slingshot::Rate::KNOBS,
                    slingshot::Pull::KNOBS,
                    group::Config::KNOBS,
                ],
            ),
            (
                &["name", "algorithm", "durable_async"],
                vec![overlay::Config::KNOBS, overlay::Shape::KNOBS],
            ),
            (
                &["name"],
                vec![
                    walk::Config::KNOBS,
                    graphshare::QueueConfig::KNOBS,
                    graphshare::BundleConfig::KNOBS,
                ],
            ),
            (
                &["name", "bind", "faces", "rate", "routes", "strategies", "controller"],
                vec![
                    mircc::Config::KNOBS,
                    mircc::ControllerConfig::KNOBS,
                    mircc::ShaperConfig::KNOBS,
                ],
            ),
        ];
        for (named, knobs) in tables {
            let knobs = knobs.into_iter().flatten().map(|knob| knob.name);
            let mut keys = BTreeSet::new();
            for key in named.iter().copied().chain(knobs) {
                assert!(keys.insert(key), "{key} is there twice beside {named:?}");
            }
        }
    }

    #[test]
    fn every_key_of_the_host_is_read() {
        for key in HOST_KEYS {
            // No key takes a date.
            let text = format!("[host]\n{key} = 1979-05-27\n");
            let said = read(&text, &["--bootstrap"]).unwrap_err();
            assert!(said.contains(&format!("`{key}` cannot be the date")), "{said}");
        }
        let said = read("[host]\nx = 1\n", &[]).unwrap_err();
        assert!(said.contains(&HOST_KEYS.join(", ")), "{said}");
    }

    #[test]
    fn knobs_of_each_service_reach_its_configuration() {
        let text = "[[group]]\nname = \"a\"\nqueue_bytes = \"9KiB\"\nmembers_max = 7\n\
                    direct_window_bytes = \"1KiB\"\n\
                    [[multicast]]\nname = \"a\"\nr = 4\nkeep = \"2s\"\nunread_max = 5\n\
                    [[dht]]\nname = \"a\"\ncopies = 2\nsuccessors = 9\n\
                    store_bytes_max = \"1MiB\"\ndurable = \"f\"\n\
                    [[walks]]\nname = \"a\"\nlimit = 60000\nwalkers_max = 3\njobs_max = 2\n\
                    [named]\nstore_bytes_max = \"3MiB\"\nshaper_queue_max = 8\n";
        let file = read(text, &["--bootstrap"]).unwrap();
        let [group, multicast, dht, walks] = &file.services[..] else { panic!("four services") };
        let service_tables::Settings::Group(views) = &group.settings else { panic!("a group") };
        assert_eq!((views.chain().queue_bytes(), views.members_max()), (9 << 10, 7));
        assert_eq!(views.direct_window_bytes(), 1 << 10);
        let service_tables::Settings::Multicast { repairs, .. } = &multicast.settings else {
            panic!("a multicast")
        };
        assert_eq!((repairs.rate().r, repairs.rate().c, repairs.unread_max()), (4, 3, Some(5)));
        assert_eq!(repairs.keep().as_secs(), 2);
        let service_tables::Settings::Dht { overlay, durable } = &dht.settings else {
            panic!("a table")
        };
        assert_eq!((overlay.copies(), overlay.shape().successors), (2, 9));
        assert_eq!(overlay.store_bytes_max(), 1 << 20);
        assert!(matches!(durable, Some(service_tables::Durable::OnDisk(_))));
        let service_tables::Settings::Walks(config) = &walks.settings else { panic!("walks") };
        assert_eq!(
            (config.queue.limit, config.bundle.walkers_max, config.jobs_max),
            (60_000, 3, 2)
        );
        let named = file.named.unwrap();
        assert_eq!((named.config.store_bytes_max, named.config.shaper.queue_max), (3 << 20, 8));
    }

    #[test]
    fn options_decide_how_services_begin_before_the_file_does() {
        let text = "[host]\npeers = [\"127.0.0.1:1\"]\nexpect = 3\n[[group]]\nname = \"a\"\n";
        let start = |words: &[&str]| {
            let file = read(text, words).unwrap();
            (file.host.start.clone(), file.host.peers.clone())
        };
        let of_file = vec!["127.0.0.1:1".to_owned()];
        assert_eq!(start(&[]), (host::Start::Expect(3), of_file.clone()));
        assert_eq!(start(&["--expect", "4"]), (host::Start::Expect(4), of_file));
        assert_eq!(start(&["--bootstrap"]), (host::Start::Bootstrap, Vec::new()));
        let of_option = vec!["127.0.0.1:2".to_owned()];
        assert_eq!(start(&["--peer", "127.0.0.1:2"]), (host::Start::Expect(3), of_option));
    }
}
