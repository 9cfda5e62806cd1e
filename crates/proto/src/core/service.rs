/// The first four bytes of the hash of a service's kind and name, with the kind's length before
/// both: keeps services apart that share a cluster. By default it is that of a service without kind
/// or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceNumber(pub u32);

impl ServiceNumber {
    /// The number in a node's own records: Hello, Who and Taken.
    pub const NODE: ServiceNumber = ServiceNumber(0);

    /// The number of the service of this kind with this name.
    pub fn of(kind: &str, name: &str) -> ServiceNumber {
        let length = (kind.len() as u64).to_be_bytes();
        let hash = hash_prefix(&[&length, kind.as_bytes(), name.as_bytes()].concat());
        ServiceNumber(hash.max(1))
    }
}

impl Default for ServiceNumber {
    fn default() -> ServiceNumber {
        ServiceNumber::of("", "")
    }
}

/// The first four bytes of the hash (BLAKE3) of these bytes.
pub fn hash_prefix(bytes: &[u8]) -> u32 {
    let hash = blake3::hash(bytes);
    u32::from_be_bytes(hash.as_bytes()[..4].try_into().expect("a hash has 32 bytes"))
}
