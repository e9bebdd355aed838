//! How log files are compressed: what their names say, and reading through the compression.
//!
//! Readers treat a compressed file like the plain one. A `.gz` may have several members and a `.zst` several frames,
//! as in files made by joining others.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// Not at all.
    Off,
    /// RFC 1952.
    #[default]
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// All kinds, plain first.
    pub const ALL: [Self; 3] = [Self::Off, Self::Gzip, Self::Zstd];

    /// Suffix of file names, after `.csv`.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Off => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }

    /// Splits a file name into its compression and the name of the plain file.
    #[must_use]
    pub fn of_name(name: &str) -> (Self, &str) {
        [Self::Gzip, Self::Zstd]
            .into_iter()
            .find_map(|c| Some((c, name.strip_suffix(c.suffix())?)))
            .unwrap_or((Self::Off, name))
    }

    /// The decoded contents of an input with this compression.
    #[must_use]
    pub fn decode(self, input: impl Read + Send + 'static) -> Box<dyn Read + Send> {
        let input = BufReader::with_capacity(1 << 16, input);
        match self {
            Self::Off => Box::new(input),
            Self::Gzip => Box::new(MultiGzDecoder::new(input)),
            Self::Zstd => Box::new(ZstdReader::new(input)),
        }
    }
}

/// The decoded contents of a file, whose name says how it is compressed.
///
/// # Errors
/// The file cannot be opened.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Compression::of_name(&name).0.decode(File::open(path)?))
}

/// Bytes decoded at a time.
const DECODED: usize = 1 << 16;

/// Reads zstd frames one after the other.
struct ZstdReader<I> {
    input: I,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<I: BufRead> ZstdReader<I> {
    fn new(input: I) -> Self {
        Self { input, decoder: FrameDecoder::new(), in_frame: false }
    }

    /// Begins the next frame; `false` at the end of the input.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped =
                        io::copy(&mut (&mut self.input).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<I: BufRead> Read for ZstdReader<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_finished = self.decoder.is_finished();
            if self.in_frame {
                let ready = self.decoder.can_collect();
                if ready > 0 {
                    return self.decoder.read(buffer);
                }
                if !is_finished {
                    self.decoder
                        .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBytes(DECODED))
                        .map_err(io::Error::other)?;
                    continue;
                }
                if let (Some(said), Some(is)) =
                    (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum())
                    && said != is
                {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "checksum does not match",
                    ));
                }
            }
            self.in_frame = self.begin_frame()?;
            if !self.in_frame {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn contents(name: &str, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut contents = Vec::new();
        open(&path)?.read_to_end(&mut contents)?;
        Ok(contents)
    }

    #[test]
    fn files_are_read_as_their_names_say() {
        let text: Vec<u8> =
            (0..200_000u32).flat_map(|i| (i % 977).to_string().into_bytes()).collect();
        let both = [text.clone(), text.clone()].concat();
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        assert_eq!(contents("a.csv", &text).unwrap(), text);
        assert_eq!(contents("a.csv.gz", &gzip(&text)).unwrap(), text);
        assert_eq!(contents("a.csv.gz", &gzip(&text).repeat(2)).unwrap(), both);
        assert_eq!(contents("a.csv.zst", &zstd(&text)).unwrap(), text);
        let frames = [zstd(&text), skippable, zstd(&text)].concat();
        assert_eq!(contents("a.csv.zst", &frames).unwrap(), both);
        assert_eq!(contents("a.csv.zst", b"").unwrap(), b"");
    }

    #[test]
    fn what_is_cut_or_rubbish_is_an_error() {
        let text = b"id,parent,method\n".repeat(9_000);
        for (name, bytes) in [("a.gz", gzip(&text)), ("a.zst", zstd(&text))] {
            assert!(contents(name, &bytes[..bytes.len() / 2]).is_err(), "{name}");
            assert!(contents(name, b"id,parent,method\n1,2,3\n").is_err(), "{name}");
        }
        let mut wrong = zstd(&text);
        let last = wrong.len() - 1;
        wrong[last] ^= 1;
        assert!(contents("a.zst", &wrong).is_err());
    }
}
