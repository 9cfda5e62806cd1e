//! The few system calls that no safe wrapper offers, each behind a safe function.
#![allow(unsafe_code, reason = "system calls that no safe wrapper offers")]

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use bytes::BytesMut;
#[cfg(target_os = "linux")]
use socket2::SockAddr;
use socket2::SockRef;
use tokio::io::{Interest, unix::AsyncFd};
use tokio::net::TcpStream;

/// True where [`path`] answers.
pub(crate) const KNOWS_PATHS: bool = cfg!(target_os = "linux");

/// What the kernel has seen of a stream's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// A moving average over the latest round trips.
    pub(crate) trip_smoothed: Duration,
    /// The least round trip of the last minutes.
    pub(crate) trip_least: Duration,
    /// Payload of a full segment.
    pub(crate) segment_bytes: u32,
    /// Bytes that the peer has acknowledged, in all.
    pub(crate) acknowledged_bytes: u64,
}

/// Asks for the path of a stream (`TCP_INFO`).
#[cfg(target_os = "linux")]
pub(crate) fn path(stream: &TcpStream) -> io::Result<Path> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the descriptor is open while `stream` is borrowed, and the kernel writes at most
    // `length` bytes to the structure, which is as long.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // Before Linux 4.6 the kernel does not report the least and it stays 0: the path then counts as
    // short.
    let micros = |micros: u32| Duration::from_micros(micros.into());
    Ok(Path {
        trip_smoothed: micros(info.tcpi_rtt),
        trip_least: micros(info.tcpi_min_rtt),
        segment_bytes: info.tcpi_snd_mss,
        acknowledged_bytes: info.tcpi_bytes_acked,
    })
}

/// See the Linux version.
#[cfg(not(target_os = "linux"))]
pub(crate) fn path(_stream: &TcpStream) -> io::Result<Path> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Bytes of a stream that the peer has not acknowledged, sent or not (`SIOCOUTQ`).
#[cfg(target_os = "linux")]
pub(crate) fn unacknowledged_bytes(stream: &TcpStream) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open while `stream` is borrowed; the kernel writes one `int`.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(bytes.max(0) as usize) } else { Err(io::Error::last_os_error()) }
}

/// See the Linux version.
#[cfg(not(target_os = "linux"))]
pub(crate) fn unacknowledged_bytes(_stream: &TcpStream) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets how many bytes must have arrived before a stream counts as readable (`SO_RCVLOWAT`). An
/// end or a fault counts always. Elsewhere than on Linux nothing is set.
pub(crate) fn set_readable_bytes(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let bytes = bytes.min(i32::MAX as u32) as libc::c_int;
        // SAFETY: the descriptor is open while `stream` is borrowed; the kernel reads one `int`.
        let result = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (stream, bytes);
        Ok(())
    }
}

/// Sets how many bytes of a stream the kernel holds, sent or not, their bookkeeping included.
/// Wakes a waiting writer if there is room now. Beyond what the machine lets a program ask for
/// (`net.core.wmem_max`) the size is the kernel's choice again.
pub(crate) fn set_send_buffer_bytes(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    let socket = SockRef::from(stream);
    // Linux doubles what it is asked for.
    let half = bytes as usize / 2;
    socket.set_send_buffer_size(half)?;
    #[cfg(target_os = "linux")]
    if socket.send_buffer_size()? < 2 * half {
        let unlocked: libc::c_int = 0;
        // SAFETY: the descriptor is open while `stream` is borrowed; the kernel reads one `int`.
        // Linux before 5.14 refuses the option and stays at its limit.
        unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_BUF_LOCK,
                (&raw const unlocked).cast(),
                size_of_val(&unlocked) as libc::socklen_t,
            );
        }
    }
    Ok(())
}

/// Sets how many unsent bytes the kernel takes before the stream counts as full
/// (`TCP_NOTSENT_LOWAT`).
pub(crate) fn set_unsent_bytes_max(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return SockRef::from(stream).set_tcp_notsent_lowat(bytes);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = (stream, bytes);
        Ok(())
    }
}

