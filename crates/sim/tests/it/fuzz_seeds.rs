//! Random bytes for every fuzz target: decoders, and nodes whose neighbours send well-formed lies.
//! The fuzzer itself is `cargo xtask verify fuzz`.

use paceline_check::fuzz::TARGETS;
use paceline_check::seeds;
use paceline_proto::core::Rng;

/// Bytes of an input.
const BYTES_MAX: u32 = 2_000;

/// Inputs of each target in a run.
const INPUTS: u32 = 5;

#[test]
fn seeds_of_bytes_break_no_promise_of_decoders_and_nodes() {
    let run = |seed| {
        let mut rng = Rng::new(seed, 0xf0);
        for target in TARGETS {
            for _ in 0..INPUTS {
                let length = 1 + rng.below(BYTES_MAX);
                let bytes: Vec<u8> = (0..length).map(|_| rng.next_u32() as u8).collect();
                let feed = || {
                    (target.feed)(&bytes);
                    Ok(())
                };
                seeds::caught(feed).map_err(|what| {
                    let replay = seeds::replay("fuzz_seeds", seed);
                    format!("{}: {what}\nreplay: {replay}", target.name)
                })?;
            }
        }
        Ok([TARGETS.len() as u64 * u64::from(INPUTS)])
    };
    let (count, [inputs]) = seeds::run_all(run);
    println!("{count} seeds: {inputs} inputs");
}
