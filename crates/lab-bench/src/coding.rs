//! How fast packets are summed up, by each way that this machine has, beside copying them; and how
//! fast repairs are made and lost packets computed.

use std::hint::black_box;
use std::time::{Duration, Instant as WallClock};

use paceline_lab::{LabError, Progress};
use paceline_proto::core::{Payload, Rng};
use paceline_proto::parts::fec::gf256::Kernel;
use paceline_proto::parts::fec::{Bounds, Coded, Coefficients, Decoder, Method, Sum, Window};
use serde::Serialize;

/// One row: an operation at a size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `copy`, `xor` or `multiply-add` of one packet; `encode` or `decode` of a whole code.
    pub what: &'static str,
    /// The instructions used, or the code: `xor of 8`, `linear over 32`.
    pub by: String,
    /// Bytes of a packet.
    pub packet_bytes: usize,
    /// Packets missing at once; null but for `decode`.
    pub missing: Option<usize>,
    /// Packet bytes read in a second, in units of 10^9.
    pub gb_per_s: f64,
    /// The same as a part of what copying reads at that size in this run.
    pub of_copy: f64,
    /// Repairs made, or packets recovered, in a second; null for operations on one packet.
    pub packets_per_s: Option<f64>,
}

/// How thoroughly it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time for each row, of which the best hundredth counts. Default 100 ms.
    pub time: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { time: Duration::from_millis(100) }
    }
}

/// Bytes of a packet.
const SIZES: [usize; 6] = [64, 256, 1_024, 4_096, 16_384, 65_536];
/// Packets that are worked on, one after the other: a window of the linear code.
const PACKETS: usize = 32;
/// Packets of an exclusive or.
const BIN: usize = 8;
/// Packets missing at once in the linear code.
const MISSING: [usize; 2] = [1, 8];
/// A part is short enough that in some of them nothing else runs on the core.
const PARTS: u32 = 100;

/// Measures all of it.
pub fn run(settings: Settings, progress: &dyn Progress) -> Result<Vec<Row>, LabError> {
    let mut loads = vec![Load::Copy];
    loads.extend(
        Kernel::available().flat_map(|kernel| [Load::Add(kernel), Load::MultiplyAdd(kernel)]),
    );
    loads.extend([Load::Encode(XOR), Load::Decode(XOR, 1), Load::Encode(LINEAR)]);
    loads.extend(MISSING.map(|missing| Load::Decode(LINEAR, missing)));

    let total = SIZES.len() * loads.len();
    progress.start(total as u64, "coding");
    let mut rows = Vec::with_capacity(total);
    for packet_bytes in SIZES {
        let mut size = Size::new(packet_bytes, settings);
        for &load in &loads {
            if progress.stopped() {
                return Err(LabError::Stopped { finished: rows.len(), total });
            }
            rows.push(size.measure(load));
            progress.inc(1);
        }
    }
    progress.finish();
    Ok(rows)
}

/// What is measured.
#[derive(Clone, Copy)]
enum Load {
    Copy,
    Add(Kernel),
    MultiplyAdd(Kernel),
    Encode(Code),
    /// The number of missing packets.
    Decode(Code, usize),
}

/// A code as Slingshot uses it.
#[derive(Clone, Copy)]
struct Code {
    name: &'static str,
    packets: usize,
    method: Method,
    /// Added to the number of a repair.
    first_seed: u32,
}

const XOR: Code =
    Code { name: "xor of 8", packets: BIN, method: Method::Peel, first_seed: Coefficients::XOR };
const LINEAR: Code =
    Code { name: "linear over 32", packets: PACKETS, method: Method::Eliminate, first_seed: 1 };

/// Everything at one size of packets.
struct Size {
    packet_bytes: usize,
    packets: Vec<Payload>,
    settings: Settings,
    copy_gb_per_s: f64,
}

impl Size {
    fn new(packet_bytes: usize, settings: Settings) -> Size {
        let mut rng = Rng::new(packet_bytes as u64, 1);
        let mut random = || (0..packet_bytes).map(|_| rng.next_u32() as u8).collect::<Vec<_>>();
        let packets = (0..PACKETS).map(|_| Payload::from(random())).collect();
        Size { packet_bytes, packets, settings, copy_gb_per_s: f64::NAN }
    }

