//! Vector instructions of AArch64, where every machine has them.

use std::arch::aarch64::*;

use super::portable::{self, HALF_PRODUCTS};

/// `destination += source * coefficient`, 16 bytes a step. Both have the same length. A product is
/// looked up by halves, as with SSSE3 on x86-64.
#[target_feature(enable = "neon")]
pub fn multiply_add_neon(destination: &mut [u8], source: &[u8], coefficient: u8) {
    let [low, high] = HALF_PRODUCTS[usize::from(coefficient)].each_ref().map(|half| load(half));
    let half = vdupq_n_u8(0x0F);
    let (sums, sum_rest) = destination.as_chunks_mut();
    let (terms, term_rest) = source.as_chunks();
    for (sum, term) in sums.iter_mut().zip(terms) {
        let term = load(term);
        let from_low = vqtbl1q_u8(low, vandq_u8(term, half));
        let from_high = vqtbl1q_u8(high, vshrq_n_u8::<4>(term));
        store(sum, veorq_u8(load(sum), veorq_u8(from_low, from_high)));
    }
    portable::multiply_add_few(sum_rest, term_rest, coefficient);
}

#[target_feature(enable = "neon")]
fn load(bytes: &[u8; 16]) -> uint8x16_t {
    let word = |place| vcreate_u8(u64::from_le_bytes(bytes.as_chunks().0[place]));
    vcombine_u8(word(0), word(1))
}

#[target_feature(enable = "neon")]
fn store(bytes: &mut [u8; 16], value: uint8x16_t) {
    let words = vreinterpretq_u64_u8(value);
    let words = [vgetq_lane_u64::<0>(words), vgetq_lane_u64::<1>(words)];
    bytes.as_chunks_mut().0.copy_from_slice(&words.map(u64::to_le_bytes));
}
