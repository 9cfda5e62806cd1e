//! Ranges of addresses, in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// A range of IP addresses: those that share their first bits (RFC 4632, section 3.1; RFC 4291,
/// section 2.3).
///
/// Written `10.0.0.0/8` or `fd00::/8`; an address without a length is a range of one. An IPv4
/// address belongs to ranges of IPv4 also where a socket of IPv6 sees it in its mapped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    first: IpAddr,
    length: u8,
}

impl AddressRange {
    /// 127.0.0.0/8 and ::1: the addresses of the machine itself. The kernel drops datagrams from
    /// outside that have one of these as their source (RFC 1122, section 3.2.1.3).
    pub const LOOPBACK: [AddressRange; 2] = [
        AddressRange { first: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), length: 8 },
        AddressRange { first: IpAddr::V6(Ipv6Addr::LOCALHOST), length: 128 },
    ];

    /// The range with a prefix of `length` bits that contains this address. A length beyond that of
    /// the address counts as all of it.
    pub(super) fn around(address: IpAddr, length: u8) -> AddressRange {
        let address = address.to_canonical();
        let length = length.min(bits_of(address));
        AddressRange { first: truncated(address, length), length }
    }

    /// True if the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && truncated(address, self.length) == self.first
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

/// Why a text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// The text before the slash is not an address.
    #[error("`{0}` is not an IP address: expected a range like 10.0.0.0/8 or fd00::/8")]
    Address(String),
    /// The text after the slash is not a number of bits.
    #[error("`{length}` is not a prefix length: expected 0 to {bits_max} after `{address}/`")]
    Length {
        /// That text.
        length: String,
        /// The address before it.
        address: IpAddr,
        /// The bits of such an address.
        bits_max: u8,
    },
    /// The address has bits beyond its prefix, so it names a host and not a range.
    #[error("`{address}/{length}` has bits set after its first {length}: write {range}")]
    HostBits {
        /// The address.
        address: IpAddr,
        /// The length of the prefix.
        length: u8,
        /// The range that has this address.
        range: AddressRange,
    },
    /// An IPv4 address in the form of IPv6.
    #[error(
        "`{address}` is an IPv4 address in the form of IPv6: write {}",
        .address.to_canonical()
    )]
    Mapped {
        /// The address.
        address: IpAddr,
    },
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<AddressRange, RangeError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| RangeError::Address(address.to_owned()))?;
        if address.to_canonical() != address {
            return Err(RangeError::Mapped { address });
        }
        let bits_max = bits_of(address);
        let length = match length {
            None => bits_max,
            // Not `+8`, which the number's own parser takes.
            Some(length) => length
                .parse()
                .ok()
                .filter(|&bits| bits <= bits_max && length.bytes().all(|b| b.is_ascii_digit()))
                .ok_or_else(|| RangeError::Length {
                    length: length.to_owned(),
                    address,
                    bits_max,
                })?,
        };
        let range = AddressRange::around(address, length);
        if range.first != address {
            return Err(RangeError::HostBits { address, length, range });
        }
        Ok(range)
    }
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all bits beyond its prefix cleared.
fn truncated(address: IpAddr, length: u8) -> IpAddr {
    // `checked_shl` refuses a shift by all bits: the mask of an empty prefix is 0.
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_range_has_the_addresses_that_begin_with_its_bits() {
        for (text, within, beyond) in [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            ("192.0.2.128/25", ["192.0.2.128", "192.0.2.255"], ["192.0.2.127", "192.0.3.0"]),
            ("fd00::/8", ["fd00::", "fdff::1"], ["fc00::", "fe00::"]),
            ("2001:db8::/33", ["2001:db8::1", "2001:db8:7fff::"], ["2001:db8:8000::", "::1"]),
        ] {
            assert_eq!(within.map(|address| range(text).contains(ip(address))), [true, true]);
            assert_eq!(beyond.map(|address| range(text).contains(ip(address))), [false, false]);
            assert_eq!(range(text).to_string(), text);
        }
        assert!(range("0.0.0.0/0").contains(ip("255.1.2.3")));
        assert!(!range("0.0.0.0/0").contains(ip("::1")) && range("::/0").contains(ip("fe80::1")));
        assert!(range("::1").contains(ip("::1")) && !range("::1").contains(ip("::2")));
        assert_eq!(range("192.0.2.7").to_string(), "192.0.2.7/32");
    }

    #[test]
    fn an_ipv4_address_is_the_same_in_its_mapped_form() {
        assert!(range("127.0.0.0/8").contains(ip("::ffff:127.0.0.1")));
        assert!(!range("::/0").contains(ip("::ffff:127.0.0.1")));
        let loopback = |address| AddressRange::LOOPBACK.iter().any(|one| one.contains(ip(address)));
        assert!(["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "::1"].map(loopback) == [true; 4]);
        assert!(["128.0.0.1", "::2", "::7f00:1"].map(loopback) == [false; 3]);
    }

    #[test]
    fn what_is_no_range_is_refused_with_what_would_do() {
        for (text, says) in [
            ("", "`` is not an IP address: expected a range like 10.0.0.0/8 or fd00::/8"),
            (
                "10.0.0/8",
                "`10.0.0` is not an IP address: expected a range like 10.0.0.0/8 or fd00::/8",
            ),
            ("host/8", "`host` is not an IP address: expected a range like 10.0.0.0/8 or fd00::/8"),
            ("10.0.0.0/33", "`33` is not a prefix length: expected 0 to 32 after `10.0.0.0/`"),
            ("10.0.0.0/", "`` is not a prefix length: expected 0 to 32 after `10.0.0.0/`"),
            ("10.0.0.0/+8", "`+8` is not a prefix length: expected 0 to 32 after `10.0.0.0/`"),
            ("10.0.0.0/8/8", "`8/8` is not a prefix length: expected 0 to 32 after `10.0.0.0/`"),
            ("fd00::/129", "`129` is not a prefix length: expected 0 to 128 after `fd00::/`"),
            ("10.1.0.0/8", "`10.1.0.0/8` has bits set after its first 8: write 10.0.0.0/8"),
            ("fd00::1/64", "`fd00::1/64` has bits set after its first 64: write fd00::/64"),
            (
                "::ffff:10.0.0.0/104",
                "`::ffff:10.0.0.0` is an IPv4 address in the form of IPv6: write 10.0.0.0",
            ),
        ] {
            let error = text.parse::<AddressRange>().expect_err(text);
            assert_eq!(error.to_string(), says);
        }
    }
}
