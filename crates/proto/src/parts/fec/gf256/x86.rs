//! Vector instructions of x86-64.
//!
//! Loads and stores are written with integers, which needs no `unsafe`; each compiles to one
//! unaligned load or store.

use std::arch::x86_64::*;

use super::portable::{self, BIT_PRODUCTS, HALF_PRODUCTS};

/// `destination += source`, 32 bytes a step. Both have the same length.
#[target_feature(enable = "avx2")]
pub fn add_avx2(destination: &mut [u8], source: &[u8]) {
    // Inlined here, it is compiled for these wider registers.
    portable::add(destination, source);
}

/// `destination += source * coefficient`, 16 bytes a step. Both have the same length.
///
/// A product is the sum of the products of the source's lower and upper four bits, and each of
/// these is looked up, 16 at once. Plank, Greenan, Miller, *Screaming Fast Galois Field Arithmetic
/// Using Intel SIMD Instructions*, FAST 2013.
#[target_feature(enable = "ssse3")]
pub fn multiply_add_ssse3(destination: &mut [u8], source: &[u8], coefficient: u8) {
    let [low, high] = HALF_PRODUCTS[usize::from(coefficient)].each_ref().map(|half| load16(half));
    let half = _mm_set1_epi8(0x0F);
    let (sums, sum_rest) = destination.as_chunks_mut();
    let (terms, term_rest) = source.as_chunks();
    for (sum, term) in sums.iter_mut().zip(terms) {
        let term = load16(term);
        let from_low = _mm_shuffle_epi8(low, _mm_and_si128(term, half));
        let from_high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi64::<4>(term), half));
        store16(sum, _mm_xor_si128(load16(sum), _mm_xor_si128(from_low, from_high)));
    }
    portable::multiply_add_few(sum_rest, term_rest, coefficient);
}

/// [`multiply_add_ssse3`], 32 bytes a step.
#[target_feature(enable = "avx2")]
pub fn multiply_add_avx2(destination: &mut [u8], source: &[u8], coefficient: u8) {
    let halves = HALF_PRODUCTS[usize::from(coefficient)].each_ref().map(|half| load16(half));
    let [low, high] = halves.map(|half| _mm256_broadcastsi128_si256(half));
    let half = _mm256_set1_epi8(0x0F);
    let (sums, sum_rest) = destination.as_chunks_mut();
    let (terms, term_rest) = source.as_chunks();
    for (sum, term) in sums.iter_mut().zip(terms) {
        let term = load32(term);
        let from_low = _mm256_shuffle_epi8(low, _mm256_and_si256(term, half));
        let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(term), half);
        let product = _mm256_xor_si256(from_low, _mm256_shuffle_epi8(high, upper));
        store32(sum, _mm256_xor_si256(load32(sum), product));
    }
    multiply_add_ssse3(sum_rest, term_rest, coefficient);
}

/// `destination += source * coefficient`, 32 bytes a step. Both have the same length.
///
/// Multiplication by a constant is linear over bits, so one instruction does it: the product of a
/// byte and a matrix of 8 x 8 bits. The field of that instruction set's own multiplication is
/// another one.
#[target_feature(enable = "avx2,gfni")]
pub fn multiply_add_gfni(destination: &mut [u8], source: &[u8], coefficient: u8) {
    let matrix = _mm256_set1_epi64x(MATRICES[usize::from(coefficient)].cast_signed());
    let (sums, sum_rest) = destination.as_chunks_mut();
    let (terms, term_rest) = source.as_chunks();
    for (sum, term) in sums.iter_mut().zip(terms) {
        let product = _mm256_gf2p8affine_epi64_epi8::<0>(load32(term), matrix);
        store32(sum, _mm256_xor_si256(load32(sum), product));
    }
    multiply_add_ssse3(sum_rest, term_rest, coefficient);
}

/// Of each coefficient the matrix that multiplies by it. Byte 7 - i has the bits of the source
/// whose sum is bit i of the product.
static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut place = 0;
        while place < 64 {
            let (i, bit) = (place / 8, place % 8);
            if BIT_PRODUCTS[coefficient][bit] >> i & 1 == 1 {
                matrices[coefficient] |= 1 << ((7 - i) * 8 + bit);
            }
            place += 1;
        }
        coefficient += 1;
    }
    matrices
};

#[target_feature(enable = "ssse3")]
fn load16(bytes: &[u8; 16]) -> __m128i {
    let value = u128::from_le_bytes(*bytes);
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}

#[target_feature(enable = "ssse3")]
fn store16(bytes: &mut [u8; 16], value: __m128i) {
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(value, value)).to_le_bytes();
    let (words, _) = bytes.as_chunks_mut();
    words.copy_from_slice(&[_mm_cvtsi128_si64(value).to_le_bytes(), high]);
}

#[target_feature(enable = "avx2")]
fn load32(bytes: &[u8; 32]) -> __m256i {
    let word = |place| i64::from_le_bytes(bytes.as_chunks().0[place]);
    _mm256_setr_epi64x(word(0), word(1), word(2), word(3))
}

#[target_feature(enable = "avx2")]
fn store32(bytes: &mut [u8; 32], value: __m256i) {
    let words = [
        _mm256_extract_epi64::<0>(value),
        _mm256_extract_epi64::<1>(value),
        _mm256_extract_epi64::<2>(value),
        _mm256_extract_epi64::<3>(value),
    ];
    bytes.as_chunks_mut().0.copy_from_slice(&words.map(i64::to_le_bytes));
}
