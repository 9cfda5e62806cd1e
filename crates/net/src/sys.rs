//! The three system calls that no safe wrapper offers, each behind a safe function.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use bytes::BytesMut;
use socket2::SockRef;
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
