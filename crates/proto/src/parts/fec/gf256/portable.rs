use super::double;

/// `destination += source`. Compilers make vector instructions of it.
#[inline]
pub fn add(destination: &mut [u8], source: &[u8]) {
    for (sum, term) in destination.iter_mut().zip(source) {
        *sum ^= term;
    }
}

/// `destination += source * coefficient`, bit by bit of the source, the highest first. There is
/// neither table nor branch, so that compilers make vector instructions of it too.
pub fn multiply_add(destination: &mut [u8], source: &[u8], coefficient: u8) {
    let products = BIT_PRODUCTS[usize::from(coefficient)];
    for (sum, term) in destination.iter_mut().zip(source) {
        let mut bits = *term;
        for product in products.iter().rev() {
            let mask = bits.cast_signed() >> 7;
            *sum ^= mask.cast_unsigned() & product;
            bits <<= 1;
        }
    }
}

/// [`multiply_add`] for a few bytes: what is left after the last whole vector.
pub fn multiply_add_few(destination: &mut [u8], source: &[u8], coefficient: u8) {
    let [low, high] = &HALF_PRODUCTS[usize::from(coefficient)];
    for (sum, term) in destination.iter_mut().zip(source) {
        *sum ^= low[usize::from(term & 15)] ^ high[usize::from(term >> 4)];
    }
}

/// Of each coefficient its products with 1, x, .., x^7.
pub static BIT_PRODUCTS: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut product = coefficient as u8;
        let mut bit = 0;
        while bit < 8 {
            table[coefficient][bit] = product;
            product = double(product);
            bit += 1;
        }
        coefficient += 1;
    }
    table
};

/// Of each coefficient its products with 0 to 15, and with 0, 16, .., 240: 8 KiB.
pub static HALF_PRODUCTS: [[[u8; 16]; 2]; 256] = {
    let mut table = [[[0; 16]; 2]; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut value = 1;
        while value < 16 {
            // Without its lowest bit the value is smaller, so its product is known.
            let bit = usize::trailing_zeros(value) as usize;
            let rest = value & (value - 1);
            let products = BIT_PRODUCTS[coefficient];
            let [low, high] = table[coefficient];
            table[coefficient][0][value] = low[rest] ^ products[bit];
            table[coefficient][1][value] = high[rest] ^ products[bit + 4];
            value += 1;
        }
        coefficient += 1;
    }
    table
};