    fn measure(&mut self, load: Load) -> Row {
        match load {
            Load::Copy => {
                let row = self.each("copy", "memcpy", |to, from| to.copy_from_slice(from));
                self.copy_gb_per_s = row.gb_per_s;
                Row { of_copy: 1.0, ..row }
            }
            Load::Add(kernel) => {
                self.each("xor", &kernel.to_string(), |to, from| kernel.add(to, from))
            }
            Load::MultiplyAdd(kernel) => {
                let times = black_box(0x53);
                let multiply_add =
                    |to: &mut [u8], from: &[u8]| kernel.multiply_add(to, from, times);
                self.each("multiply-add", &kernel.to_string(), multiply_add)
            }
            Load::Encode(code) => self.encode(code),
            Load::Decode(code, missing) => self.decode(code, missing),
        }
    }

    /// An operation on one packet after the other.
    fn each(&self, what: &'static str, by: &str, operation: impl Fn(&mut [u8], &[u8])) -> Row {
        let packets: Vec<_> = self.packets.iter().map(Payload::to_bytes).collect();
        let mut result = vec![0; self.packet_bytes];
        let seconds = best(self.settings.time, || {
            for packet in &packets {
                operation(black_box(&mut result), black_box(packet));
            }
        });
        self.row(what, by, seconds, PACKETS)
    }

    /// Makes one repair after the other.
    fn encode(&self, code: Code) -> Row {
        let mut window = Window::new(code.packets);
        self.packets.iter().enumerate().for_each(|(id, packet)| window.push(id, packet.clone()));
        let mut sum = Sum::with_capacity(self.packet_bytes);
        let seconds = best(self.settings.time, || {
            black_box(&window).add_to(&mut sum, code.first_seed);
            black_box(sum.take_coded());
        });
        let row = self.row("encode", code.name, seconds, code.packets);
        Row { packets_per_s: Some(1.0 / seconds), ..row }
    }

    /// Recovers the first packets of a window from as many repairs.
    fn decode(&self, code: Code, missing: usize) -> Row {
        let ids: Vec<usize> = (0..code.packets).collect();
        let packets = &self.packets[..code.packets];
        let repairs: Vec<(u32, Coded)> = (0..missing as u32)
            .map(|number| {
                let seed = code.first_seed + number;
                let mut sum = Sum::default();
                for (packet, times) in packets.iter().zip(Coefficients::new(seed)) {
                    sum.add_times(packet, times);
                }
                (seed, sum.take_coded())
            })
            .collect();
        let mut decoder = Decoder::new(code.method, Bounds::default());
        let mut recovered = Vec::new();
        let seconds = best(self.settings.time, || {
            for (seed, coded) in black_box(&repairs) {
                let known = |id: usize| (id >= missing).then(|| &packets[id]);
                decoder.add_repair(&ids, *seed, coded, known, &mut recovered);
            }
            assert_eq!(recovered.len(), missing, "as many repairs recover as many packets");
            black_box(&mut recovered).clear();
        });
        let row = self.row("decode", code.name, seconds, missing * code.packets);
        let packets_per_s = Some(missing as f64 / seconds);
        Row { missing: Some(missing), packets_per_s, ..row }
    }

    fn row(&self, what: &'static str, by: &str, seconds: f64, packets: usize) -> Row {
        let gb_per_s = (packets * self.packet_bytes) as f64 / seconds / 1e9;
        Row {
            what,
            by: by.to_owned(),
            packet_bytes: self.packet_bytes,
            missing: None,
            gb_per_s,
            of_copy: gb_per_s / self.copy_gb_per_s,
            packets_per_s: None,
        }
    }
}

/// Seconds that it takes once: the best of some parts of the time.
fn best(time: Duration, mut work: impl FnMut()) -> f64 {
    let part = time / PARTS;
    let mut best = f64::INFINITY;
    let mut at_once = 1u32;
    let began = WallClock::now();
    while best.is_infinite() || began.elapsed() < time {
        let started = WallClock::now();
        for _ in 0..at_once {
            work();
        }
        let took = started.elapsed();
        if took < part / 2 && at_once < u32::MAX / 2 {
            // A warm-up, and too short for the clock.
            at_once *= 2;
            continue;
        }
        best = best.min(took.as_secs_f64() / f64::from(at_once));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::Quiet;

    #[test]
    fn every_way_is_measured_at_every_size() {
        let rows = run(Settings { time: Duration::from_micros(100) }, &Quiet).expect("not stopped");
        let kernels = Kernel::available().count();
        for packet_bytes in SIZES {
            let at_size = || rows.iter().filter(|row| row.packet_bytes == packet_bytes);
            let count = |what| at_size().filter(|row| row.what == what).count();
            let counts = ["copy", "xor", "multiply-add", "encode", "decode"].map(count);
            assert_eq!(counts, [1, kernels, kernels, 2, 3], "at {packet_bytes} bytes");
            assert!(at_size().all(|row| row.gb_per_s > 0.0 && row.of_copy.is_finite()));
        }
    }
}
