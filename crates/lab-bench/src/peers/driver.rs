use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use paceline_lab::LabError;

/// Bytes of a message that a driver needs for origin, thread, number and time.
const MESSAGE_BYTES_MIN: usize = 24;

/// A driver in Java for another implementation.
#[derive(Debug)]
pub(crate) struct Driver {
    /// The name of the implementation.
    pub(crate) name: &'static str,
    /// What `cargo xtask peers` calls it.
    pub(crate) peer: &'static str,
    /// The environment variable with the driver's jar.
    pub(crate) variable: &'static str,
    /// The most bytes of a message, if there is a bound, and its reason.
    pub(crate) message_bytes_max: Option<(usize, &'static str)>,
}

impl Driver {
    /// Looks for the driver and a Java virtual machine.
    pub(crate) fn find(&'static self) -> Result<Installation, LabError> {
        let jar = std::env::var_os(self.variable).filter(|path| !path.is_empty());
        let home = std::env::var_os("JAVA_HOME").filter(|path| !path.is_empty());
        let java = home.map(|home| PathBuf::from(home).join("bin/java"));
        self.found(java.unwrap_or_else(|| "java".into()), jar.map(PathBuf::from))
    }

    fn found(&'static self, java: PathBuf, jar: Option<PathBuf>) -> Result<Installation, LabError> {
        let Driver { name, peer, variable, .. } = self;
        let install =
            format!("run `cargo xtask peers {peer}`, and set {variable} to what it prints");
        let Some(jar) = jar else {
            let problem = format!("the driver for {name} is not installed: {install}");
            return Err(LabError::Unsupported(problem));
        };
        if !jar.is_file() {
            let problem = format!("{variable}={}: there is no such file; {install}", jar.display());
            return Err(LabError::Unsupported(problem));
        }
        let mut version = Command::new(&java);
        version.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Err(error) = version.status() {
            let problem = format!(
                "{name} needs Java 17 or newer, and {} cannot be run ({error}): install it \
                 (Debian: default-jre-headless)",
                java.display()
            );
            return Err(LabError::Unsupported(problem));
        }
        Ok(Installation { driver: self, java, jar })
    }

    /// Whether the driver can send messages of this size.
    pub(crate) fn check_message(&self, bytes: usize) -> Result<(), LabError> {
        let name = self.name;
        let bound = match self.message_bytes_max {
            _ if bytes < MESSAGE_BYTES_MIN => {
                format!("at least {MESSAGE_BYTES_MIN}, for number and time")
            }
            Some((bytes_max, reason)) if bytes > bytes_max => {
                format!("at most {bytes_max}, {reason}")
            }
            _ => return Ok(()),
        };
        let problem = format!("messages of {bytes} bytes: with {name} {bound}");
        Err(LabError::Unsupported(problem))
    }
}

/// The settings with which a driver starts a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberSettings {
    /// Its number, from 0.
    pub(crate) number: usize,
    /// How many there are.
    pub(crate) members: u32,
    /// Bytes of a message.
    pub(crate) message_bytes: usize,
    /// Whether it sends.
    pub(crate) is_sender: bool,
    /// Threads of any sender.
    pub(crate) threads_of_sender: u32,
    /// From the beginning to the first message of a thread.
    pub(crate) first_after: Duration,
    /// Between two messages of a thread; none for as fast as they are accepted.
    pub(crate) interval: Duration,
}

/// A driver and a Java virtual machine.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) driver: &'static Driver,
    java: PathBuf,
    jar: PathBuf,
}

impl Installation {
    /// The command that becomes a member. Properties are system properties of Java; arguments
    /// follow those that all drivers take.
    pub(crate) fn command(
        &self,
        settings: MemberSettings,
        properties: impl IntoIterator<Item = String>,
        arguments: impl IntoIterator<Item = String>,
    ) -> Command {
        let MemberSettings { members, threads_of_sender, first_after, interval, .. } = settings;
        let threads = if settings.is_sender { threads_of_sender } else { 0 };
        // Of a fixed size, so that no member waits for its growth.
        let heap_mebibytes = if members <= 4 { 400 } else { 200 };
        let mut command = Command::new(&self.java);
        command
            .args([format!("-Xms{heap_mebibytes}m"), format!("-Xmx{heap_mebibytes}m")])
            .arg("-Djava.net.preferIPv4Stack=true")
            .args(properties.into_iter().map(|property| format!("-D{property}")))
            .arg("-jar")
            .arg(&self.jar)
            .arg(settings.number.to_string())
            .arg(members.to_string())
            .arg(settings.message_bytes.to_string())
            .arg(threads.to_string())
            .arg(threads_of_sender.to_string())
            .arg(first_after.as_nanos().to_string())
            .arg(interval.as_nanos().to_string())
            .args(arguments);
        command
    }

    /// One that is not there, whose commands a test reads.
    #[cfg(test)]
    pub(crate) fn of_test(driver: &'static Driver) -> Installation {
        Installation { driver, java: "java".into(), jar: "driver.jar".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static DRIVER: Driver = Driver {
        name: "JGroups",
        peer: "jgroups",
        variable: "PACELINE_JGROUPS",
        message_bytes_max: Some((100, "one fragment")),
    };

    fn refused(java: &str, jar: Option<&str>) -> String {
        let error = DRIVER.found(java.into(), jar.map(PathBuf::from)).unwrap_err();
        assert_eq!(error.exit_status(), 2, "{error}");
        error.to_string()
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let no_driver = refused("java", None);
        assert!(no_driver.contains("cargo xtask peers jgroups"), "{no_driver}");
        let no_file = refused("java", Some("no/such.jar"));
        assert!(no_file.starts_with("PACELINE_JGROUPS=no/such.jar"), "{no_file}");
        assert!(no_file.contains("cargo xtask peers jgroups"), "{no_file}");
        let no_java = refused("no-such-java", Some(manifest));
        assert!(no_java.contains("no-such-java") && no_java.contains("Java 17"), "{no_java}");
    }

    #[test]
    fn a_message_must_hold_its_number_and_time_and_fit() {
        let refused = |bytes| {
            let error = DRIVER.check_message(bytes).unwrap_err();
            assert_eq!(error.exit_status(), 2, "{error}");
            error.to_string()
        };
        assert!(refused(MESSAGE_BYTES_MIN - 1).contains("with JGroups at least 24"));
        assert!(refused(101).contains("with JGroups at most 100, one fragment"));
        assert!(
            [MESSAGE_BYTES_MIN, 100].map(|bytes| DRIVER.check_message(bytes).is_ok()) == [true; 2]
        );
        let unbounded = Driver { message_bytes_max: None, ..DRIVER };
        assert!(unbounded.check_message(1 << 20).is_ok());
    }
}
