//! The few system calls that no safe wrapper offers, each behind a safe function.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::fd::{FromRawFd, OwnedFd};
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::time::Duration;

use bytes::BytesMut;
use socket2::SockRef;
#[cfg(any(target_os = "linux", target_os = "android"))]
use tokio::io::{Interest, unix::AsyncFd};
use tokio::net::TcpStream;

/// Bytes in the kernel's send queue that were not sent yet, not counting what is in flight.
///
/// Linux's `SIOCOUTQNSD`. Elsewhere 0: the backlog is then the user-space queue alone.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn unsent_bytes(stream: &TcpStream) -> usize {
    // `asm-generic/sockios.h`; libc does not name it.
    const SIOCOUTQNSD: libc::c_ulong = 0x894B;
    let mut unsent: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as `stream` is borrowed, and the kernel writes
    // one `int` to the pointer, which is valid for the duration of the call.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), SIOCOUTQNSD as _, &raw mut unsent) };
    if result == 0 { unsent.max(0) as usize } else { 0 }
}

/// See the Linux version.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn unsent_bytes(_stream: &TcpStream) -> usize {
    0
}

/// Sets how many unsent bytes the kernel takes before the stream counts as full
/// (`TCP_NOTSENT_LOWAT`). Wakes a waiting writer if the new bound is already met.
pub(crate) fn set_unsent_bytes_max(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return SockRef::from(stream).set_tcp_notsent_lowat(bytes);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = (stream, bytes);
        Ok(())
    }
}

/// Asks whether the stream is writable. If it is not, the kernel will signal when it becomes so,
/// even though no write failed: this arms the edge.
pub(crate) fn check_writable(stream: &TcpStream) -> io::Result<()> {
    let mut entry = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, valid and exclusively borrowed for the call, which does not block.
    match unsafe { libc::poll(&raw mut entry, 1, 0) } {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        n if n < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Receives into the spare capacity of `buffer` with one system call and lengthens it.
pub(crate) fn receive_into(stream: &TcpStream, buffer: &mut BytesMut) -> io::Result<usize> {
    let received = SockRef::from(stream).recv(buffer.spare_capacity_mut())?;
    // SAFETY: the kernel initialised the first `received` bytes of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + received) };
    Ok(received)
}

/// A timer on the monotonic clock, off, that is readable once it has rung. Needs a runtime.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn create_timer() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened `fd` for us and nobody else knows it.
    let timer = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an `OwnedFd` is open and stays the same descriptor until it is dropped, which only
    // the `AsyncFd` that now owns it can do.
    let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// Sets a timer in place of its former setting, or turns it off.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn set_timer(timer: &OwnedFd, after: Option<Duration>) -> io::Result<()> {
    // SAFETY: all zeros is a valid value of this plain structure: a timer that is off.
    let mut setting: libc::itimerspec = unsafe { std::mem::zeroed() };
    if let Some(after) = after {
        setting.it_value.tv_sec = after.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        // Zero would turn the timer off.
        setting.it_value.tv_nsec = after.subsec_nanos().max(1).into();
    }
    // SAFETY: the descriptor is open while `timer` is borrowed; the kernel reads one structure
    // and, given a null pointer, writes none.
    let result = unsafe {
        libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
