// A function compiled for instructions that not every machine has is unsafe to call from one that
// is not. There is no safe way to choose at run time. These calls are all the `unsafe` there is in
// this crate.
#![allow(unsafe_code, reason = "instructions are chosen at run time")]

use std::fmt;

#[cfg(target_arch = "aarch64")]
use super::neon;
use super::portable;
#[cfg(target_arch = "x86_64")]
use super::x86;

/// A way to compute with packets that this machine is able to run. All give the same results.
///
/// [`super::add`] and [`super::multiply_add`] use the best one; the others are for tests and
/// benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Kind);

/// Private, so that only `available` makes a `Kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Gfni,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Kernel {
    /// The fastest one. The standard library looks at the processor once, and remembers.
    #[inline]
    pub fn best() -> Kernel {
        Kernel(Kind::BY_SPEED.into_iter().find(|kind| kind.runs_here()).unwrap_or(Kind::Portable))
    }

    /// All, fastest first.
    pub fn available() -> impl Iterator<Item = Kernel> {
        Kind::BY_SPEED.into_iter().filter(|kind| kind.runs_here()).map(Kernel)
    }

    /// `destination += source`, byte for byte, up to the end of the shorter one.
    #[inline]
    pub fn add(self, destination: &mut [u8], source: &[u8]) {
        let (destination, source) = alike(destination, source);
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has AVX2: `runs_here` was true of this value when it was made.
            Kind::Avx2 | Kind::Gfni => unsafe { x86::add_avx2(destination, source) },
            _ => portable::add(destination, source),
        }
    }

    /// `destination += source * coefficient`, byte for byte, up to the end of the shorter one.
    #[inline]
    pub fn multiply_add(self, destination: &mut [u8], source: &[u8], coefficient: u8) {
        match coefficient {
            0 => return,
            1 => return self.add(destination, source),
            _ => {}
        }
        let (destination, source) = alike(destination, source);
        // SAFETY, of each call: the processor has what the function was compiled for: `runs_here`
        // was true of this value when it was made.
        match self.0 {
            Kind::Portable => portable::multiply_add(destination, source, coefficient),
            #[cfg(target_arch = "x86_64")]
            Kind::Ssse3 => unsafe { x86::multiply_add_ssse3(destination, source, coefficient) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { x86::multiply_add_avx2(destination, source, coefficient) },
            #[cfg(target_arch = "x86_64")]
            Kind::Gfni => unsafe { x86::multiply_add_gfni(destination, source, coefficient) },
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => unsafe { neon::multiply_add_neon(destination, source, coefficient) },
        }
    }
}

impl Kind {
    #[cfg(target_arch = "x86_64")]
    const BY_SPEED: [Kind; 4] = [Kind::Gfni, Kind::Avx2, Kind::Ssse3, Kind::Portable];
    #[cfg(target_arch = "aarch64")]
    const BY_SPEED: [Kind; 2] = [Kind::Neon, Kind::Portable];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const BY_SPEED: [Kind; 1] = [Kind::Portable];

    /// Whether this processor has all that the functions of this kind were compiled for.
    #[inline]
    fn runs_here(self) -> bool {
        match self {
            Kind::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kind::Ssse3 => is_x86_feature_detected!("ssse3"),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Kind::Gfni => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni"),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => std::arch::is_aarch64_feature_detected!("neon"),
        }
    }
}

/// Its name, as the processor's maker has it.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Ssse3 => "ssse3",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Gfni => "gfni",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
        })
    }
}

/// Both, up to the end of the shorter one.
#[inline]
fn alike<'d, 's>(destination: &'d mut [u8], source: &'s [u8]) -> (&'d mut [u8], &'s [u8]) {
    let len = destination.len().min(source.len());
    (&mut destination[..len], &source[..len])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::multiply;
    use super::*;
    use crate::core::Rng;

    /// Of every kernel, `add` and `multiply_add` at this place and length against single products,
    /// with a border that must stay as it is.
    fn check(bytes: &[u8], offset: usize, len: usize, coefficient: u8) {
        let source = &bytes[offset..offset + len];
        for kernel in Kernel::available() {
            for border in [0, 1, 3] {
                let before: Vec<u8> = bytes.iter().rev().copied().collect();
                let expected = |times: u8| -> Vec<u8> {
                    let mut sums = before.clone();
                    for (sum, &term) in sums[border..].iter_mut().zip(source) {
                        *sum ^= multiply(term, times);
                    }
                    sums
                };
                let mut sums = before.clone();
                kernel.add(&mut sums[border..border + len], source);
                assert_eq!(sums, expected(1), "{kernel}: add, {len} bytes at {offset}");
                let mut sums = before.clone();
                kernel.multiply_add(&mut sums[border..border + len], source, coefficient);
                let place = format!("{kernel}: {coefficient}, {len} bytes at {offset}");
                assert_eq!(sums, expected(coefficient), "{place}");
            }
        }
    }

    fn random_bytes(len: usize) -> Vec<u8> {
        let mut rng = Rng::new(1, 1);
        (0..len).map(|_| rng.next_u32() as u8).collect()
    }

    /// The step through the cases of a test: all of them, or one in `many` under Miri, which is
    /// thousands of times slower.
    fn one_in(many: usize) -> usize {
        if cfg!(miri) { many } else { 1 }
    }

    #[test]
    fn every_kernel_is_right_at_every_length_to_130_and_unaligned() {
        let bytes = random_bytes(200);
        for len in (0..=130).step_by(one_in(13)) {
            for offset in [0, 1, 7, 16, 31] {
                check(&bytes, offset, len, (len * 7 + offset) as u8);
            }
        }
    }

    #[test]
    fn every_kernel_is_right_for_every_product() {
        let bytes: Vec<u8> = (0..=255).chain([0; 4]).collect();
        for coefficient in (0..=255).step_by(one_in(51)) {
            check(&bytes, 0, 256, coefficient);
        }
    }

    #[test]
    fn what_is_beyond_the_shorter_one_is_left_alone() {
        for kernel in Kernel::available() {
            let mut sums = [1; 40];
            kernel.multiply_add(&mut sums, &[1; 33], 3);
            assert_eq!((sums[32], sums[33]), (2, 1), "{kernel}");
            kernel.add(&mut sums[..2], &[2; 40]);
            assert_eq!(sums[..3], [0, 0, 2], "{kernel}");
        }
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "thousands of packets")]
        fn kernels_agree(
            bytes in proptest::collection::vec(any::<u8>(), 4..400),
            offset in 0usize..40,
            coefficient: u8,
        ) {
            let offset = offset.min(bytes.len() - 3);
            let len = bytes.len() - offset.max(3);
            check(&bytes, offset, len, coefficient);
        }
    }
}
