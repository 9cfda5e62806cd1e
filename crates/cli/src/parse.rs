//! Arguments with units, as in scenarios; a bare number is in the default unit of the argument.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use paceline_lab::scenario::units::{parse_duration, parse_size};

/// A duration: `5s`, `200ms`; a bare number counts seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    parse_duration(&with_unit(text, "s"))
}

/// A duration: `100ms`; a bare number counts milliseconds.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    parse_duration(&with_unit(text, "ms"))
}

/// A size: `8KiB`; a bare number counts bytes.
pub fn bytes(text: &str) -> Result<usize, String> {
    let bytes = parse_size(&with_unit(text, "B"))?;
    usize::try_from(bytes)
        .map_err(|_| format!("`{text}` exceeds the address space of this machine"))
}

/// A size in whole MiB: `64MiB`; a bare number counts MiB.
pub fn mebibytes(text: &str) -> Result<usize, String> {
    let bytes = parse_size(&with_unit(text, "MiB"))?;
    if bytes % (1 << 20) != 0 {
        return Err(format!("`{text}` is not a whole number of MiB"));
    }
    usize::try_from(bytes >> 20)
        .map_err(|_| format!("`{text}` exceeds the address space of this machine"))
}

/// An address of this machine, `IP:PORT` or `NAME:PORT`. Of a name with several addresses the first
/// one of IPv4 is taken.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (name, port) = text.rsplit_once(':').ok_or("expected HOST:PORT, such as 127.0.0.1:7001")?;
    if port.parse::<u16>().is_err() {
        return Err(format!("`{port}` is not a port, 0 to 65535"));
    }
    let found = text.to_socket_addrs().map_err(|error| format!("`{name}`: {error}"))?;
    let found: Vec<SocketAddr> = found.collect();
    let of_v4 = found.iter().find(|address| address.is_ipv4());
    of_v4.or(found.first()).copied().ok_or_else(|| format!("`{name}` has no address"))
}

fn with_unit(text: &str, unit: &str) -> String {
    let is_bare = text.parse::<f64>().is_ok();
    if is_bare { format!("{text}{unit}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_counts_in_the_unit_that_is_named_and_others_are_said() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(seconds("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(milliseconds("40"), Ok(Duration::from_millis(40)));
        assert_eq!((bytes("1000"), bytes("8KiB")), (Ok(1000), Ok(8192)));
        assert_eq!((mebibytes("64"), mebibytes("1GiB")), (Ok(64), Ok(1024)));
        assert!(mebibytes("1000B").unwrap_err().contains("whole number of MiB"));
        assert!(seconds("5x").unwrap_err().contains("unknown unit"));
        assert!(seconds("-1").is_err() && seconds("inf").is_err() && bytes("").is_err());
    }

    #[test]
    fn an_address_may_be_a_name() {
        assert_eq!(address("127.0.0.1:7"), Ok(SocketAddr::from(([127, 0, 0, 1], 7))));
        assert_eq!(address("[::1]:7").map(|address| address.port()), Ok(7));
        assert!(address("localhost:7").is_ok_and(|address| address.ip().is_loopback()));
        assert!(address("localhost").unwrap_err().contains("HOST:PORT"));
        assert!(address("localhost:seven").unwrap_err().contains("not a port"));
        assert!(address("no such host.invalid:1").unwrap_err().contains("no such host"));
    }
}
