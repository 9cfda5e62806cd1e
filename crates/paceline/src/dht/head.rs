//! Which of a database's last two commits counts.
//!
//! The head of a redb file (its format 3) has a slot for each of the last two commits, and one bit
//! that names the one that counts. No checksum covers that bit. A commit in two phases is on disk
//! with all of its pages before the bit names it. So if the head names the older of two whole
//! commits, either the host stopped between the two phases, or the bit has rotted. In both cases
//! the newer one is right: its records were given to the host to be kept, and perhaps
//! acknowledged.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};

/// Where the byte is that has the bit, in the file.
pub const FLAGS_AT: u64 = 9;
/// In the flags: the second slot counts.
const SECOND: u8 = 1;
/// In the flags: the last commit was in two phases. After one in a single phase the database
/// itself takes the newer commit, if that is whole.
const TWO_PHASES: u8 = 4;
/// Where each slot has the number of its commit, little-endian, eight bytes.
pub const NUMBERS_AT: [usize; 2] = [64 + 104, 192 + 104];
const HEAD_BYTES: u64 = 320;

/// The flags that name the newer commit, if the head names the older one. Whether either is whole
/// is for the caller to check.
pub fn flags_of_newer(mut file: &fs::File) -> io::Result<Option<u8>> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    if head.len() < HEAD_BYTES as usize {
        return Ok(None);
    }
    let flags = head[FLAGS_AT as usize];
    let number = |slot: u8| {
        let at = NUMBERS_AT[usize::from(slot)];
        u64::from_le_bytes(*head[at..].first_chunk().expect("the head is longer"))
    };
    let named = flags & SECOND;
    let is_older = number(named) < number(named ^ SECOND);
    Ok((is_older && flags & TWO_PHASES != 0).then_some(flags ^ SECOND))
}