/// Sends with one system call and ends the device's packet (`MSG_EOR`): if all is taken, the kernel
/// appends nothing to it later.
pub(crate) fn send_last(stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    let flags = libc::MSG_EOR;
    #[cfg(not(target_os = "linux"))]
    let flags = 0;
    SockRef::from(stream).send_vectored_with_flags(slices, flags)
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
    // SAFETY: the kernel has just opened `fd` for this call, so it has no other owner.
    let timer = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an `OwnedFd` is open and stays the same descriptor until it is dropped, which only
    // the `AsyncFd` that now owns it can do.
    let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// Signals of one kind for a UDP socket, until dropped. Needs a runtime.
pub(crate) fn register_udp(
    socket: &UdpSocket,
    interest: Interest,
) -> io::Result<AsyncFd<UdpSocket>> {
    // A descriptor of its own, so that each kind can come and go.
    let socket = socket.try_clone()?;
    // SAFETY: a `UdpSocket` is open and stays the same descriptor until it is dropped, which only
    // the `AsyncFd` that now owns it can do.
    let registered = unsafe { AsyncFd::register_with_interest(socket, interest) };
    registered.map_err(io::Error::from)
}

/// Lets the network cut what a UDP socket sends into fragments where it is longer than a link's
/// packets (`IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`). Elsewhere than on Linux nothing is set.
pub(crate) fn allow_fragments(socket: &UdpSocket) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let set = |level, option, value: libc::c_int| {
            // SAFETY: the descriptor is open while `socket` is borrowed; the kernel reads an `int`.
            let result = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    level,
                    option,
                    (&raw const value).cast(),
                    size_of_val(&value) as libc::socklen_t,
                )
            };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        if socket.local_addr()?.is_ipv6() {
            set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT)?;
            set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0)?;
        }
        // A socket of IPv6 may have peers of IPv4.
        set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        Ok(())
    }
}

/// Datagrams for one address, all but the last of one size, that the kernel is handed at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// Where it goes.
    pub(crate) to: SocketAddr,
    /// One datagram or several.
    pub(crate) bytes: &'a [u8],
    /// Length of each but the last.
    pub(crate) segment_bytes: usize,
}

impl Part<'_> {
    /// How many datagrams it has.
    pub(crate) fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.segment_bytes)
    }

    /// Where the kernel must cut it, if at all.
    pub(crate) fn cut_at(&self) -> Option<usize> {
        (self.bytes.len() > self.segment_bytes).then_some(self.segment_bytes)
    }
}

/// Parts that [`send_many`] takes at most.
pub(crate) const SENDS_MAX: usize = 32;
/// True where [`send_many`] exists.
pub(crate) const SENDS_MANY: bool = cfg!(target_os = "linux");

/// Sends several parts with one system call (`sendmmsg`); the kernel cuts each into its segments
/// (`UDP_SEGMENT`). The first `None` ends the list. Returns how many were taken, one at least.
#[cfg(target_os = "linux")]
pub(crate) fn send_many(socket: &UdpSocket, parts: &[Option<Part<'_>>]) -> io::Result<usize> {
    /// Room for one control message with a `u16`, aligned as its header wants it.
    #[derive(Clone, Copy)]
    #[repr(C, align(8))]
    struct Control([u8; 24]);
    // SAFETY: the macro computes a length.
    const CONTROL_BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as usize;
    const { assert!(CONTROL_BYTES <= size_of::<Control>()) };
    const { assert!(align_of::<libc::cmsghdr>() <= align_of::<Control>()) };

    let mut addresses: [Option<SockAddr>; SENDS_MAX] = [const { None }; SENDS_MAX];
    let mut controls = [Control([0; 24]); SENDS_MAX];
    // SAFETY: all zeros is a valid value of these plain structures.
    let mut slices: [libc::iovec; SENDS_MAX] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; SENDS_MAX] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    for part in parts.iter().map_while(|part| *part).take(SENDS_MAX) {
        let address = addresses[count].insert(SockAddr::from(part.to));
        slices[count] = libc::iovec {
            iov_base: part.bytes.as_ptr().cast_mut().cast(),
            iov_len: part.bytes.len(),
        };
        let message = &mut messages[count].msg_hdr;
        message.msg_name = address.as_ptr().cast_mut().cast();
        message.msg_namelen = address.len();
        message.msg_iov = &raw mut slices[count];
        message.msg_iovlen = 1;
        if let Some(cut_at) = part.cut_at().and_then(|bytes| u16::try_from(bytes).ok()) {
            message.msg_control = (&raw mut controls[count]).cast();
            message.msg_controllen = CONTROL_BYTES as _;
            // SAFETY: the control buffer is as long as `msg_controllen` says and aligned, so the
            // first header lies within it and has room for a `u16` behind it.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(message);
                (*header).cmsg_level = libc::SOL_UDP;
                (*header).cmsg_type = libc::UDP_SEGMENT;
                (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
                std::ptr::write_unaligned(libc::CMSG_DATA(header).cast::<u16>(), cut_at);
            }
        }
        count += 1;
    }
    // SAFETY: the descriptor is open while `socket` is borrowed. The first `count` messages point
    // to addresses, slices and control buffers that live to the end of this function; the kernel
    // reads these and writes to the messages alone.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, 0)
    };
    if sent > 0 { Ok(sent as usize) } else { Err(io::Error::last_os_error()) }
}

/// See the Linux version.
#[cfg(not(target_os = "linux"))]
pub(crate) fn send_many(_socket: &UdpSocket, _parts: &[Option<Part<'_>>]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets a timer, replacing its former setting, or turns it off.
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
