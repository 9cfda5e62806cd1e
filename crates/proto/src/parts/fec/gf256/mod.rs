//! The field of 256 elements: polynomials over bits, modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D).
//!
//! Addition and subtraction are both exclusive or. [`multiply`] and [`inverse`] are for single
//! elements; for packets, [`add`] and [`multiply_add`] use the fastest [`Kernel`] of the machine.
//! RFC 8681, section 3.7.2, has the same field.

mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use kernel::Kernel;

/// `a * b`.
pub const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize]
}

/// The element whose product with `a` is 1; none for 0.
pub const fn inverse(a: u8) -> Option<u8> {
    match a {
        0 => None,
        _ => Some(POWERS[255 - LOGARITHMS[a as usize] as usize]),
    }
}

/// `destination += source`, byte for byte, up to the end of the shorter one.
pub fn add(destination: &mut [u8], source: &[u8]) {
    Kernel::best().add(destination, source);
}

/// `destination += source * coefficient`, byte for byte, up to the end of the shorter one.
pub fn multiply_add(destination: &mut [u8], source: &[u8], coefficient: u8) {
    Kernel::best().multiply_add(destination, source, coefficient);
}

/// `a * x`.
const fn double(a: u8) -> u8 {
    (a << 1) ^ (if a & 0x80 == 0 { 0 } else { 0x1D })
}

/// The powers of x, which generates the group, twice around: a sum of two logarithms needs no
/// remainder.
static POWERS: [u8; 510] = {
    let mut powers = [1; 510];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = double(powers[exponent - 1]);
        exponent += 1;
    }
    powers
};

/// To which power x must be raised; that of 0 is not used.
static LOGARITHMS: [u8; 256] = {
    let mut logarithms = [0; 256];
    let mut exponent = 0;
    while exponent < 255 {
        logarithms[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    logarithms
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as the definition has it: shift, add, reduce.
    fn by_definition(a: u8, b: u8) -> u8 {
        let mut wide = (0..8)
            .fold(0u16, |sum, bit| sum ^ (if b >> bit & 1 == 1 { u16::from(a) << bit } else { 0 }));
        for bit in (8..16).rev() {
            if wide >> bit & 1 == 1 {
                wide ^= 0x11D << (bit - 8);
            }
        }
        wide as u8
    }

    #[test]
    fn products_are_those_of_the_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), by_definition(a, b), "{a} * {b}");
            }
        }
        assert_eq!(multiply(2, 0x80), 0x1D);
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        assert_eq!(inverse(0), None);
        for a in 1..=255 {
            assert_eq!(inverse(a).map(|inverse| multiply(a, inverse)), Some(1), "{a}");
        }
    }
}
