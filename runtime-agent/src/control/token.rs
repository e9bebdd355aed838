//! The secret that clients have to know where there is one: the first line of a file which only its
//! owner may read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use subtle::ConstantTimeEq;

/// Longest token, in bytes; with its word it fits into a line.
const MAX_TOKEN: usize = 1_024;

/// A token. It is shown nowhere.
#[derive(Clone)]
pub(crate) struct Token {
    /// Zeros behind its end, so that every comparison takes as long.
    padded: [u8; MAX_TOKEN],
    length: u64,
}

impl Token {
    /// Reads the token in a file.
    ///
    /// # Errors
    /// One line: why it cannot be used.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let of = |what: &str| format!("token_file: {}: {what}", one_line(path));
        let io = |error: io::Error| of(&error.to_string());
        let file = open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(of("not a file"));
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(of(&format!("others than its owner may use it (mode {mode:03o})")));
        }
        let mut bytes = Vec::new();
        file.take(MAX_TOKEN as u64 + 2).read_to_end(&mut bytes).map_err(io)?;
        let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
        if line.is_empty() {
            return Err(of("its first line is empty"));
        }
        // It has to arrive as it is, in a line of text.
        if line.iter().any(|b| !b.is_ascii_graphic()) {
            return Err(of("a token has no spaces and none but ASCII characters"));
        }
        Self::of(line).ok_or_else(|| of(&format!("its first line is over {MAX_TOKEN} bytes")))
    }

    fn of(text: &[u8]) -> Option<Self> {
        let mut padded = [0; MAX_TOKEN];
        padded.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { padded, length: text.len() as u64 })
    }

    /// Whether a client has said the token. How long that takes tells nothing of it, its length
    /// included.
    pub(crate) fn is(&self, said: &str) -> bool {
        Self::of(said.as_bytes()).is_some_and(|said| {
            (self.padded.ct_eq(&said.padded) & self.length.ct_eq(&said.length)).into()
        })
    }

    /// The line that says it.
    #[cfg(feature = "cli")]
    pub(crate) fn line(&self) -> String {
        let text = self.padded.split(|b| *b == 0).next().unwrap_or_default();
        format!("token {}\n", String::from_utf8_lossy(text))
    }
}

/// Opens a file, without waiting for whoever is to write into a pipe of that name.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

fn one_line(path: &Path) -> String {
    path.display().to_string().replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_token_is_the_first_line_of_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &[u8], mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map_err(|e| e.rsplit(": ").next().unwrap_or_default().to_owned())
        };
        for text in [&b"s3cret"[..], b"s3cret\n", b"s3cret\r\nmore\n", b" s3cret \n"] {
            let token = read(text, 0o600).unwrap_or_else(|e| panic!("{e}"));
            assert!(token.is("s3cret"));
            for wrong in ["", "s3cre", "s3crets", "S3cret", "s3cret\0", &"x".repeat(5_000)] {
                assert!(!token.is(wrong), "{wrong:?}");
            }
        }
        let longest = vec![b'x'; MAX_TOKEN];
        assert!(read(&longest, 0o400).unwrap().is(&"x".repeat(MAX_TOKEN)));
        for (text, mode, message) in [
            (&b""[..], 0o600, "its first line is empty"),
            (b"\ns3cret\n", 0o600, "its first line is empty"),
            (b"two words\n", 0o600, "a token has no spaces and none but ASCII characters"),
            (b"gr\xc3\xbcn\n", 0o600, "a token has no spaces and none but ASCII characters"),
            (&vec![b'x'; MAX_TOKEN + 1], 0o600, "its first line is over 1024 bytes"),
            (b"s3cret\n", 0o640, "others than its owner may use it (mode 640)"),
            (b"s3cret\n", 0o604, "others than its owner may use it (mode 604)"),
            (b"s3cret\n", 0o620, "others than its owner may use it (mode 620)"),
        ] {
            assert_eq!(read(text, mode).err().as_deref(), Some(message));
        }
        assert!(Token::read(folder.path()).err().unwrap().ends_with("not a file"));
        fs::remove_file(&path).unwrap();
        assert!(Token::read(&path).err().unwrap().contains("No such file"));
    }
}
