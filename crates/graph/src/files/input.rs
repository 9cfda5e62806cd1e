//! Bytes of a file, decompressed if need be, in blocks of whole lines.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::FileError;

/// Bytes of a file, decompressed.
pub type Plain = Box<dyn Read + Send>;

/// Bytes asked of the system at once.
const READ_BYTES: usize = 1 << 20;

/// The file's content, by its first bytes.
pub fn decompressed(path: &Path, file: impl Read + Send + 'static) -> Result<Plain, FileError> {
    let mut file = BufReader::with_capacity(READ_BYTES, file);
    let head = file.fill_buf().map_err(|source| FileError::system(path, source))?;
    Ok(match *head {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(file)),
        // A frame, or one to be skipped.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(Zstd { file, decoder: FrameDecoder::new(), is_in_frame: false })
        }
        _ => Box::new(file),
    })
}

/// Frames of zstd, one behind the other.
struct Zstd<R> {
    file: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Begins the next frame; false at the end of the file.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.file.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.file) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.file).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_in_frame {
                if !self.next_frame()? {
                    return Ok(0);
                }
                self.is_in_frame = true;
            }
            if self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let some = BlockDecodingStrategy::UptoBytes(into.len());
                self.decoder.decode_blocks(&mut self.file, some).map_err(io::Error::other)?;
            }
            let read = self.decoder.read(into)?;
            if read > 0 {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                let stated = self.decoder.get_checksum_from_data();
                if stated.is_some() && stated != self.decoder.get_calculated_checksum() {
                    return Err(io::Error::other("the checksum of a frame is wrong"));
                }
                self.is_in_frame = false;
            }
        }
    }
}

/// Text in blocks that end with a line.
pub struct Blocks {
    plain: Plain,
    /// The beginning of the line that the last block did not end with.
    rest: Vec<u8>,
    is_at_end: bool,
}

/// Why a block cannot be had.
pub enum BlockError {
    /// The file cannot be read. The number counts the whole lines read of this block.
    Read(io::Error, u64),
    /// There is no end of a line in a whole block.
    LongLine,
}

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4 << 20;

impl Blocks {
    pub fn new(plain: Plain) -> Blocks {
        Blocks { plain, rest: Vec::new(), is_at_end: false }
    }

    /// The next block; empty at the end.
    pub fn next(&mut self) -> Result<Vec<u8>, BlockError> {
        let mut block = std::mem::take(&mut self.rest);
        block.reserve_exact(BLOCK_BYTES.saturating_sub(block.len()));
        while !self.is_at_end && block.len() < BLOCK_BYTES {
            let wanted = (BLOCK_BYTES - block.len()) as u64;
            match (&mut self.plain).take(wanted).read_to_end(&mut block) {
                Ok(0) => self.is_at_end = true,
                Ok(_) => {}
                Err(error) => {
                    return Err(BlockError::Read(error, lines(&block)));
                }
            }
        }
        if !self.is_at_end {
            let end = memchr::memrchr(b'\n', &block).ok_or(BlockError::LongLine)? + 1;
            self.rest = block.split_off(end);
        }
        Ok(block)
    }
}

/// Ends of lines.
pub fn lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
