//! Feeds the target that the first byte chooses.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| paceline_check::fuzz::feed_any(input));
