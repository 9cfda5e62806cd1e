//! Large pages for large arrays.
//!
//! A walk reads at random places of arrays of many megabytes. With pages of 4 KiB most reads also
//! miss the TLB; with pages of 2 MiB hardly any does.

/// Arrays below this size, bytes, keep their pages: they fit into a cache and few pages.
const BYTES_MIN: usize = 4 << 20;

/// Requests large pages for an array before it is filled.
///
/// Has no effect if the system has none.
pub fn prepare<T>(array: &[T]) {
    #[cfg(target_os = "linux")]
    linux::advise(array, libc::MADV_HUGEPAGE);
    #[cfg(not(target_os = "linux"))]
    let _ = array;
}

/// Moves a filled array into large pages: about 100 us a megabyte at the first call, no time later.
///
/// Has no effect if the system does not support it (Linux before 6.1).
pub fn consolidate<T>(array: &[T]) {
    prepare(array);
    #[cfg(target_os = "linux")]
    linux::advise(array, libc::MADV_COLLAPSE);
}

/// A vector of zeros, in large pages if possible. The system allocates them on first access.
pub fn zeros<T: Clone + From<u8>>(count: usize) -> Vec<T> {
    // For integers `vec!` requests fresh pages instead of writing zeros.
    let array = vec![T::from(0); count];
    prepare(&array);
    array
}

/// The peak memory of this process, bytes; `None` if the system does not report it.
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(|kilobytes: u64| kilobytes * 1024)
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "advice to the kernel goes by a system call")]
mod linux {
    use super::BYTES_MIN;

    /// Granularity of `madvise`. Linux refuses addresses that are no multiple of a page, and pages
    /// have at most this size on the processors that it runs on.
    const PAGE: usize = 64 << 10;

    pub fn advise<T>(array: &[T], advice: libc::c_int) {
        let bytes = size_of_val(array);
        if bytes < BYTES_MIN {
            return;
        }
        let address = array.as_ptr() as usize;
        let begin = address.next_multiple_of(PAGE);
        let length = (address + bytes).saturating_sub(begin) / PAGE * PAGE;
        // SAFETY: the range lies within the array, which is borrowed. Both kinds of advice (large
        // pages for what comes, and for what is there) leave its content as it is. A refusal
        // leaves the pages as they are.
        unsafe {
            libc::madvise(begin as *mut libc::c_void, length, advice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_leaves_content_as_it_is() {
        let mut array: Vec<u32> = zeros(3 << 20);
        assert!(array.iter().all(|&entry| entry == 0));
        for (place, entry) in array.iter_mut().enumerate() {
            *entry = place as u32;
        }
        consolidate(&array);
        consolidate(&array[7..]);
        assert!(array.iter().enumerate().all(|(place, &entry)| entry == place as u32));
    }
}
